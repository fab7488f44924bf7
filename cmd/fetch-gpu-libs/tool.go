package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/cmd/internal/fetch"
)

// tool fetches wheels into a folder. Beside what it unpacks lies a folder .fetch with the
// wheels that are coming and a stamp for each that was unpacked.
type tool struct {
	index  string // of the Python package index, simple API; "" pip's
	dir    string
	keep   bool   // the wheels
	names  string // the command that names the wheels, for who has no network
	free   func(dir string) (int64, error)
	getter fetch.Getter
	out    io.Writer
}

func (t tool) state() string { return filepath.Join(t.dir, ".fetch") }

// archive is where a wheel lies while it is needed.
func (t tool) archive(w wheel) string { return filepath.Join(t.state(), w.file) }

func (t tool) list(wheels []wheel) {
	for _, w := range wheels {
		have := "to fetch"
		if t.present(w) {
			have = "there"
		}
		fmt.Fprintf(t.out, "%-24s %-14s %8s, unpacked %8s, %s: %s\n", w.project, w.version, mb(w.size), mb(w.unpacked), have, w.file)
	}
	fmt.Fprintf(t.out, "into %s; wheels that lie in %s are not fetched\n", t.dir, t.state())
}

// fetch brings what is missing.
func (t tool) fetch(ctx context.Context, wheels []wheel) error {
	var missing []wheel
	var size int64
	for _, w := range wheels {
		if !t.present(w) {
			missing = append(missing, w)
			size += w.size - t.kept(w)
		}
	}
	if len(missing) == 0 {
		fmt.Fprintf(t.out, "all packages are there: %s\n", t.dir)
		return nil
	}
	if err := os.MkdirAll(t.state(), 0o755); err != nil {
		return err
	}
	unlock, err := t.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := t.room(missing); err != nil {
		return err
	}
	if t.index == "" {
		t.index = fetch.Registry("PIP_INDEX_URL", []string{"pip", "config", "get", "global.index-url"}, "https://pypi.org/simple")
	}
	fmt.Fprintf(t.out, "%d of %d packages are there; fetching %s from %s into %s\n", len(wheels)-len(missing), len(wheels), mb(size), fetch.Shown(t.index), t.dir)
	for _, w := range missing {
		if err := t.one(ctx, w); err != nil {
			return fmt.Errorf("%s %s: %w", w.project, w.version, err)
		}
	}
	fmt.Fprintf(t.out, "all packages are there: %s\n", t.dir)
	return nil
}

// one wheel: found in the index, fetched, checked, unpacked, stamped.
func (t tool) one(ctx context.Context, w wheel) error {
	file := fetch.File{Path: t.archive(w), Size: w.size, Sum: w.sum}
	if fetch.Check(ctx, file.Path, w.sum) != nil { // else someone placed it there
		var err error
		if file.URL, err = fetch.Find(ctx, t.index, w.project, w.file); err != nil {
			return fmt.Errorf("%w\nWithout a network: place the files that `%s` names in %s, and run this again", err, t.names, t.state())
		}
		if err := t.getter.Get(ctx, file); err != nil {
			return err
		}
	}
	if err := t.place(ctx, w); err != nil {
		return err
	}
	if t.keep {
		return nil
	}
	return os.Remove(file.Path)
}

// kept is how much an earlier run left of a wheel.
func (t tool) kept(w wheel) int64 {
	for _, path := range []string{t.archive(w), t.archive(w) + ".part"} {
		if info, err := os.Stat(path); err == nil {
			return min(info.Size(), w.size)
		}
	}
	return 0
}

// room refuses to begin what the disk cannot hold: all that is unpacked, and the largest
// wheel beside it (all of them if they are kept).
func (t tool) room(missing []wheel) error {
	var unpacked, largest, all, here int64
	for _, w := range missing {
		unpacked += w.unpacked
		all += w.size
		largest = max(largest, w.size)
		here += t.kept(w)
	}
	if t.keep {
		largest = all
	}
	need := unpacked + max(0, largest-here)
	free, err := t.free(t.dir)
	if err != nil {
		return fmt.Errorf("the room on the disk: %w", err)
	}
	if free < need {
		return fmt.Errorf("the disk of %s has room for %s, %s are needed: make room, or choose another folder with -o or fewer packages with -only", t.dir, mb(free), mb(need))
	}
	return nil
}

// lock keeps a second fetch out of the folder: both would append to the same files.
func (t tool) lock() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(t.state(), "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another fetch is under way into %s", t.dir), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

func mb(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }
