package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The file of --json is tried before the load, and stays as it was.
func TestCheckWritable(t *testing.T) {
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, "old.json"), filepath.Join(dir, "new.json")
	if err := os.WriteFile(old, []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "-", old, fresh, "/dev/null"} {
		if err := CheckWritable("json", path); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
	if text, _ := os.ReadFile(old); string(text) != "kept" {
		t.Errorf("the old file holds %q", text)
	}
	if _, err := os.Stat(fresh); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the new file was left behind: %v", err)
	}
	if err := CheckWritable("json", filepath.Join(dir, "none", "x.json")); err == nil || !strings.Contains(err.Error(), "--json") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// full is a disk with room for some bytes.
type full struct {
	bytes.Buffer
	room int
}

func (f *full) Write(p []byte) (int, error) {
	if f.Len()+len(p) > f.room {
		return 0, errors.New("no space left")
	}
	return f.Buffer.Write(p)
}

func TestCheckedRemembers(t *testing.T) {
	c := Checked{To: &full{room: 4}}
	for _, s := range []string{"abc", "de", "f"} { // "f" would fit: what follows a gap is not written
		_, _ = c.Write([]byte(s))
	}
	if c.Err == nil || c.To.(*full).String() != "abc" {
		t.Errorf("error %v, written %q", c.Err, c.To)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 GPUs", 1: "1 GPU", 2: "2 GPUs"} {
		if got := Count(n, "GPU"); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}
