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
		{"control plane", "backend/x.go", "package backend\nimport _ \"" + module + "/scheduler/control/autoscale\"\n", "knows nothing of the control plane"},
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

// TestDocumentRulesBite does the same for the documents.
func TestDocumentRulesBite(t *testing.T) {
	const index, page = "docs/decisions/README.md", "docs/decisions/0001-a.md"
	const row = "| [0001](0001-a.md) | A title | 2026-01-02 | why |\n"
	sound := map[string]string{
		"ARCHITECTURE.md": "short, with a [link](docs/decisions/README.md#top) and another ![picture](docs/a.svg \"title\")",
		"docs/a.svg":      "<svg/>",
		index:             row,
		page:              "# 0001: A title\n\nDate: 2026-01-02\n",
	}
	cases := []struct{ name, path, text, want string }{
		{"sound", "README.md", "[a](docs/decisions/0001-a.md), [b](https://example.com/x), [c](#here), `[d](none)`\n```\n[e](none)\n```\n", ""},
		{"long architecture", "ARCHITECTURE.md", strings.Repeat("x", architectureMax+1), "ARCHITECTURE.md: 16385 bytes, at most 16384"},
		{"page not in the index", index, "nothing", "0001-a.md is not in the index"},
		{"no such page", index, row + "| [0002](0002-b.md) | B | 2026-01-02 | why |\n", "names 0002-b.md, which is not there"},
		{"page twice", index, row + row, "names 0001-a.md twice"},
		{"number of another page", index, "| [0002](0001-a.md) | A title | 2026-01-02 | why |\n", "calls 0001-a.md 0002"},
		{"number twice", "docs/decisions/0001-b.md", "# 0001: B\n", "0001-b.md has the number of 0001-a.md"},
		{"name without a number", "docs/decisions/b.md", "# B\n", "b.md: want NNNN-short-name.md"},
		{"other title", page, "# 0001: Another\n\nDate: 2026-01-02\n", "0001-a.md does not begin with"},
		{"other date", page, "# 0001: A title\n\nDate: 2026-01-03\n", "Date: 2026-01-02"},
		{"no index", index, "", "no row"},
		{"dead link", "docs/x/y.md", "see [it](../gone.md)", "docs/x/y.md:1: the link ../gone.md leads nowhere"},
		{"dead link, defined apart", "README.md", "see [it]\n\n[it]: gone.md\n", "README.md:3: the link gone.md"},
		{"dead picture of a bench", "bench/x/README.md", "\n\n![it](gone.svg)", "bench/x/README.md:3: the link gone.svg"},
		{"link behind code", "CONTRIBUTING.md", "`code` and [it](gone.md)", "CONTRIBUTING.md:1"},
		{"link behind a block", "CHANGELOG.md", "```\ncode\n```\n[it](gone.md)", "CHANGELOG.md:4"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for path, text := range sound {
				write(t, filepath.Join(root, path), text)
			}
			write(t, filepath.Join(root, c.path), c.text)
			got := strings.Join(checkDocuments(root), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
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
