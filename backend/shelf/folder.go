package shelf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// folder is a source on this host. Nothing outside of it is opened, whatever links say (os.Root).
type folder struct{ root *os.Root }

func openFolder(dir string) (*folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &folder{root}, nil
}

func (f *folder) close() { _ = f.root.Close() }

// walk implements source. Links are followed as far as they stay inside.
func (f *folder) walk(ctx context.Context, prefix string, each func(object) error) error {
	info, err := f.root.Stat(prefix)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := f.root.Lstat(prefix); err == nil {
			return fmt.Errorf("%s is a link to what is not there", prefix)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w (links that lead out are not followed)", prefix, err)
	}
	return f.visit(ctx, prefix, info, each, 0)
}

// depthMax bounds how deep folders lie in each other: links may go round.
const depthMax = 8

func (f *folder) visit(ctx context.Context, at string, info fs.FileInfo, each func(object) error, depth int) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case info.Mode().IsRegular():
		return each(object{at, info.Size()})
	case !info.IsDir():
		return fmt.Errorf("%s is no regular file", at)
	case depth == depthMax:
		return fmt.Errorf("%s: folders more than %d deep", at, depthMax)
	}
	dir, err := f.root.Open(at)
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(filesMax + 1)
	_ = dir.Close()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(names) > filesMax {
		return fmt.Errorf("%s has more than %d files", at, filesMax)
	}
	for _, name := range names {
		below := path.Join(at, name)
		info, err := f.root.Stat(below)
		if err != nil {
			return fmt.Errorf("%s: %w (links that lead out are not followed)", below, err)
		}
		if err := f.visit(ctx, below, info, each, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (f *folder) open(_ context.Context, path string) (io.ReadCloser, error) {
	return f.root.Open(path)
}
