//go:build !linux

package shelf

// later runs f: threads have no priorities of their own here.
func later(f func()) { f() }
