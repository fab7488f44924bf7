package rdma

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

func TestWindowLimits(t *testing.T) {
	w := newWindow(100)
	granted := 0
	grant := func() { granted++ }
	if !w.Take(60, grant) || !w.Take(40, grant) || w.Take(1, grant) || w.Used() != 100 {
		t.Fatalf("%d of 100 in use", w.Used())
	}
	if w.Give(40); granted != 1 || w.Used() != 61 {
		t.Fatalf("granted %d times, %d in use", granted, w.Used())
	}
	w.Give(60)
	if w.Give(1); granted != 1 || w.Used() != 0 {
		t.Errorf("granted %d times, %d in use", granted, w.Used())
	}
}

// One that is larger than the whole window passes, alone.
func TestWindowPassesAGiantAlone(t *testing.T) {
	w := newWindow(100)
	var order []string
	log := func(what string) func() { return func() { order = append(order, what) } }
	if !w.Take(1000, log("")) {
		t.Fatal("a READ larger than the window can never be made")
	}
	if w.Take(1, log("small")) || w.Take(1000, log("giant")) {
		t.Error("something else beside it")
	}
	if w.Give(1000); fmt.Sprint(order) != "[small]" {
		t.Errorf("a giant beside something else: %v", order)
	}
	if w.Give(1); fmt.Sprint(order) != "[small giant]" || w.Used() != 1000 {
		t.Errorf("%v, %d in use", order, w.Used())
	}
}

// Nobody passes who came before: who needs much is not starved by those who need
// little, though there is room for them.
func TestWindowFirstComeFirstServed(t *testing.T) {
	w := newWindow(100)
	var order []int64
	take := func(n int64) bool { return w.Take(n, func() { order = append(order, n) }) }
	take(80)
	for _, n := range []int64{90, 1, 2} {
		if take(n) {
			t.Fatalf("%d passed", n)
		}
	}
	if w.Give(80); fmt.Sprint(order) != "[90 1 2]" || w.Used() != 93 {
		t.Errorf("granted %v, %d in use", order, w.Used())
	}
}

// Who is granted may ask again at once, behind those who wait.
func TestWindowAskedAgainWhileGranting(t *testing.T) {
	w := newWindow(100)
	var order []string
	w.Take(100, nil)
	w.Take(90, func() {
		order = append(order, "first")
		w.Take(90, func() { order = append(order, "again") })
	})
	w.Take(90, func() { order = append(order, "second") })
	for range 3 {
		w.Give(min(w.Used(), 100))
	}
	if fmt.Sprint(order) != "[first second again]" || w.Used() != 90 {
		t.Errorf("%v, %d in use", order, w.Used())
	}
}

// Many take and give at a time: what is in use never exceeds the limit, but for
// one alone, whoever is refused is woken, once, and all comes back.
func TestWindowUnderMany(t *testing.T) {
	const limit = 1000
	w := newWindow(limit)
	var in, count atomic.Int64
	var all sync.WaitGroup
	for seed := range uint64(16) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			woken := make(chan struct{}, 2)
			for range 500 {
				n := 1 + r.Int64N(400)
				if r.IntN(50) == 0 {
					n = 3 * limit
				}
				if !w.Take(n, func() { woken <- struct{}{} }) {
					<-woken // a waiter that is forgotten hangs the test
				}
				others := count.Add(1) - 1
				if sum := in.Add(n); sum > limit && others > 0 {
					t.Errorf("seed %d: %d bytes of %d in flight, %d others", seed, sum, limit, others)
				}
				in.Add(-n)
				count.Add(-1)
				w.Give(n)
				if len(woken) > 0 {
					t.Errorf("seed %d: woken twice", seed)
				}
			}
		})
	}
	all.Wait()
	if w.Used() != 0 {
		t.Errorf("%d bytes are left in use", w.Used())
	}
}
