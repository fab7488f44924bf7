// Package pq has the priority queues of the scheduling cores: an indexed heap
// of timers and a sorted queue of deadlines. Both keep their keys inline, break ties
// the same way on every run, and allocate only when they grow.
package pq

// Heap is a 4-ary min-heap over dense ids, keyed by an int64 and then by the
// id. Each id is in the heap at most once; its place is indexed, so that a key
// is changed in O(log n). The zero Heap is empty.
//
// Four children a node: half the levels of a binary heap, and the children's
// keys share a cache line.
type Heap struct {
	nodes []node
	place []int32 // id -> index in nodes plus 1; 0: not in the heap
}

type node struct {
	key int64
	id  uint32
}

func (a node) less(b node) bool { return a.key < b.key || a.key == b.key && a.id < b.id }

// Len is the number of ids in the heap.
func (h *Heap) Len() int { return len(h.nodes) }

// Has reports whether id is in the heap.
func (h *Heap) Has(id uint32) bool { return int(id) < len(h.place) && h.place[id] != 0 }

// Min is the id with the least key; it panics on an empty heap.
func (h *Heap) Min() (id uint32, key int64) { return h.nodes[0].id, h.nodes[0].key }

// Set inserts id or changes its key.
func (h *Heap) Set(id uint32, key int64) {
	for int(id) >= len(h.place) {
		h.place = append(h.place, 0)
	}
	n := node{key, id}
	if p := h.place[id]; p != 0 {
		i := int(p - 1)
		old := h.nodes[i]
		if n.less(old) {
			h.up(i, n)
		} else {
			h.down(i, n)
		}
		return
	}
	h.nodes = append(h.nodes, n)
	h.up(len(h.nodes)-1, n)
}

// Remove takes id out; it does nothing if id is not in.
func (h *Heap) Remove(id uint32) {
	if !h.Has(id) {
		return
	}
	i := int(h.place[id] - 1)
	h.place[id] = 0
	last := len(h.nodes) - 1
	n := h.nodes[last]
	h.nodes = h.nodes[:last]
	if i == last {
		return
	}
	if i > 0 && n.less(h.nodes[(i-1)/4]) {
		h.up(i, n)
	} else {
		h.down(i, n)
	}
}

// up moves the hole at i towards the root until n fits in it.
func (h *Heap) up(i int, n node) {
	for i > 0 {
		parent := (i - 1) / 4
		if !n.less(h.nodes[parent]) {
			break
		}
		h.put(i, h.nodes[parent])
		i = parent
	}
	h.put(i, n)
}

// down moves the hole at i towards the leaves until n fits in it.
func (h *Heap) down(i int, n node) {
	for {
		first := 4*i + 1
		if first >= len(h.nodes) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h.nodes)); c++ {
			if h.nodes[c].less(h.nodes[least]) {
				least = c
			}
		}
		if !h.nodes[least].less(n) {
			break
		}
		h.put(i, h.nodes[least])
		i = least
	}
	h.put(i, n)
}

func (h *Heap) put(i int, n node) {
	h.nodes[i] = n
	h.place[n.id] = int32(i + 1)
}
