package devices

import "github.com/symphony-serving/symphony/transport/mono"

// tree is a tournament tree over GPU ids, keyed by free time: node i has
// the least of its children 2i and 2i+1; the leaves begin at size.
type tree struct {
	least []mono.Time
	size  int // leaves, a power of two; 0 before the first GPU
}

// grow makes room for ids below n.
func (t *tree) grow(n int) {
	size := max(1, t.size)
	for size < n {
		size *= 2
	}
	if size == t.size {
		return
	}
	least := make([]mono.Time, 2*size)
	for i := range least {
		least[i] = mono.Never
	}
	if t.size > 0 {
		copy(least[size:], t.least[t.size:])
	}
	t.least, t.size = least, size
	for i := size - 1; i > 0; i-- {
		t.least[i] = min(t.least[2*i], t.least[2*i+1])
	}
}

// set changes the free time of id.
func (t *tree) set(id uint32, free mono.Time) {
	i := t.size + int(id)
	t.least[i] = free
	for i /= 2; i > 0; i /= 2 {
		v := min(t.least[2*i], t.least[2*i+1])
		if t.least[i] == v {
			return
		}
		t.least[i] = v
	}
}

// firstBy is the smallest id that is free by when.
func (t *tree) firstBy(when mono.Time) (id uint32, ok bool) {
	if t.size == 0 || t.least[1] > when {
		return 0, false
	}
	i := 1
	for i < t.size {
		i *= 2
		if t.least[i] > when {
			i++
		}
	}
	return uint32(i - t.size), true
}

// soonest is when the first GPU is free; mono.Never when none will be.
func (t *tree) soonest() mono.Time {
	if t.size == 0 {
		return mono.Never
	}
	return t.least[1]
}

// soonestBelow is soonest among the ids below n.
func (t *tree) soonestBelow(n uint32) mono.Time {
	if int(n) >= t.size {
		return t.soonest()
	}
	least := mono.Never
	for i := t.size + int(n); i > 1; i /= 2 { // the subtrees left of leaf n
		if i%2 == 1 {
			least = min(least, t.least[i-1])
		}
	}
	return least
}

// count is how many leaves below node i are free by when, up to most.
func (t *tree) count(i int, when mono.Time, most int) int {
	switch {
	case most <= 0 || t.least[i] > when:
		return 0
	case i >= t.size:
		return 1
	}
	n := t.count(2*i, when, most)
	return n + t.count(2*i+1, when, most-n)
}
