package devices

import (
	"math/bits"

	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// idle is the GPUs on which no batch is undone and for which no grant is under way: a bit for each id. A GPU that
// is planned to be free and has not reported is not among them.
type idle struct {
	bits []uint64
	n    int
}

// grow makes room for ids below n.
func (s *idle) grow(n int) {
	for len(s.bits)*64 < n {
		s.bits = append(s.bits, 0)
	}
}

func (s *idle) set(id uint32, on bool) {
	word, bit := &s.bits[id/64], uint64(1)<<(id%64)
	switch is := *word&bit != 0; {
	case on && !is:
		*word |= bit
		s.n++
	case !on && is:
		*word &^= bit
		s.n--
	}
}

// below is the largest id below n. It looks at 64 at a time.
func (s *idle) below(n uint32) (id uint32, ok bool) {
	n = min(n, uint32(len(s.bits)*64))
	for n > 0 {
		i := (n - 1) / 64
		if word := s.bits[i] & (^uint64(0) >> (63 - (n-1)%64)); word != 0 {
			return i*64 + 63 - uint32(bits.LeadingZeros64(word)), true
		}
		n = i * 64
	}
	return 0, false
}

// Idle is how many GPUs have nothing to do.
func (t *Table) Idle() int { return t.idle.n }

// IsIdle tells whether a GPU has nothing to do.
func (t *Table) IsIdle(id uint32) bool { return t.idle.bits[id/64]>>(id%64)&1 != 0 }

// LastIdle is the largest id below n of a GPU that has nothing to do, and when it is free.
func (t *Table) LastIdle(below uint32) (id uint32, free mono.Time, ok bool) {
	if id, ok = t.idle.below(below); ok {
		free = t.gpus[id].free
	}
	return id, free, ok
}

// Spare tells whether k GPUs beside one are free by when. O(k log G).
func (t *Table) Spare(k int, when mono.Time, beside uint32) bool {
	if t.tree.size == 0 {
		return k <= 0
	}
	if t.FreeAt(beside) <= when {
		k++
	}
	return t.tree.count(1, when, k) >= k
}

// Lend takes a GPU for a batch of best effort until Lent. Nothing that was lent is in shares, demand or need:
// it is time that nobody else wanted.
func (t *Table) Lend(gpu uint32) (life Life, free mono.Time) {
	g := &t.gpus[gpu]
	invariants.Check(!g.granted && g.present && g.undoneN == 0, "devices: a GPU is lent that has something to do")
	g.granted = true
	t.place(wire.GPUID(gpu))
	return g.life, g.free
}

// Lent is the end of a Lend: the GPU has a batch from exec to until, or, if it is 0, none. False: the GPU has ended the life
// that was lent.
func (t *Table) Lent(id wire.GPUID, life Life, batch wire.BatchID, exec, until mono.Time) bool {
	g := t.alive(id, life)
	if g == nil {
		return false
	}
	g.granted = false
	if batch != 0 {
		g.undone[0], g.undoneN, g.free = run{batch, exec, until}, 1, until
	}
	t.place(id)
	return true
}
