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

// Whatever comes, leaves, is refused and is given up: each output is handed over from its first byte to its last one, the
// earliest deadline first; the link never has more than its window; and each slot is free at the end.
func TestEveryPartOnce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	var q Queue
	all := map[uint32]*given{}
	flying := 0
	over := func(id uint32, is bool, when string) {
		g := all[id]
		want := len(g.flying) == 0 && (g.next == g.size && g.size > 0 || g.dropped || g.size == 0 && g.next == -1)
		if is != want {
			t.Fatalf("seed %d: %s: output of %d bytes at %d with %d parts under way is over: %v", seed, when, g.size, g.next, len(g.flying), is)
		}
		if is {
			delete(all, id)
		}
	}
	for range 20_000 {
		switch k := r.IntN(10); {
		case k < 2:
			size := []int{0, 1, r.IntN(Small), Size, r.IntN(8 * Size)}[r.IntN(5)]
			at := mono.Time(r.IntN(1000))
			id, ok := q.Add(size, at)
			if !ok || all[id] != nil {
				t.Fatalf("seed %d: slot %d, %v", seed, id, ok)
			}
			all[id] = &given{size: size, deadline: at}
		case k < 6:
			p, ok := q.Next()
			if !ok {
				continue
			}
			g := all[p.Slot]
			n := p.To - p.From
			if p.From != g.next || n > Size || p.To > g.size {
				t.Fatalf("seed %d: bytes %d to %d where %d of %d is next", seed, p.From, p.To, g.next, g.size)
			}
			for _, o := range all {
				if waits := !o.dropped && (o.next < o.size && o.next >= 0); waits && o.deadline < g.deadline {
					t.Fatalf("seed %d: deadline %d goes before %d", seed, g.deadline, o.deadline)
				}
			}
			taken := r.IntN(4) > 0
			if !taken {
				q.Left(p.Slot, p.To == g.size)
				over(p.Slot, q.Handed(p, false), "refused")
				continue
			}
			g.next, g.flying, flying = p.To, append(g.flying, n), flying+n
			if g.size == 0 {
				g.next = -1
			}
			if early := r.IntN(3) == 0; early && len(g.flying) == 1 { // copied: it leaves before the link has returned
				flying, g.flying = flying-n, nil
				q.Left(p.Slot, p.To == g.size)
			}
			over(p.Slot, q.Handed(p, true), "handed over")
		case k < 9:
			for id, g := range all {
				if len(g.flying) > 0 {
					last := g.next == g.size && len(g.flying) == 1 || g.size == 0
					flying, g.flying = flying-g.flying[0], g.flying[1:]
					over(id, q.Left(id, last), "left")
					break
				}
			}
		default:
			id, _, ok := q.First()
			if !ok {
				continue
			}
			all[id].dropped = true
			begun, is := q.Drop(id)
			if begun != (all[id].next > 0) {
				t.Fatalf("seed %d: begun %v at %d", seed, begun, all[id].next)
			}
			over(id, is, "dropped")
		}
		if q.Flying() != flying || flying > 2*Window || q.Len() != len(all) {
			t.Fatalf("seed %d: %d bytes under way, counted %d; %d outputs, counted %d", seed, flying, q.Flying(), len(all), q.Len())
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
