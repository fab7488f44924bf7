package parts

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// given is an output of the property test.
type given struct {
	size, next int
	deadline   mono.Time
	flying     []int // parts that the link has, in order
	dropped    bool
}

// play is a queue and what it should have.
type play struct {
	t      *testing.T
	seed   uint64
	r      *rand.Rand
	q      Queue
	all    map[uint32]*given
	flying int
}

// over holds the queue's word against what was given.
func (w *play) over(id uint32, is bool, when string) {
	g := w.all[id]
	want := len(g.flying) == 0 && (g.next == g.size && g.size > 0 || g.dropped || g.size == 0 && g.next == -1)
	if is != want {
		w.t.Fatalf("seed %d: %s: output of %d bytes at %d with %d parts under way is over: %v", w.seed, when, g.size, g.next, len(g.flying), is)
	}
	if is {
		delete(w.all, id)
	}
}

func (w *play) add() {
	size := []int{0, 1, w.r.IntN(Small), Size, w.r.IntN(8 * Size)}[w.r.IntN(5)]
	at := mono.Time(w.r.IntN(1000))
	id, ok := w.q.Add(size, at)
	if !ok || w.all[id] != nil {
		w.t.Fatalf("seed %d: slot %d, %v", w.seed, id, ok)
	}
	w.all[id] = &given{size: size, deadline: at}
}

func (w *play) hand() {
	p, ok := w.q.Next()
	if !ok {
		return
	}
	g, n := w.all[p.Slot], p.To-p.From
	if p.From != g.next || n > Size || p.To > g.size {
		w.t.Fatalf("seed %d: bytes %d to %d where %d of %d is next", w.seed, p.From, p.To, g.next, g.size)
	}
	for _, o := range w.all {
		if waits := !o.dropped && o.next < o.size && o.next >= 0; waits && o.deadline < g.deadline {
			w.t.Fatalf("seed %d: deadline %d goes before %d", w.seed, g.deadline, o.deadline)
		}
	}
	if refused := w.r.IntN(4) == 0; refused {
		w.q.Left(p.Slot, p.To == g.size)
		w.over(p.Slot, w.q.Handed(p, false), "refused")
		return
	}
	g.next, g.flying, w.flying = p.To, append(g.flying, n), w.flying+n
	if g.size == 0 {
		g.next = -1
	}
	if early := w.r.IntN(3) == 0; early && len(g.flying) == 1 { // copied: it leaves before the link has returned
		w.flying, g.flying = w.flying-n, nil
		w.q.Left(p.Slot, p.To == g.size)
	}
	w.over(p.Slot, w.q.Handed(p, true), "handed over")
}

func (w *play) leave() {
	for id, g := range w.all {
		if len(g.flying) == 0 {
			continue
		}
		last := g.next == g.size && len(g.flying) == 1 || g.size == 0
		w.flying, g.flying = w.flying-g.flying[0], g.flying[1:]
		w.over(id, w.q.Left(id, last), "left")
		return
	}
}

func (w *play) drop() {
	id, _, ok := w.q.First()
	if !ok {
		return
	}
	w.all[id].dropped = true
	begun, is := w.q.Drop(id)
	if begun != (w.all[id].next > 0) {
		w.t.Fatalf("seed %d: begun %v at %d", w.seed, begun, w.all[id].next)
	}
	w.over(id, is, "dropped")
}

// Whatever comes, leaves, is refused and is given up: each output is handed over from its first byte to its last one, the
// earliest deadline first; the link never has more than its window; and each slot is free at the end.
func TestEveryPartOnce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	w := &play{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 0)), all: map[uint32]*given{}}
	for range 20_000 {
		switch k := w.r.IntN(10); {
		case k < 2:
			w.add()
		case k < 6:
			w.hand()
		case k < 9:
			w.leave()
		default:
			w.drop()
		}
		if w.q.Flying() != w.flying || w.flying > 2*Window || w.q.Len() != len(w.all) {
			t.Fatalf("seed %d: %d bytes under way, counted %d; %d outputs, counted %d", seed, w.flying, w.q.Flying(), len(w.all), w.q.Len())
		}
	}
}

// What is urgent goes before the rest of what is large, and while the link has a window of that, too.
func TestUrgentGoesFirst(t *testing.T) {
	var q Queue
	large, _ := q.Add(100*Size, 1000)
	for range Window / Size {
		if p, ok := q.Next(); !ok || p.Slot != large {
			t.Fatal("the window is not used")
		} else {
			q.Handed(p, true)
		}
	}
	if _, ok := q.Next(); ok {
		t.Fatal("more than the window")
	}
	urgent, _ := q.Add(Small, 10)
	if p, ok := q.Next(); !ok || p.Slot != urgent {
		t.Fatalf("%v, %v: the urgent one waits", p, ok)
	}
	next, _ := q.Add(2*Size, 20)
	q.Left(large, false)
	q.Left(large, false)
	if p, ok := q.Next(); !ok || p.Slot != next {
		t.Errorf("%v, %v: the rest of the large one goes first", p, ok)
	}
}

// A queue has an end.
func TestFull(t *testing.T) {
	var q Queue
	for range Max {
		if _, ok := q.Add(1, 1); !ok {
			t.Fatal("full too early")
		}
	}
	if _, ok := q.Add(1, 1); ok {
		t.Error("no bound")
	}
}
