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

// BenchmarkLateness reports how late waits of 1 ms end, as a distribution.
func BenchmarkLateness(b *testing.B) {
	for name, spin := range map[string]mono.Dur{"park": 0, "spin": mono.Millisecond} {
		b.Run(name, func(b *testing.B) {
			Lock()
			w := Waiter{Spin: spin}
			var worst, sum mono.Dur
			for b.Loop() {
				until := mono.Now().Add(mono.Millisecond)
				w.Arm()
				w.Wait(until)
				late := mono.Now().Sub(until)
				worst, sum = max(worst, late), sum+late
			}
			b.ReportMetric(float64(sum)/float64(b.N)/1000, "us-late/wait")
			b.ReportMetric(float64(worst)/1000, "us-worst")
		})
	}
}

func BenchmarkQueue(b *testing.B) {
	q := NewQueue[[16]uint64](1024)
	var v [16]uint64
	b.ReportAllocs()
	for b.Loop() {
		q.Push(&v)
		q.Pop(&v)
	}
}
