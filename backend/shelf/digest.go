package shelf

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// file is one of a manifest.
type file struct {
	path string // relative, with slashes
	size int64
	sum  [sha256.Size]byte
}

// manifest is what a digest is of: a line for each file, sorted by path, with the SHA-256 of
// its bytes in hexadecimal, its size, and its path.
func manifest(files []file) []byte {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	var text []byte
	for _, f := range files {
		text = fmt.Appendf(text, "%s %d %s\n", hex.EncodeToString(f.sum[:]), f.size, f.path)
	}
	return text
}

// DigestOf is the digest of a model's version in a folder: of its config.yaml and of all files
// below <version>, of which an emulated model has none. Other versions, and what else lies
// there, do not count. bytes are those of all the files together.
func DigestOf(dir, version string) (digest catalog.Digest, bytes int64, err error) {
	if err := checkVersion(version); err != nil {
		return "", 0, err
	}
	src, err := openFolder(dir)
	if err != nil {
		return "", 0, err
	}
	defer src.close()
	ctx := context.Background()
	objects, total, err := list(ctx, src, version)
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", dir, err)
	}
	var files []file
	for _, o := range objects {
		in, err := src.open(ctx, o.path)
		if err != nil {
			return "", 0, err
		}
		h := sha256.New()
		n, err := io.Copy(h, in)
		if err := firstOf(err, in.Close(), sized(o, n)); err != nil {
			return "", 0, fmt.Errorf("%s: %w", o.path, err)
		}
		files = append(files, file{o.path, n, [sha256.Size]byte(h.Sum(nil))})
	}
	return catalog.DigestOf(manifest(files)), total, nil
}

// Digest is DigestOf's. That of a folder which Fetch has lent is known.
func (s *Shelf) Digest(dir, version string) (catalog.Digest, int64, error) {
	if at := filepath.Dir(dir); filepath.Dir(at) == filepath.Clean(s.c.Dir) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if it := s.items[catalog.Digest(filepath.Base(at))]; it != nil {
			return it.digest, it.bytes, nil
		}
	}
	return DigestOf(dir, version)
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// sized says when a file was not as long as its listing said.
func sized(o object, got int64) error {
	if got != o.size {
		return fmt.Errorf("it has %d bytes, and was listed with %d: it changes while it is read", got, o.size)
	}
	return nil
}
