//go:build invariants || race

package invariants

// Enabled guards checks that cost more than a comparison.
const Enabled = true

// Check panics when ok is false; what says which rule is broken.
func Check(ok bool, what string) {
	if !ok {
		panic("broken invariant: " + what)
	}
}
