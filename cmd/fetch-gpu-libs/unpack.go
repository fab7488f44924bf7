package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/symphony-serving/symphony/cmd/internal/fetch"
)

// placed is a file that was unpacked.
type placed struct {
	name string // below the folder
	size int64
}

// unpack writes the files that are needed of a wheel into dir, each under its name only
// once it is whole.
func (w wheel) unpack(ctx context.Context, archive, dir string) ([]placed, error) {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", archive, err)
	}
	defer z.Close()
	members, err := w.needed(z.File)
	if err != nil {
		return nil, err
	}
	var out []placed
	for _, m := range members {
		name := strings.TrimPrefix(m.Name, w.folder+"/")
		if err := extract(ctx, m, filepath.Join(dir, name)); err != nil {
			return nil, err
		}
		out = append(out, placed{name, int64(m.UncompressedSize64)})
	}
	for _, l := range w.links {
		link, target, _ := strings.Cut(l, "=")
		info, err := os.Stat(filepath.Join(dir, target))
		if err != nil {
			return nil, err
		}
		at := filepath.Join(dir, link)
		if err := os.Remove(at); err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		if err := os.Symlink(target, at); err != nil {
			return nil, err
		}
		out = append(out, placed{link, info.Size()})
	}
	return out, nil
}

// needed are the members that the patterns name; each must name one. A name that leads
// out of the folder condemns the whole wheel, needed or not.
func (w wheel) needed(files []*zip.File) ([]*zip.File, error) {
	var out []*zip.File
	found := make([]bool, len(w.members))
	for _, f := range files {
		if !filepath.IsLocal(f.Name) || strings.Contains(f.Name, `\`) {
			return nil, fmt.Errorf("the wheel has a file %q, which would lie outside of the folder: it is refused", f.Name)
		}
		name, ok := strings.CutPrefix(f.Name, w.folder+"/")
		if !ok {
			continue
		}
		for i, pattern := range w.members {
			if ok, err := path.Match(pattern, name); err != nil {
				return nil, err
			} else if ok {
				if !f.Mode().IsRegular() {
					return nil, fmt.Errorf("the wheel's %s is not a file (%v)", f.Name, f.Mode())
				}
				found[i] = true
				out = append(out, f)
				break
			}
		}
	}
	for i, ok := range found {
		if !ok {
			return nil, fmt.Errorf("the wheel has no %s/%s", w.folder, w.members[i])
		}
	}
	return out, nil
}

func extract(ctx context.Context, m *zip.File, to string) (err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := m.Open()
	if err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	defer in.Close()
	out, err := os.OpenFile(to+".part", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, fetch.Reader(ctx, in))
	if err == nil {
		err = out.Sync()
	}
	err = errors.Join(err, out.Close())
	if err != nil {
		_ = os.Remove(to + ".part") // makes room; the wheel is still there
	}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("the disk is full: %s needs %s: make room and try again", to, mb(int64(m.UncompressedSize64)))
	case err != nil:
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	return os.Rename(to+".part", to)
}
