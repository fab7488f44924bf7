package ring

import (
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

func TestQueueIsBoundedAndOrdered(t *testing.T) {
	q := NewQueue[int](4)
	for round := range 10 {
		for i := range 4 {
			v := round*4 + i
			if !q.Push(&v) {
				t.Fatalf("push %d of round %d refused", i, round)
			}
		}
		extra := -1
		if q.Push(&extra) {
			t.Fatal("a fifth value fit into four cells")
		}
		for i := range 4 {
			var v int
			if !q.Pop(&v) || v != round*4+i {
				t.Fatalf("popped %d, want %d", v, round*4+i)
			}
		}
		var v int
		if q.Pop(&v) || q.Ready() || q.Len() != 0 {
			t.Fatal("an empty queue gave a value")
		}
	}
}

// Many producers, one consumer that sleeps whenever it can: nothing is lost,
// each producer's order holds, no wake-up is missed (the test would hang).
func TestProducersAndSleepingConsumer(t *testing.T) {
	const producers, each = 4, 20000
	q := NewQueue[[2]int](64)
	var w Waiter
	var wg sync.WaitGroup
	for p := range producers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range each {
				v := [2]int{p, i}
				for !q.Push(&v) {
					w.Wake()
					time.Sleep(time.Microsecond)
				}
				w.Wake()
			}
		}()
	}
	done := make(chan [producers]int)
	go func() {
		Lock()
		var next [producers]int
		for n := 0; n < producers*each; {
			var v [2]int
			if q.Pop(&v) {
				if v[1] != next[v[0]] {
					t.Errorf("producer %d: got %d, want %d", v[0], v[1], next[v[0]])
				}
				next[v[0]]++
				n++
				continue
			}
			w.Arm()
			if q.Ready() {
				w.Disarm()
				continue
			}
			w.Wait(mono.Never)
		}
		done <- next
	}()
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		t.Fatal("the consumer sleeps although values wait: a wake-up was lost")
	}
	wg.Wait()
}

func TestWaitEndsAtTheInstant(t *testing.T) {
	for _, spin := range []mono.Dur{0, mono.Millisecond} {
		w := Waiter{Spin: spin}
		until := mono.Now().Add(5 * mono.Millisecond)
		w.Arm()
		w.Wait(until)
		if now := mono.Now(); now < until {
			t.Fatalf("spin %v: woke %v early", spin, until.Sub(now))
		}
	}
}

// PushAll takes what there is room for; what was taken is free after Release.
func TestBursts(t *testing.T) {
	q := NewQueue[int](8)
	for round := range 5 {
		if n := q.PushAll([]int{1, 2, 3, 4, 5, 6}); n != 6 {
			t.Fatalf("round %d: %d taken into an empty queue of 8", round, n)
		}
		if n := q.PushAll([]int{7, 8, 9}); n != 2 {
			t.Fatalf("round %d: %d taken where 2 fit", round, n)
		}
		for want := 1; want <= 8; want++ {
			if v := q.Next(); v == nil || *v != want {
				t.Fatalf("round %d: got %v, want %d", round, v, want)
			}
		}
		if q.Next() != nil || q.Ready() {
			t.Fatal("a ninth value")
		}
		if extra := 0; q.Push(&extra) || q.Len() != 8 {
			t.Fatal("cells were given back before Release")
		}
		q.Release()
		if q.Len() != 0 {
			t.Fatalf("%d wait after Release", q.Len())
		}
	}
	q.Seal()
	if q.PushAll([]int{1}) != 0 {
		t.Fatal("a sealed queue took a value")
	}
}

// What is not needed before the wait's own end does not end it; a doze is not
// ended by Wake.
func TestWhatWakes(t *testing.T) {
	for _, c := range []struct {
		name  string
		doze  bool
		rouse func(w *Waiter, until mono.Time)
		ends  bool
	}{
		{"wake", false, func(w *Waiter, _ mono.Time) { w.Wake() }, true},
		{"wake by before", false, func(w *Waiter, until mono.Time) { w.WakeBy(until - 1) }, true},
		{"wake by after", false, func(w *Waiter, until mono.Time) { w.WakeBy(until) }, false},
		{"wake a doze", true, func(w *Waiter, _ mono.Time) { w.Wake() }, false},
		{"wake a doze by before", true, func(w *Waiter, until mono.Time) { w.WakeBy(until - 1) }, true},
		{"rouse a doze", true, func(w *Waiter, _ mono.Time) { w.Rouse() }, true},
		{"rouse", false, func(w *Waiter, _ mono.Time) { w.Rouse() }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w Waiter
			until := mono.Now().Add(300 * mono.Millisecond)
			ended := make(chan mono.Time)
			if w.ArmUntil(until); c.doze {
				w.ArmDoze(until)
			}
			go func() {
				Lock()
				if c.doze {
					w.Doze(until)
				} else {
					w.Wait(until)
				}
				ended <- mono.Now()
			}()
			c.rouse(&w, until)
			if at := <-ended; (at < until) != c.ends {
				t.Errorf("ended %v before its instant", until.Sub(at))
			}
		})
	}
}
