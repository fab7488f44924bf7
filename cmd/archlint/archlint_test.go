package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTree holds the rules on this very tree.
func TestTree(t *testing.T) {
	files, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("only %d files found: is the root right?", len(files))
	}
	for _, f := range check("../..", files) {
		t.Error(f)
	}
}

// TestRulesBite plants one offence of each kind and demands that it is seen:
// a rule that finds nothing may be blind.
func TestRulesBite(t *testing.T) {
	cases := []struct{ name, path, src, want string }{
		{"goroutine", "scheduler/rank/x.go", "// Package rank is documented well enough for the rule.\npackage rank\nfunc f() { go f() }\n", "start a goroutine"},
		{"channel", "scheduler/rank/x.go", "package rank\nvar errX chan int\n", "use a channel"},
		{"map order", "scheduler/rank/x.go", "package rank\nfunc f() { m := map[int]int{}; for range m {} }\n", "range over a map"},
		{"clock", "scheduler/rank/x.go", "package rank\nimport \"time\"\nvar _ = time.Now\n", "must not import time"},
		{"variable", "scheduler/rank/x.go", "package rank\nvar count int\n", "package variable count"},
		{"upward import", "transport/mono/x.go", "package mono\nimport _ \"" + module + "/frontend\"\n", "does not allow"},
		{"cgo", "backend/x.go", "package backend\nimport \"C\"\n", "only cgo"},
		{"word", "backend/x.go", "package backend\ntype gpuWorker int\n", "not in the glossary"},
		{"homeless", "attic/x.go", "package attic\n", "has no room"},
		{"long file", "backend/x.go", "package backend\n" + strings.Repeat("\n", fileLinesMax), "at most 600"},
		{"long function", "backend/x.go", "package backend\nfunc f() {\n" + strings.Repeat("\n", funcLinesMax) + "}\n", "at most 70"},
		{"no document", "backend/x.go", "package backend\n", "does not name"},
		{"no package comment", "backend/x.go", "package backend\n", "no package comment"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, filepath.Join(root, c.path), c.src)
			write(t, filepath.Join(root, "ARCHITECTURE.md"), "nothing")
			files, err := load(root)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(check(root, files), "\n"); !strings.Contains(got, c.want) {
				t.Fatalf("findings:\n%s\nwant one with %q", got, c.want)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
