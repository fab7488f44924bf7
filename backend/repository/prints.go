package repository

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// Print is what a model's folder looks like: it differs when a file in it has come, gone or
// changed, as far as names, sizes and times tell.
type Print struct {
	Config   uint64            // of config.yaml, and of the files that its warmup may name
	Versions map[string]uint64 // of a version's files

	files map[string]map[string]uint64 // by version of several files, and path
}

// Several reports whether a version of several files is another one than in before, which has it, too.
func (p Print) Several(before Print) bool {
	for v := range p.files {
		if h, had := before.Versions[v]; had && h != p.Versions[v] {
			return true
		}
	}
	return false
}

// Partly reports whether some files of a version are others than in before, and some are not: a version is being
// copied over another one file by file, perhaps.
func (p Print) Partly(before Print) bool {
	for v, files := range p.files {
		same, other := 0, 0
		for path, h := range files {
			if old, had := before.files[v][path]; had && old == h {
				same++
			} else {
				other++
			}
		}
		if same > 0 && other > 0 {
			return true
		}
	}
	return false
}

// Equal compares two.
func (p Print) Equal(o Print) bool {
	if p.Config != o.Config || len(p.Versions) != len(o.Versions) {
		return false
	}
	for v, h := range p.Versions {
		if other, ok := o.Versions[v]; !ok || other != h {
			return false
		}
	}
	return true
}

// printMost bounds the files of a version that are looked at.
const printMost = 1000

// Prints looks over a repository without reading a file. By model.
func Prints(dir string) (map[string]Print, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("model repository: %w", err)
	}
	all := map[string]Print{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if p, is := printAt(filepath.Join(dir, e.Name())); is {
			all[e.Name()] = p
		}
	}
	return all, nil
}

// isThere reports whether there is such a file, as far as can be told.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// PrintOf is a model's; of a folder that is not there, one that equals none that is.
func PrintOf(dir, name string) Print {
	p, _ := printAt(filepath.Join(dir, name))
	return p
}

// printAt is of a folder; false: it is none. What cannot be read now is not gone: a link to nothing, a folder without
// permissions.
func printAt(dir string) (p Print, is bool) {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return printOf(dir), true
	case err != nil && isThere(dir):
		return Print{Config: printTree(dir)}, true
	}
	return Print{}, false
}

func printOf(dir string) Print {
	h := fnv.New64a()
	printInto(h, filepath.Join(dir, ConfigFile), 0, nil)
	printInto(h, filepath.Join(dir, WarmupDir), 0, nil)
	p := Print{Config: h.Sum64(), Versions: map[string]uint64{}, files: map[string]map[string]uint64{}}
	entries, _ := os.ReadDir(dir) // a folder that goes has none
	for _, e := range entries {
		if catalog.MeansVersion(e.Name()) {
			files := map[string]uint64{}
			p.Versions[e.Name()] = printFiles(filepath.Join(dir, e.Name()), files)
			if len(files) > 1 {
				p.files[e.Name()] = files
			}
		}
	}
	return p
}

// printTree is of a file, or of a folder and the files in it.
func printTree(path string) uint64 { return printFiles(path, nil) }

// printFiles also notes each file's, where files is not nil.
func printFiles(path string, files map[string]uint64) uint64 {
	h := fnv.New64a()
	printInto(h, path, 0, files)
	return h.Sum64()
}

func printInto(h io.Writer, path string, depth int, files map[string]uint64) {
	info, err := os.Stat(path)
	if err != nil {
		fmt.Fprintln(h, path, "cannot be looked at:", err)
		return
	}
	if !info.IsDir() {
		line := fmt.Sprintln(path, info.Size(), info.ModTime().UnixNano(), info.Mode())
		fmt.Fprint(h, line)
		if files != nil {
			one := fnv.New64a()
			fmt.Fprint(one, line)
			files[path] = one.Sum64()
		}
		return
	}
	fmt.Fprintln(h, path)
	entries, _ := os.ReadDir(path)
	for i, e := range entries {
		if i == printMost || depth > depthMax {
			return
		}
		printInto(h, filepath.Join(path, e.Name()), depth+1, files)
	}
}

// LoadModel reads one model of a repository, all its versions.
func LoadModel(dir, name string) (models []Model, failed []error, err error) {
	in, err := placeOf(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("model repository: %w", err)
	}
	models, failed = in.loadIn(dir, name)
	return models, failed, nil
}

// loadIn reads one model of a repository.
func (in place) loadIn(dir, name string) (models []Model, failed []error) {
	path := filepath.Join(dir, name)
	if _, err := in.stat(path); err != nil {
		return nil, []error{&ModelError{Model: name, File: path, Err: err}}
	}
	return in.loadModel(path)
}
