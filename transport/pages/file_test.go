package pages

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A file's bytes are read from its begin, whatever was read of it before; Close may come twice, and an empty file has none.
func TestReadFile(t *testing.T) {
	for _, want := range [][]byte{nil, []byte("weights"), bytes.Repeat([]byte("0123456789"), 1<<18)} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		from, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(want) > 0 {
			if _, err := from.Read(make([]byte, 3)); err != nil {
				t.Fatal(err)
			}
		}
		f, err := ReadFile(from)
		if err != nil || !bytes.Equal(f.Bytes(), want) {
			t.Fatalf("%d bytes of %d, %v", len(f.Bytes()), len(want), err)
		}
		if err := from.Close(); err != nil {
			t.Fatal(err)
		}
		if f.Close(); f.Bytes() != nil {
			t.Error("bytes after Close")
		}
		f.Close()
		if _, err := ReadFile(from); err == nil {
			t.Error("read a file that is closed")
		}
	}
}
