package pq

// WalkMax is how many ids a Walk visits at most.
const WalkMax = 16

// Walk visits the ids of a Heap in the order of their keys, the first WalkMax of them, and changes nothing. It is over
// with the next change of the heap. A step costs O(steps so far).
type Walk struct {
	heap    *Heap
	next    [3*WalkMax + 1]int32 // nodes whose parents were visited
	n, left int
}

// Walk begins at the least key.
func (h *Heap) Walk() Walk {
	w := Walk{heap: h, left: WalkMax}
	if len(h.nodes) > 0 {
		w.n = 1 // node 0
	}
	return w
}

// Next is the next id; false: there are no more, or WalkMax were visited.
func (w *Walk) Next() (id uint32, key int64, ok bool) {
	if w.n == 0 || w.left == 0 {
		return 0, 0, false
	}
	w.left--
	nodes, best := w.heap.nodes, 0
	for i := 1; i < w.n; i++ {
		if nodes[w.next[i]].less(nodes[w.next[best]]) {
			best = i
		}
	}
	at := int(w.next[best])
	w.n--
	w.next[best] = w.next[w.n]
	for c := 4*at + 1; c < min(4*at+5, len(nodes)); c++ {
		w.next[w.n] = int32(c)
		w.n++
	}
	return nodes[at].id, nodes[at].key, true
}
