package shelf

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
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

// Sum is what a version's files come to.
type Sum struct {
	Version string
	Digest  catalog.Digest
	Files   int
	Bytes   int64 // of all together
}

// DigestOf is the digest of a model's version in a folder: of its config.yaml, of files of warm-up inputs, and of all files
// below <version>, of which an emulated model has none. Other versions, and what else lies
// there, do not count. bytes are those of all the files together.
func DigestOf(dir, version string) (digest catalog.Digest, bytes int64, err error) {
	src, err := openFolder(dir)
	if err != nil {
		return "", 0, err
	}
	defer src.close()
	sum, err := sumOf(context.Background(), src, version)
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", dir, err)
	}
	return sum.Digest, sum.Bytes, nil
}

// SumOf is the same of a source by its address, wherever Fetch would get it from. Without a version
// it is the only one that is there.
func SumOf(ctx context.Context, address, version string) (Sum, error) {
	s := Shelf{c: Config{Buckets: openBucket}}
	src, err := s.open(ctx, address)
	if err != nil {
		return Sum{}, err
	}
	defer src.close()
	if version == "" {
		version, err = onlyVersion(ctx, src)
	}
	var sum Sum
	if err == nil {
		sum, err = sumOf(ctx, src, version)
	}
	if err != nil {
		return Sum{}, fmt.Errorf("%s: %w", withoutQuery(address), err)
	}
	return sum, nil
}

func sumOf(ctx context.Context, src source, version string) (Sum, error) {
	if err := checkVersion(version); err != nil {
		return Sum{}, err
	}
	objects, total, err := list(ctx, src, version)
	if err != nil {
		return Sum{}, err
	}
	var files []file
	for _, o := range objects {
		in, err := src.open(ctx, o.path)
		if err != nil {
			return Sum{}, err
		}
		h := sha256.New()
		n, err := copyUntil(ctx, h, in)
		if err := firstOf(err, in.Close(), sized(o, n)); err != nil {
			return Sum{}, fmt.Errorf("%s: %w", o.path, err)
		}
		files = append(files, file{o.path, n, [sha256.Size]byte(h.Sum(nil))})
	}
	return Sum{Version: version, Digest: catalog.DigestOf(manifest(files)), Files: len(files), Bytes: total}, nil
}

// copyUntil is io.Copy that ends with its context.
func copyUntil(ctx context.Context, out io.Writer, in io.Reader) (n int64, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		k, err := io.CopyN(out, in, piece)
		n += k
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// versionsMax is how many versions are looked for in a folder where none is named.
const versionsMax = 1000

// onlyVersion is the version of a source that has one. One without any is an emulated model's: its
// config.yaml is all.
func onlyVersion(ctx context.Context, src source) (string, error) {
	found := map[string]bool{}
	err := src.walk(ctx, ".", func(o object) error {
		first, _, below := strings.Cut(strings.TrimPrefix(o.path, "./"), "/")
		if below && catalog.CheckVersion(first) == nil {
			found[first] = true
		}
		if len(found) > versionsMax {
			return errors.New("it has too many versions: name one")
		}
		return nil
	})
	all := slices.Sorted(maps.Keys(found))
	switch {
	case err != nil:
		return "", err
	case len(all) == 0:
		return "1", nil
	case len(all) > 1:
		return "", fmt.Errorf("it has versions %s: name one of them", strings.Join(all, ", "))
	}
	return all[0], nil
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
