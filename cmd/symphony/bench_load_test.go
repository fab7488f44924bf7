package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// An interrupted run counts what had passed by then, however long it drains.
func TestCountedUntil(t *testing.T) {
	c := loadCmd{Warmup: 10 * time.Millisecond, Duration: time.Hour}
	ctx, cancel := context.WithCancel(t.Context())
	counted := c.countedUntil(ctx)
	if got := counted(); got != time.Hour {
		t.Errorf("not interrupted: %v counted", got)
	}
	start := time.Now()
	counted = c.countedUntil(ctx)
	time.Sleep(30 * time.Millisecond)
	cancel()
	time.Sleep(time.Second) // a drain
	if got := counted(); got < 20*time.Millisecond || got > time.Since(start)-500*time.Millisecond {
		t.Errorf("interrupted 20 ms after the warm-up: %v counted", got)
	}
	c.Warmup = time.Hour
	if got := c.countedUntil(ctx)(); got > 0 {
		t.Errorf("interrupted in the warm-up: %v counted", got)
	}
}

// The file of --json is tried before the load, and stays as it was.
func TestCheckWritable(t *testing.T) {
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, "old.json"), filepath.Join(dir, "new.json")
	if err := os.WriteFile(old, []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "-", old, fresh, "/dev/null"} {
		if err := checkWritable("json", path); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
	if text, _ := os.ReadFile(old); string(text) != "kept" {
		t.Errorf("the old file holds %q", text)
	}
	if _, err := os.Stat(fresh); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the new file was left behind: %v", err)
	}
	if err := checkWritable("json", filepath.Join(dir, "none", "x.json")); err == nil || !strings.Contains(err.Error(), "--json") {
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
	c := checked{to: &full{room: 4}}
	for _, s := range []string{"abc", "de", "f"} { // "f" would fit: what follows a gap is not written
		_, _ = c.Write([]byte(s))
	}
	if c.err == nil || c.to.(*full).String() != "abc" {
		t.Errorf("error %v, written %q", c.err, c.to)
	}
}

// A wrong flag's error says where the right ones are listed.
func TestWrongFlagsHint(t *testing.T) {
	parser, err := kong.New(&cli{}, kong.Name("symphony"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse([]string{"bench", "load", "--bogus"})
	if err = withHint(err); err == nil || !strings.HasSuffix(err.Error(), "see `symphony bench load --help`") {
		t.Errorf("error %v", err)
	}
}
