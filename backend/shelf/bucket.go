package shelf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// bucket is a source in an object store.
type bucket struct {
	b   *blob.Bucket
	own bool // it is closed with the source
}

// ErrURL: a source's address that cannot be used.
var ErrURL = errors.New("models are got from a folder (file:///models/resnet), or s3://, gs:// or azblob:// with a bucket and a prefix")

// open finds a source by its URL.
func (s *Shelf) open(ctx context.Context, address string) (source, error) {
	u, err := url.Parse(address)
	if err != nil || address == "" {
		return nil, fmt.Errorf("%q: %w", address, ErrURL)
	}
	switch u.Scheme {
	case "", "file":
		if u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) {
			return nil, fmt.Errorf("%q is no absolute path of this host: %w", address, ErrURL)
		}
		return openFolder(u.Path)
	}
	prefix := strings.Trim(u.Path, "/")
	u.Path = ""
	b, err := s.c.Buckets(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", withoutQuery(address), err)
	}
	if prefix != "" {
		b = blob.PrefixedBucket(b, prefix+"/")
	}
	return &bucket{b: b, own: true}, nil
}

// withoutQuery leaves out what may be secret.
func withoutQuery(address string) string {
	address, _, _ = strings.Cut(address, "?")
	return address
}

func (k *bucket) close() {
	if k.own {
		_ = k.b.Close()
	}
}

// walk implements source.
func (k *bucket) walk(ctx context.Context, prefix string, each func(object) error) error {
	if prefix == "." {
		return k.below(ctx, "", each)
	}
	switch a, err := k.b.Attributes(ctx, prefix); {
	case err == nil:
		return each(object{prefix, a.Size})
	case gcerrors.Code(err) != gcerrors.NotFound:
		return err
	}
	return k.below(ctx, prefix+"/", each)
}

// below calls f with each file whose name begins so.
func (k *bucket) below(ctx context.Context, prefix string, each func(object) error) error {
	all := k.b.List(&blob.ListOptions{Prefix: prefix})
	for {
		o, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if strings.HasSuffix(o.Key, "/") && o.Size == 0 {
			continue // some stores keep a folder as an empty object
		}
		if err := each(object{o.Key, o.Size}); err != nil {
			return err
		}
	}
}

func (k *bucket) open(ctx context.Context, path string) (io.ReadCloser, error) {
	return k.b.NewReader(ctx, path, nil)
}
