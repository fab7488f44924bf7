package main

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// single lists the packages of which no code starts a goroutine, tests included, nor any
// package of ours that they import: what the race detector cannot say anything about.
func single(files []source) []string {
	many := map[string]bool{}               // packages that start goroutines, or import one that does
	imports := map[string]map[string]bool{} // package -> ours that it imports
	for _, s := range files {
		if s.apart { // scripts/test.sh tests those by themselves
			continue
		}
		if imports[s.pkg] == nil {
			imports[s.pkg] = map[string]bool{}
		}
		many[s.pkg] = many[s.pkg] || startsGoroutine(s.file)
		for _, im := range s.imports {
			if ours, ok := strings.CutPrefix(im, module+"/"); ok {
				imports[s.pkg][ours] = true
			}
			many[s.pkg] = many[s.pkg] || im == "net/http" || im == "os/signal" // which start them for us
		}
	}
	for again := true; again; {
		again = false
		for pkg, all := range imports {
			for im := range all {
				if many[im] && !many[pkg] {
					many[pkg], again = true, true
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(imports)), func(pkg string) bool { return many[pkg] })
}

// startsGoroutine finds go statements, and calls of methods that stand for them:
// sync.WaitGroup's Go, testing.T's Parallel.
func startsGoroutine(f *ast.File) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == "Go" || n.Sel.Name == "Parallel" || n.Sel.Name == "RunParallel" || n.Sel.Name == "AfterFunc"
		}
		return !found
	})
	return found
}
