package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// check applies every rule and returns the findings in path order.
func check(root string, files []source) []string {
	var out []string
	table := rooms()
	for _, s := range files {
		out = append(out, checkSize(s)...)
		out = append(out, checkWords(s)...)
		r, ok := roomOf(table, s.pkg)
		if !ok {
			out = append(out, fmt.Sprintf("%s: package %s has no room: add it to cmd/archlint/rooms.go and ARCHITECTURE.md", s.path, s.pkg))
			continue
		}
		if !s.test {
			out = append(out, checkImports(s, r)...)
		}
		if r.class == core && !s.test {
			out = append(out, checkCore(s)...)
		}
	}
	out = append(out, checkPackageDocs(files)...)
	out = append(out, checkArchitecture(root, files)...)
	out = append(out, checkDocuments(root)...)
	return slices.Compact(out)
}

// roomOf finds a package's room. Everything below cmd and examples is wiring.
// A package below a shell's folder (frontend/ingress/oip) may be unlisted only
// if it imports nothing of this module but leaves.
func roomOf(table map[string]room, pkg string) (room, bool) {
	if pkg == "cmd" || pkg == "examples" || strings.HasPrefix(pkg, "cmd/") || strings.HasPrefix(pkg, "examples/") {
		return room{class: wire}, true
	}
	r, ok := table[pkg]
	return r, ok
}

func checkSize(s source) []string {
	var out []string
	if s.lines > fileLinesMax && !ast.IsGenerated(s.file) {
		out = append(out, fmt.Sprintf("%s: %d lines, at most %d: one concept a file", s.path, s.lines, fileLinesMax))
	}
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
		if n > funcLinesMax {
			out = append(out, fmt.Sprintf("%s: %s has %d lines, at most %d", s.path, f.Name.Name, n, funcLinesMax))
		}
	}
	return out
}

// checkWords looks at identifiers only: prose may say what a word replaces.
func checkWords(s source) []string {
	if strings.HasPrefix(s.path, "cmd/archlint/") {
		return nil
	}
	var out []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		for _, w := range bannedWords() {
			if strings.Contains(strings.ToLower(id.Name), w) {
				out = append(out, fmt.Sprintf("%s: identifier %s: %q is not in the glossary", s.fset.Position(id.Pos()), id.Name, w))
			}
		}
		return true
	})
	return out
}

func checkImports(s source, r room) []string {
	var out []string
	for _, im := range s.imports {
		if im == "C" && !strings.HasPrefix(s.pkg, "cgo/") {
			out = append(out, fmt.Sprintf("%s: only cgo/* imports \"C\"", s.path))
		}
		local, ok := strings.CutPrefix(im, module+"/")
		switch {
		case ok && !mayControl(s.pkg) && strings.HasPrefix(local, controlPlane):
			out = append(out, fmt.Sprintf("%s: imports %s: what serves requests knows nothing of the control plane", s.path, local))
		case ok && r.class != wire && !slices.Contains(r.imports, local):
			out = append(out, fmt.Sprintf("%s: imports %s, which its room does not allow", s.path, local))
		case !ok && r.class == core && slices.Contains(coreBanned(), im):
			out = append(out, fmt.Sprintf("%s: a core must not import %s", s.path, im))
		case im == "github.com/rs/zerolog" && r.class == leaf:
			out = append(out, fmt.Sprintf("%s: leaves do not log", s.path))
		}
	}
	return out
}

// mayControl reports whether a package may know the control plane: itself, what measures, and
// the wiring. What serves requests goes on without it.
func mayControl(pkg string) bool {
	return slices.ContainsFunc([]string{controlPlane, "bench/", "cmd/", "examples/"}, func(prefix string) bool { return strings.HasPrefix(pkg, prefix) })
}

// checkCore bans what would make a core impure: goroutines, channels, select,
// package variables (error sentinels excepted), init, and ranging over maps
// (as far as the syntax tells: map literals, and fields or names declared
// with a map type in the same file).
func checkCore(s source) []string {
	var out []string
	say := func(p token.Pos, what string) {
		out = append(out, fmt.Sprintf("%s: a core must not %s", s.fset.Position(p), what))
	}
	maps := mapNames(s.file)
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			say(n.Pos(), "start a goroutine")
		case *ast.ChanType:
			say(n.Pos(), "use a channel")
		case *ast.SelectStmt:
			say(n.Pos(), "select")
		case *ast.RangeStmt:
			if maps[lastName(n.X)] {
				say(n.Pos(), "range over a map: its order is random")
			}
		case *ast.FuncDecl:
			if n.Name.Name == "init" && n.Recv == nil {
				say(n.Pos(), "have an init function")
			}
		}
		return true
	})
	return append(out, packageVars(s)...)
}

func packageVars(s source) []string {
	var out []string
	for _, d := range s.file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				sentinel := strings.HasPrefix(name.Name, "Err") || strings.HasPrefix(name.Name, "err") || name.Name == "_"
				if !sentinel {
					out = append(out, fmt.Sprintf("%s: package variable %s: a core has none but error sentinels", s.path, name.Name))
				}
			}
		}
	}
	return out
}

// mapNames collects the names that the file declares with a map type.
func mapNames(f *ast.File) map[string]bool {
	out := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			if _, ok := n.Type.(*ast.MapType); ok {
				for _, name := range n.Names {
					out[name.Name] = true
				}
			}
		case *ast.ValueSpec:
			if _, ok := n.Type.(*ast.MapType); ok {
				for _, name := range n.Names {
					out[name.Name] = true
				}
			}
		case *ast.AssignStmt:
			for i, right := range n.Rhs {
				if i < len(n.Lhs) && makesMap(right) {
					out[lastName(n.Lhs[i])] = true
				}
			}
		}
		return true
	})
	return out
}

func makesMap(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CompositeLit:
		_, ok := e.Type.(*ast.MapType)
		return ok
	case *ast.CallExpr:
		if id, ok := e.Fun.(*ast.Ident); ok && id.Name == "make" && len(e.Args) > 0 {
			_, isMap := e.Args[0].(*ast.MapType)
			return isMap
		}
	}
	return false
}

func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// checkPackageDocs demands a package comment in one file of each package.
func checkPackageDocs(files []source) []string {
	documented, seen := map[string]bool{}, []string{}
	for _, s := range files {
		if s.test || strings.HasSuffix(s.file.Name.Name, "_test") {
			continue
		}
		if !slices.Contains(seen, s.pkg) {
			seen = append(seen, s.pkg)
		}
		if s.file.Doc != nil && len(s.file.Doc.Text()) > 40 {
			documented[s.pkg] = true
		}
	}
	var out []string
	for _, pkg := range seen {
		if !documented[pkg] {
			out = append(out, fmt.Sprintf("%s: no package comment", pkg))
		}
	}
	return out
}

// checkArchitecture demands that ARCHITECTURE.md names every package, so that
// a stranger finds the room of any file.
func checkArchitecture(root string, files []source) []string {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		return []string{"ARCHITECTURE.md: " + err.Error()}
	}
	var out []string
	for _, s := range files {
		named := regexp.MustCompile("`" + regexp.QuoteMeta(s.pkg) + "`").Match(text)
		if msg := fmt.Sprintf("ARCHITECTURE.md does not name the package `%s`", s.pkg); !named && !slices.Contains(out, msg) {
			out = append(out, msg)
		}
	}
	return out
}
