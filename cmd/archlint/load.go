package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/symphony-serving/symphony"

// source is one parsed file.
type source struct {
	path    string // relative to the root, with slashes
	pkg     string // folder, relative to the root
	test    bool
	apart   bool // of a Go module of its own, which ./... does not reach
	lines   int
	fset    *token.FileSet
	file    *ast.File
	imports []string
}

// load parses every Go file below root, in path order.
func load(root string) ([]source, error) {
	var out []source
	var modules []string // below root
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != root && skipped(d.Name()) {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != root {
				modules = append(modules, path+string(filepath.Separator))
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		s, err := parse(root, path)
		if err != nil {
			return err
		}
		s.apart = slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(path, m) })
		out = append(out, s)
		return nil
	})
	return out, err
}

// skipped folders hold nothing that is written by hand.
func skipped(folder string) bool {
	return strings.HasPrefix(folder, ".") || folder == "testdata" || folder == "build" || folder == "bin"
}

func parse(root, path string) (source, error) {
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return source{}, err
	}
	rel = filepath.ToSlash(rel)
	s := source{path: rel, pkg: filepath.ToSlash(filepath.Dir(rel)), test: strings.HasSuffix(rel, "_test.go"), fset: token.NewFileSet()}
	s.file, err = parser.ParseFile(s.fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	s.lines = s.fset.File(s.file.Pos()).LineCount()
	for _, im := range s.file.Imports {
		p, err := strconv.Unquote(im.Path.Value)
		if err != nil {
			return source{}, err
		}
		s.imports = append(s.imports, p)
	}
	return s, nil
}
