package gaps

import "math"

// none is the key of a leaf that stands for nobody.
const none = math.MaxInt64

// tree is a tournament tree over positions: which of the first n has the least key.
type tree struct {
	least []int64
	size  int // leaves, a power of two; 0: no positions
}

// reset makes a tree of n positions that stand for nobody.
func (t *tree) reset(n int) {
	size := 1
	for size < n {
		size *= 2
	}
	if size > t.size {
		t.least, t.size = make([]int64, 2*size), size
	}
	for i := range t.least {
		t.least[i] = none
	}
}

func (t *tree) set(at int, key int64) {
	i := t.size + at
	t.least[i] = key
	for i /= 2; i > 0; i /= 2 {
		v := min(t.least[2*i], t.least[2*i+1])
		if t.least[i] == v {
			return
		}
		t.least[i] = v
	}
}

// empty: nobody is here.
func (t *tree) empty() bool { return t.size == 0 || t.least[1] == none }

// first is the position below n that has the least key, the first of them.
func (t *tree) first(n int) (at int, ok bool) {
	if t.empty() || n <= 0 {
		return 0, false
	}
	best := 1
	if n < t.size {
		best = 0
		for i := t.size + n; i > 1; i /= 2 { // the subtrees left of leaf n, from right to left
			if i%2 == 1 && (best == 0 || t.least[i-1] <= t.least[best]) {
				best = i - 1
			}
		}
	}
	if best == 0 || t.least[best] == none {
		return 0, false
	}
	for best < t.size {
		best *= 2
		if t.least[best+1] < t.least[best] {
			best++
		}
	}
	return best - t.size, true
}
