package plan

import (
	"iter"
	"math/bits"
)

// set is of models, by their index. Ten thousand of them are 157 words, so what is asked of a
// sub-cluster (which models do all of its GPUs have, which does this one lack) is a pass over
// words, and the order of indices is the order of everything that a roll-out does.
type set []uint64

func (s set) has(i int) bool { return i>>6 < len(s) && s[i>>6]>>(i&63)&1 != 0 }

func (s *set) add(i int) {
	for len(*s) <= i>>6 {
		*s = append(*s, 0)
	}
	(*s)[i>>6] |= 1 << (i & 63)
}

func (s set) del(i int) {
	if i>>6 < len(s) {
		s[i>>6] &^= 1 << (i & 63)
	}
}

func (s set) empty() bool {
	for _, w := range s {
		if w != 0 {
			return false
		}
	}
	return true
}

// copyOf makes s equal to o, in its own memory.
func (s *set) copyOf(o set) { *s = append((*s)[:0], o...) }

// or adds all of o.
func (s *set) or(o set) {
	for len(*s) < len(o) {
		*s = append(*s, 0)
	}
	for i, w := range o {
		(*s)[i] |= w
	}
}

// and keeps what o has too.
func (s *set) and(o set) {
	*s = (*s)[:min(len(*s), len(o))]
	for i := range *s {
		(*s)[i] &= o[i]
	}
}

// drop takes all of o away.
func (s set) drop(o set) {
	for i := range s[:min(len(s), len(o))] {
		s[i] &^= o[i]
	}
}

// within tells whether o has all of s.
func (s set) within(o set) bool {
	for i, w := range s {
		if i < len(o) {
			w &^= o[i]
		}
		if w != 0 {
			return false
		}
	}
	return true
}

// all are the members in order. What is added or taken meanwhile may be seen or not.
func (s set) all() iter.Seq[int] { return s.without(nil) }

// without are the members that o does not have.
func (s set) without(o set) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range s {
			w := s[i]
			if i < len(o) {
				w &^= o[i]
			}
			for ; w != 0; w &= w - 1 {
				if !yield(i<<6 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}
