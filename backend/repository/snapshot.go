package repository

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a version's files, as backend/shelf has them.
const (
	filesMax = 1000
	depthMax = 8
)

// roomLeft is what a Snapshot leaves of its file system for others.
const roomLeft = 256 << 20

var errNotRegular = errors.New("it is no regular file")

// ErrChanges: a model's files were written while they were read. What they become can be read when they have settled.
var ErrChanges = errors.New("its files are being changed: they are read again when they have settled")

// Snapshot copies a version of a model into a folder that only this process writes to: config.yaml, files of
// warm-up inputs, and all files below the version's folder. Links are followed as far as they stay in the repository. Inference
// libraries map weights, and read them again at each run: from a copy they get what was there when
// the model was loaded, whatever becomes of the repository.
//
// The copy is of one moment as far as can be told: names, sizes and times of all files are compared
// before and after, and ErrChanges says that they differ. What a file system's times do not tell is not
// seen: a write that keeps a file's size and sets its time back. Nor is a writer that pauses between two files
// for longer than the watch waits: the files that lay there then count as a model.
//
// The file system shares the bytes where it can (a clone); else they are copied, as far as there is room.
func Snapshot(ctx context.Context, root, name, version, into string) (Model, error) {
	in, err := placeOf(root)
	if err != nil {
		return Model{}, fmt.Errorf("model repository: %w", err)
	}
	dir := filepath.Join(root, name)
	before := printVersion(dir, version)
	models, failed := in.loadIn(root, name)
	m, err := pick(models, failed, dir, name, version)
	if err != nil {
		return Model{}, err
	}
	c := copier{ctx: ctx, in: in, from: dir, into: into}
	if err = c.file(ConfigFile); err == nil {
		err = c.tree(version, 0)
	}
	if err == nil && isThere(filepath.Join(dir, WarmupDir)) { // it counts for the model's digest
		err = c.tree(WarmupDir, 0)
	}
	if err != nil {
		return Model{}, &ModelError{Model: name, Version: version, File: c.at, Err: err}
	}
	if printVersion(dir, version) != before {
		return Model{}, &ModelError{Model: name, Version: version, File: dir, Err: ErrChanges}
	}
	m.Files, m.Path = into, filepath.Join(into, version, filepath.Base(m.Path))
	return m, nil
}

// Explain lets an error of a model's copy name the file in the repository, where its owner looks.
func (m *Model) Explain(err error) error {
	if err == nil || m.Files == "" || !strings.Contains(err.Error(), m.Files) {
		return err
	}
	return &explained{err, strings.ReplaceAll(err.Error(), m.Files, m.Dir)}
}

type explained struct {
	error
	text string
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.error }

// printVersion is of what a Snapshot has in it.
func printVersion(dir, version string) [3]uint64 {
	return [3]uint64{printTree(filepath.Join(dir, ConfigFile)), printTree(filepath.Join(dir, WarmupDir)), printTree(filepath.Join(dir, version))}
}

// copier copies files of a model's folder.
type copier struct {
	ctx        context.Context
	in         place
	from, into string
	files      int
	at         string // the last file
}

// tree copies a folder below the model's, with all that is in it.
func (c *copier) tree(path string, depth int) error {
	c.at = filepath.Join(c.from, path)
	if depth > depthMax {
		return fmt.Errorf("folders more than %d deep: links may go round", depthMax)
	}
	entries, err := os.ReadDir(c.at)
	if err == nil {
		err = os.Mkdir(filepath.Join(c.into, path), 0o700)
	}
	if err != nil {
		return changedIfGone(err)
	}
	for _, e := range entries {
		below := filepath.Join(path, e.Name())
		c.at = filepath.Join(c.from, below)
		info, err := c.in.stat(c.at)
		switch {
		case err != nil:
			return err
		case info.IsDir():
			err = c.tree(below, depth+1)
		default:
			err = c.file(below)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// file copies one, which is as it was before when that is done.
func (c *copier) file(path string) error {
	c.at = filepath.Join(c.from, path)
	if c.files++; c.files > filesMax+1 { // and config.yaml
		return fmt.Errorf("a version of more than %d files", filesMax)
	}
	if _, err := c.in.stat(c.at); err != nil {
		return err
	}
	from, before, err := openRegular(c.at)
	if err != nil {
		return changedIfGone(err)
	}
	defer from.Close()
	if before, err = c.rested(from, before); err != nil {
		return err
	}
	to, err := os.OpenFile(filepath.Join(c.into, path), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = c.bytes(to, from, before.Size())
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	after, err := from.Stat()
	if err == nil && (after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime())) {
		err = ErrChanges
	}
	return err
}

// racy is how young a file's last change may not be when it is read: file systems count time in ticks of some
// milliseconds, and a change in the tick of the last one is not seen.
const racy = 100 * time.Millisecond

// rested waits until a file has not changed for a tick, a second at most.
func (c *copier) rested(f *os.File, info fs.FileInfo) (fs.FileInfo, error) {
	for end := time.Now().Add(time.Second); ; {
		age := time.Since(info.ModTime())
		switch {
		case age < 0 || age >= racy: // of another clock, or long ago
			return info, nil
		case time.Now().After(end):
			return info, ErrChanges
		}
		select {
		case <-time.After(racy - age):
		case <-c.ctx.Done():
			return info, c.ctx.Err()
		}
		var err error
		if info, err = f.Stat(); err != nil {
			return info, err
		}
	}
}

// piece is what is copied between two looks at the context.
const piece = 64 << 20

func (c *copier) bytes(to, from *os.File, size int64) error {
	if clone(to, from) == nil {
		return nil
	}
	if err := room(to, size); err != nil {
		return err
	}
	for left := size; left > 0; {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(to, from, min(left, piece))
		if left -= n; errors.Is(err, io.EOF) {
			return ErrChanges // it was cut off
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// room says why a file's bytes do not go where a copy of it is.
func room(to *os.File, size int64) error {
	var at unix.Statfs_t
	if err := unix.Fstatfs(int(to.Fd()), &at); err != nil {
		return nil // writing says what is wrong
	}
	if free := int64(at.Bavail)*int64(at.Bsize) - roomLeft; size > free {
		return fmt.Errorf("it has %.1f MiB, and a copy of it is served, for which %.1f MiB are free in %s beside the %d MiB left to others: make room, or set backend.cache to a folder that has some",
			float64(size)/(1<<20), float64(max(0, free))/(1<<20), filepath.Dir(to.Name()), roomLeft>>20)
	}
	return nil
}

// changedIfGone is ErrChanges for a file that was there a moment ago.
func changedIfGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (%w)", ErrChanges, err)
	}
	return err
}

// openRegular opens a regular file for reading. It does not wait, as opening a pipe would wait for a writer.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// readFile is a small file's bytes.
func readFile(path string, most int64) ([]byte, error) {
	f, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > most {
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", info.Size(), most)
	}
	return io.ReadAll(io.LimitReader(f, most))
}
