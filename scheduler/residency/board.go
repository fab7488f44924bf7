package residency

import "github.com/symphony-serving/symphony/transport/mono"

// board has the models that are worth a load, the worthiest first: by worth, then the one whose
// load is due first, then by id. An indexed 4-ary heap like pq.Heap, which has one key.
//
// Keys may be out of date (see Residency.choose): it is the caller who makes sure of the first
// one before he goes by it.
type board struct {
	nodes []entry
	place []int32 // id -> index in nodes plus 1; 0: not on the board
}

// entry is a model and what it is worth to load it.
type entry struct {
	worth float64
	due   mono.Time // when its load is to begin at the latest
	id    uint32
}

func (a entry) before(b entry) bool {
	switch {
	case a.worth != b.worth:
		return a.worth > b.worth
	case a.due != b.due:
		return a.due < b.due
	}
	return a.id < b.id
}

func (h *board) len() int { return len(h.nodes) }

// first is the worthiest; it panics on an empty board.
func (h *board) first() entry { return h.nodes[0] }

func (h *board) has(id uint32) bool { return int(id) < len(h.place) && h.place[id] != 0 }

// set puts e on the board, or moves it.
func (h *board) set(e entry) {
	for int(e.id) >= len(h.place) {
		h.place = append(h.place, 0)
	}
	if p := h.place[e.id]; p != 0 {
		h.settle(int(p-1), e)
		return
	}
	h.nodes = append(h.nodes, e)
	h.settle(len(h.nodes)-1, e)
}

// remove takes the model off the board, if it is there.
func (h *board) remove(id uint32) {
	if int(id) >= len(h.place) || h.place[id] == 0 {
		return
	}
	i := int(h.place[id] - 1)
	h.place[id] = 0
	last := len(h.nodes) - 1
	e := h.nodes[last]
	h.nodes = h.nodes[:last]
	if i != last {
		h.settle(i, e)
	}
}

// settle puts e where the heap allows, beginning with the hole at i.
func (h *board) settle(i int, e entry) {
	for i > 0 && e.before(h.nodes[(i-1)/4]) {
		h.put(i, h.nodes[(i-1)/4])
		i = (i - 1) / 4
	}
	for {
		best := 4*i + 1
		if best >= len(h.nodes) {
			break
		}
		for c := best + 1; c < min(4*i+5, len(h.nodes)); c++ {
			if h.nodes[c].before(h.nodes[best]) {
				best = c
			}
		}
		if !h.nodes[best].before(e) {
			break
		}
		h.put(i, h.nodes[best])
		i = best
	}
	h.put(i, e)
}

func (h *board) put(i int, e entry) {
	h.nodes[i] = e
	h.place[e.id] = int32(i + 1)
}
