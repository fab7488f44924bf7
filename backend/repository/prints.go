package repository

import (
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Print is what a model's folder looks like: it differs when a file in it has come, gone or
// changed, as far as names, sizes and times tell.
type Print struct {
	Config   uint64            // of config.yaml, and of the files that its warmup may name
	Versions map[string]uint64 // of a version's files
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

// printFiles bounds the files of a version that are looked at.
const printFiles = 1000

// Prints looks over a repository without reading a file. By model.
func Prints(dir string) (map[string]Print, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("model repository: %w", err)
	}
	all := map[string]Print{}
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if info, err := os.Stat(at); err != nil || !info.IsDir() {
			continue
		}
		all[e.Name()] = printOf(at)
	}
	return all, nil
}

// PrintOf is a model's; of a folder that is not there, one that equals none that is.
func PrintOf(dir, name string) Print { return printOf(filepath.Join(dir, name)) }

func printOf(dir string) Print {
	h := fnv.New64a()
	printInto(h, filepath.Join(dir, "config.yaml"), 0)
	printInto(h, filepath.Join(dir, WarmupDir), 0)
	p := Print{Config: h.Sum64(), Versions: map[string]uint64{}}
	entries, _ := os.ReadDir(dir) // a folder that goes has none
	for _, e := range entries {
		if _, err := strconv.ParseUint(e.Name(), 10, 32); err == nil {
			p.Versions[e.Name()] = printTree(filepath.Join(dir, e.Name()))
		}
	}
	return p
}

// printTree is of a file, or of a folder and the files in it.
func printTree(path string) uint64 {
	h := fnv.New64a()
	printInto(h, path, 0)
	return h.Sum64()
}

func printInto(h io.Writer, path string, depth int) {
	info, err := os.Stat(path)
	if err != nil {
		fmt.Fprint(h, path, " is not there\n")
		return
	}
	if !info.IsDir() {
		fmt.Fprintln(h, path, info.Size(), info.ModTime().UnixNano(), info.Mode())
		return
	}
	fmt.Fprintln(h, path)
	entries, _ := os.ReadDir(path)
	for i, e := range entries {
		if i == printFiles || depth > 4 {
			return
		}
		printInto(h, filepath.Join(path, e.Name()), depth+1)
	}
}

// LoadModel reads one model of a repository, all its versions.
func LoadModel(dir, name string) (models []Model, failed []error, err error) {
	in, err := placeOf(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("model repository: %w", err)
	}
	path := filepath.Join(dir, name)
	if _, err := in.stat(path); err != nil {
		return nil, []error{&ModelError{name, path, err}}, nil
	}
	models, failed = in.loadModel(path)
	return models, failed, nil
}
