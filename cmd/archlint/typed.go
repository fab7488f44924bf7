package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// typed is one package of this module with its types: the files that this machine's default
// build compiles, tests left out.
type typed struct {
	folder string // relative to the root
	fset   *token.FileSet
	files  []*ast.File
	info   *types.Info
}

// listed is what `go list -export` says of a package.
type listed struct {
	Dir, ImportPath   string
	Export            string // the compiler's file of its types
	GoFiles, CgoFiles []string
	DepOnly           bool
	ImportMap         map[string]string
	Error             *struct{ Err string }
}

// loadTyped type-checks the packages of a tree that has a go.mod. What they import comes from
// the compiler's own files in the build cache: nothing but the module's sources is parsed.
func loadTyped(root string) ([]typed, error) {
	list, err := goList(root)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, p := range list {
		exports[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	compiled := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no types of %s: does it build?", path)
		}
		return os.Open(exports[path])
	})
	absolute, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	var out []typed
	for _, p := range list {
		if p.DepOnly {
			continue
		}
		t, err := checkTypes(fset, compiled, absolute, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		out = append(out, t)
	}
	return out, nil
}

// goList asks the go command, which compiles what is not in its cache yet.
func goList(root string) ([]listed, error) {
	c := exec.Command("go", "list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles,CgoFiles,DepOnly,ImportMap,Error", "./...")
	c.Dir, c.Stderr = root, os.Stderr
	text, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var out []listed
	for d := json.NewDecoder(strings.NewReader(string(text))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		if p.Error != nil {
			return nil, errors.New(p.Error.Err)
		}
		out = append(out, p)
	}
}

func checkTypes(fset *token.FileSet, compiled types.Importer, root string, p listed) (typed, error) {
	folder, err := filepath.Rel(root, p.Dir)
	if err != nil {
		return typed{}, err
	}
	t := typed{folder: filepath.ToSlash(folder), fset: fset, info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, Instances: map[*ast.Ident]types.Instance{},
	}}
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return typed{}, err
		}
		t.files = append(t.files, f)
	}
	// C is not Go's to check: what it says of C's own names is passed over.
	c := types.Config{Importer: mapped{compiled, p.ImportMap}, FakeImportC: true, Error: func(error) {}}
	if _, err := c.Check(p.ImportPath, fset, t.files, t.info); err != nil && len(p.CgoFiles) == 0 {
		return typed{}, err
	}
	return t, nil
}

// mapped imports by the paths that a file says, which the go command may map to others.
type mapped struct {
	compiled types.Importer
	paths    map[string]string
}

func (m mapped) Import(path string) (*types.Package, error) {
	if to, ok := m.paths[path]; ok {
		path = to
	}
	return m.compiled.Import(path)
}
