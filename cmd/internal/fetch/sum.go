package fetch

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
)

// Check compares a file's checksum with the pinned one.
func Check(ctx context.Context, path, pinned string) error {
	var h hash.Hash
	var write func([]byte) string
	switch {
	case strings.HasPrefix(pinned, "sha256:"):
		h, write = sha256.New(), func(b []byte) string { return "sha256:" + hex.EncodeToString(b) }
	case strings.HasPrefix(pinned, "sha512-"):
		h, write = sha512.New(), func(b []byte) string { return "sha512-" + base64.StdEncoding.EncodeToString(b) }
	default:
		return fmt.Errorf("the pinned checksum %q is neither sha256:<hex> nor sha512-<base64>", pinned)
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := io.Copy(h, Reader(ctx, in)); err != nil {
		return err
	}
	if got := write(h.Sum(nil)); got != pinned {
		return fmt.Errorf("the archive's checksum is %s, %s is pinned: it is damaged or was replaced", got, pinned)
	}
	return nil
}

// Reader reads until the context ends: reading gigabytes of a disk takes long, too.
func Reader(ctx context.Context, r io.Reader) io.Reader { return reader{ctx, r} }

type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(b)
}
