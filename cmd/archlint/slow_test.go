package main

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSlowTests: of each package in scripts/slow-tests.txt the tests that show more without
// the race detector and the assertions are named, and what is named is there.
func TestSlowTests(t *testing.T) {
	text, err := os.ReadFile("../../scripts/slow-tests.txt")
	if err != nil {
		t.Fatal(err)
	}
	files, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	pkgs := 0
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		pkgs++
		all, telling := tests(files, words[0])
		if len(all) == 0 {
			t.Errorf("%s has no tests", words[0])
		}
		for _, name := range telling {
			if !slices.Contains(words[1:], name) {
				t.Errorf("%s %s shows more without the race detector: name it in scripts/slow-tests.txt", words[0], name)
			}
		}
		for _, name := range words[1:] {
			if !slices.Contains(all, name) {
				t.Errorf("%s has no %s", words[0], name)
			}
		}
	}
	if pkgs == 0 {
		t.Error("no packages are named")
	}
}

// tests are a package's tests and fuzz targets; telling are those that count allocations or
// memory, or ask whether the detector or the assertions are on.
func tests(files []source, pkg string) (all, telling []string) {
	for _, s := range files {
		if s.pkg != pkg || !s.test {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !testName.MatchString(f.Name.Name) {
				continue
			}
			all = append(all, f.Name.Name)
			if tells(f.Body) {
				telling = append(telling, f.Name.Name)
			}
		}
	}
	return all, telling
}

var testName = regexp.MustCompile(`^(Test|Fuzz)[A-Z]`)

func tells(body *ast.BlockStmt) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			switch id.Name {
			case "AllocsPerRun", "ReadMemStats", "Enabled", "raceEnabled", "raced":
				found = true
			}
		}
		return !found
	})
	return found
}

// A test that counts allocations tells, one that does not does not.
func TestSlowTestsBite(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "a", "x_test.go"), "package a\nfunc TestA() { testing.AllocsPerRun(1, nil) }\nfunc TestB() {}\nfunc FuzzC() { if raced() {} }\nfunc helper() {}\n")
	files, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	all, telling := tests(files, "a")
	if !slices.Equal(all, []string{"TestA", "TestB", "FuzzC"}) || !slices.Equal(telling, []string{"TestA", "FuzzC"}) {
		t.Errorf("%v, telling %v", all, telling)
	}
}
