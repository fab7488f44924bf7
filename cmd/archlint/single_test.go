package main

import (
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// A package is single if neither it nor one that it imports, however far, starts a
// goroutine in code or tests.
func TestSingle(t *testing.T) {
	file := func(pkg, body string, imports ...string) source {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+body, 0)
		if err != nil {
			t.Fatal(err)
		}
		return source{pkg: pkg, file: f, imports: imports}
	}
	got := single([]source{
		file("quiet", "var x int", "fmt"),
		file("starts", "func f() { go f() }"),
		file("waits", "func f() { var g sync.WaitGroup; g.Go(f) }"),
		file("parallel", "func f() {}"),
		file("parallel", "func TestX(t *testing.T) { t.Parallel() }"),
		file("above", "", module+"/starts"),
		file("top", "", module+"/quiet", module+"/above"),
		file("serves", "", "net/http"),
		file("beside", "", module+"/quiet"),
	})
	if want := []string{"beside", "quiet"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
