//go:build !linux

package nice

// Run runs f: threads have no priorities of their own here.
func Run(_ int, f func()) { f() }
