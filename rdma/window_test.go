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
	woken := 0
	wake := func() { woken++ }
	if !w.Take(60, wake) || !w.Take(40, wake) || w.Take(1, wake) || w.Used() != 100 {
		t.Fatalf("%d of 100 in use", w.Used())
	}
	if w.Give(40); woken != 1 {
		t.Fatalf("woken %d times", woken)
	}
	if w.Give(60); woken != 1 || w.Used() != 0 {
		t.Errorf("woken %d times, %d in use: a wake is for one refusal", woken, w.Used())
	}
}

// One that is larger than the whole window passes, alone.
func TestWindowPassesAGiantAlone(t *testing.T) {
	w := newWindow(100)
	never := func() {}
	if !w.Take(1000, never) {
		t.Fatal("a READ larger than the window can never be made")
	}
	if w.Take(1, never) {
		t.Error("something else beside it")
	}
	w.Give(1000)
	if !w.Take(1, never) || w.Take(1000, never) {
		t.Error("a giant beside something else")
	}
	w.Give(1)
	if !w.Take(1000, never) {
		t.Error("it is alone again")
	}
}

// Who is woken may ask again at once, and must wait again: nobody is forgotten
// over that, nor woken for what he asked only now.
func TestWindowAskedAgainWhileWaking(t *testing.T) {
	w := newWindow(100)
	var woken []string
	again := func() { woken = append(woken, "again") }
	w.Take(100, nil)
	w.Take(90, func() {
		woken = append(woken, "first")
		w.Take(90, again)
		w.Take(90, again)
	})
	w.Take(90, func() { woken = append(woken, "second") })
	if w.Give(10); fmt.Sprint(woken) != "[first second]" {
		t.Errorf("woken: %v", woken)
	}
	if w.Give(90); fmt.Sprint(woken) != "[first second again again]" {
		t.Errorf("woken: %v", woken)
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
				for !w.Take(n, func() { woken <- struct{}{} }) {
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
