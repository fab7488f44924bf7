package schedbench

import "github.com/symphony-serving/symphony/transport/mono"

// gpus are emulated: of each only the end of its last batch is known.
//
// A GPU's batches come from one model loop at a time: the rank grants it again only
// after the answer to the last grant, and a loop answers after its Dispatch. So
// the field needs no lock.
type gpus struct{ end []mono.Time }

func newGPUs(n int) gpus { return gpus{end: make([]mono.Time, n)} }

// run lets the GPU take a batch that was sent at sent.
func (g gpus) run(gpu int, sent, exec mono.Time, length mono.Dur) (start, end mono.Time) {
	start = max(sent, exec, g.end[gpu])
	end = start.Add(length)
	g.end[gpu] = end
	return start, end
}

// wheel holds the ends to come, in slots of wheelTick. An end further away than
// the wheel is long stays in its slot for another turn.
type wheel struct {
	first []int32 // of each slot; -1: none
	next  []int32
	runs  []run
	free  int32
	n     int
	tick  int64 // up to which all slots are done; this one may hold some that are not due
}

const (
	wheelBits  = 15 // a tick is 33 us
	wheelSlots = 1 << 13
)

func newWheel(most int, now mono.Time) *wheel {
	w := &wheel{first: make([]int32, wheelSlots), next: make([]int32, most), runs: make([]run, most), tick: int64(now) >> wheelBits}
	for i := range w.first {
		w.first[i] = -1
	}
	for i := range w.next {
		w.next[i] = int32(i) + 1
	}
	w.next[most-1] = -1
	return w
}

// add keeps a run until its end; false when the wheel is full.
func (w *wheel) add(r *run) bool {
	i := w.free
	if i < 0 {
		return false
	}
	w.free = w.next[i]
	w.runs[i] = *r
	w.place(i)
	w.n++
	return true
}

func (w *wheel) place(i int32) {
	slot := max(int64(w.runs[i].end)>>wheelBits, w.tick) & (wheelSlots - 1)
	w.next[i], w.first[slot] = w.first[slot], i
}

// due calls done for the runs that have ended by now.
func (w *wheel) due(now mono.Time, done func(*run)) {
	for last := int64(now) >> wheelBits; ; w.tick++ {
		slot := w.tick & (wheelSlots - 1)
		i := w.first[slot]
		w.first[slot] = -1
		for i >= 0 {
			next := w.next[i]
			if r := &w.runs[i]; r.end <= now {
				done(r)
				w.next[i], w.free = w.free, i
				w.n--
			} else {
				w.next[i], w.first[slot] = w.first[slot], i
			}
			i = next
		}
		if w.tick >= last {
			return
		}
	}
}
