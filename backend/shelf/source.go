package shelf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Limits of a source.
const (
	filesMax  = 1000    // of a version
	configMax = 1 << 20 // bytes of config.yaml
	pathMax   = 512     // bytes of a file's path
	config    = "config.yaml"
	warmup    = "warmup" // folder of files that config.yaml names as warm-up inputs
)

// source is where a model's files are.
type source interface {
	// walk calls f with each file below a folder, or with a file of that name; no such thing
	// is no error. "." is all of it.
	walk(ctx context.Context, prefix string, f func(o object) error) error
	open(ctx context.Context, path string) (io.ReadCloser, error)
	close()
}

// object is a file of a source.
type object struct {
	path string
	size int64
}

// list finds a version's files, within the limits.
func list(ctx context.Context, src source, version string) (objects []object, total int64, err error) {
	add := func(o object) error {
		switch {
		case checkPath(o.path) != nil:
			return checkPath(o.path)
		case o.path == config && o.size > configMax:
			return fmt.Errorf("%s has %d bytes, at most %d are read", config, o.size, configMax)
		case len(objects) == filesMax:
			return fmt.Errorf("version %s has more than %d files", version, filesMax)
		}
		objects, total = append(objects, o), total+o.size
		return nil
	}
	if err := src.walk(ctx, config, add); err != nil {
		return nil, 0, err
	}
	if len(objects) != 1 || objects[0].path != config {
		return nil, 0, errors.New("there is no config.yaml")
	}
	for _, below := range []string{version, warmup} {
		if err := src.walk(ctx, below, add); err != nil {
			return nil, 0, err
		}
	}
	return objects, total, nil
}

// checkPath refuses a path that is none below a folder, or that no model has.
func checkPath(p string) error {
	if !fs.ValidPath(p) || p == "." || path.Clean(p) != p || len(p) > pathMax || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == ':' }) {
		return fmt.Errorf("the file %.80q has a name that is not taken: names are plain paths below the model's folder, of at most %d bytes", p, pathMax)
	}
	return nil
}

// checkVersion refuses a version that is no folder's name.
func checkVersion(v string) error {
	plain := strings.ContainsFunc(v, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("._-", r)
	})
	if v == "" || len(v) > 64 || plain || v[0] == '.' || v == config || v == warmup {
		return fmt.Errorf("version %.80q is no name of a folder: letters, digits, '.', '_' and '-', at most 64", v)
	}
	return nil
}
