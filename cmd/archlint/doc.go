// Package main of archlint holds the structural rules of the tree as tests:
// who may import whom, what a pure core may not contain, how long files and
// functions may be, that ARCHITECTURE.md names every package, and that no caller ignores that
// a message was refused, unless stays.go says why. And of the
// documents: that ARCHITECTURE.md stays short, that the decisions' index agrees
// with their pages, and that relative links lead to files.
//
// The rules run in `go test ./cmd/archlint`; `go run ./cmd/archlint` prints
// the same findings for an editor. They read the source by go/ast and need no build, but for
// the refusals, of which the types tell (go list compiles what is not in its cache), and one
// test that compiles the cores for arm64 and looks for fused operations. A rule that must be
// broken is changed here, on purpose, with a reason.
package main
