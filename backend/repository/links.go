package repository

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// place is the repository's folder, links and all resolved. Links inside of it are
// followed; one that leads out is refused: who may put a model into the folder could
// otherwise have the backend open, and show, files of the host.
type place struct{ root string }

func placeOf(dir string) (place, error) {
	root, err := filepath.EvalSymlinks(dir)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	return place{root}, err
}

// stat is what the path leads to, which is inside.
func (p place) stat(path string) (fs.FileInfo, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		if target, e := os.Readlink(path); e == nil && errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("it is a link to %s, which is not there", target)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errNotThere
		}
		return nil, err
	}
	if inside, err := filepath.Rel(p.root, real); err != nil || inside == ".." || strings.HasPrefix(inside, ".."+string(filepath.Separator)) {
		return nil, fmt.Errorf("a link leads out of the repository, to %s, and is not followed: put the files into %s, or make that folder the repository", real, p.root)
	}
	return os.Stat(real)
}

// errNotThere: a path names nothing.
var errNotThere = errors.New("there is no such file")
