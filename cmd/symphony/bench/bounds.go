package bench

import (
	"cmp"
	"fmt"
)

// bounded is a value on the command line, and its bounds.
type bounded[T cmp.Ordered] struct {
	name           string
	v, least, most T
}

type intFlag = bounded[int]

func checkInts(flags ...intFlag) error { return checkBounds(flags...) }

func checkBounds[T cmp.Ordered](flags ...bounded[T]) error {
	for _, f := range flags {
		if !(f.v >= f.least && f.v <= f.most) { // NaN, too
			return fmt.Errorf("--%s: %v, must be between %v and %v", f.name, f.v, f.least, f.most)
		}
	}
	return nil
}

// optional is a flag that may be left out: what is not given is within its bounds.
func optional[T cmp.Ordered](name string, v *T, least, most T) bounded[T] {
	if v == nil {
		v = &least
	}
	return bounded[T]{name, *v, least, most}
}

// orZero is the value of a flag that may be left out.
func orZero[T any](v *T) (value T) {
	if v != nil {
		value = *v
	}
	return value
}
