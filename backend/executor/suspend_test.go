package executor

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// lent counts the buffers that are out.
type lent struct {
	mu  sync.Mutex
	out int
}

func (l *lent) Alloc(n int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out++
	return make([]byte, max(n, 1))
}

func (l *lent) Free(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cap(b) > 0 {
		l.out--
	}
}

// A device that is suspended says nothing of what it had, wherever that was: among orders
// whose inputs are on their way, that wait, or that run. After it everything is as before,
// and nothing is lost of what the executor has borrowed.
func TestSuspend(t *testing.T) {
	defer goleak.VerifyNone(t)
	w := newWorld(t, 2, &copier{t: t, pause: func() time.Duration { return rand.N(2 * time.Millisecond) }})
	memory := &lent{}
	w.exec.memory = memory
	random := rand.New(rand.NewPCG(7, 11))
	told := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.reports)
	}
	batch := wire.BatchID(0)
	submit := func(n int) {
		for range n {
			batch++
			w.exec.Submit(newOrder(batch, item(wire.RequestID(2*batch), 0, mono.Second), item(wire.RequestID(2*batch+1), 1, mono.Second)))
		}
	}
	for range 200 {
		submit(1 + random.IntN(ordersMax))
		time.Sleep(time.Duration(random.IntN(1500)) * time.Microsecond)
		w.exec.Suspend()
		before := told()
		submit(1) // one that has crossed
		for end := time.Now().Add(10 * time.Second); !w.exec.Idle(); time.Sleep(100 * time.Microsecond) {
			if time.Now().After(end) {
				t.Fatal("the device does not become idle")
			}
		}
		if after := told(); after > before+1 { // the report of one that had ended before may be under way
			t.Fatalf("%d reports while it was suspended", after-before)
		}
		w.exec.Resume()
		first := batch + 1
		submit(1)
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Microsecond) {
			w.mu.Lock()
			reports := w.reports[first]
			w.mu.Unlock()
			if len(reports) > 0 && w.exec.Idle() {
				if reports[0].Ran != 2 {
					t.Fatalf("the first batch after it: %+v", reports[0])
				}
				break
			}
			if time.Now().After(end) {
				t.Fatal("the first batch after it is not reported")
			}
		}
	}
	time.Sleep(50 * time.Millisecond) // READs of forgotten orders
	w.close()
	w.checkOnce()
	memory.mu.Lock()
	defer memory.mu.Unlock()
	if memory.out != 0 {
		t.Errorf("%d buffers are lent still", memory.out)
	}
}

// An order whose buffers a device has taken with it has others in its next life, and gives
// these back.
func TestBuffersAfterAstray(t *testing.T) {
	defer goleak.VerifyNone(t)
	step := make(chan error)
	w := newWorld(t, 1, newAhead(t, 1, func() error { return <-step }))
	memory := &lent{}
	w.exec.memory = memory
	for id := range 2 {
		w.exec.Submit(newOrder(wire.BatchID(id+1), item(wire.RequestID(id+1), 0, 10*mono.Second)))
	}
	step <- ErrAstray
	is := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			w.exec.mu.Lock()
			yes := is()
			w.exec.mu.Unlock()
			if yes {
				return
			}
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	is("the first order has not ended", func() bool { return len(w.exec.spare) == 1 && len(w.exec.launched) == 1 })
	w.exec.Submit(newOrder(3, item(3, 0, 10*mono.Second))) // the next life of what was order 1
	is("no order waits", func() bool { return len(w.exec.orders) == 1 && w.exec.orders[0].isReady() })
	w.exec.Suspend()
	step <- nil
	is("the second order has not ended", func() bool { return len(w.exec.launched) == 0 })
	w.close()
	if memory.out != 2 {
		t.Errorf("%d buffers are lost, want those of the order that went astray", memory.out)
	}
}

// A device that hangs takes orders as long as it is tried, in place of those that are late:
// refused as full, they would fail at once, and make the device seem free.
func TestOrdersOfADeviceThatHangs(t *testing.T) {
	defer goleak.VerifyNone(t)
	step := make(chan error)
	w := newWorld(t, 1, newAhead(t, 1, func() error { return <-step }))
	memory := &lent{}
	w.exec.memory = memory
	const orders = 4 * ordersMax
	for id := range orders {
		w.exec.Submit(newOrder(wire.BatchID(id+1), item(wire.RequestID(id+1), 0, 20*mono.Millisecond)))
		time.Sleep(30 * time.Millisecond)
	}
	w.mu.Lock()
	if len(w.reports) != orders-1-ordersMax {
		t.Errorf("%d reports, want those of %d late orders", len(w.reports), orders-1-ordersMax)
	}
	for id, r := range w.reports {
		if r[0].Reason != wire.ReasonDeadline || id > orders-ordersMax {
			t.Errorf("order %d of %d: %+v", id, orders, r)
		}
	}
	w.mu.Unlock()
	step <- nil
	w.wait(orders)
	w.close()
	w.checkOnce()
	if memory.out != 0 {
		t.Errorf("%d buffers are lent still", memory.out)
	}
}

// checkOnce: no batch is reported twice, no request answered twice, no slab held.
func (w *world) checkOnce() {
	w.t.Helper()
	for id, reports := range w.reports {
		if len(reports) != 1 {
			w.t.Errorf("batch %d has %d reports", id, len(reports))
		}
	}
	for _, f := range w.frontends {
		f.mu.Lock()
		for id, got := range f.outputs {
			if len(got) != 1 {
				w.t.Errorf("request %d has %d answers", id, len(got))
			}
		}
		if f.pins != 0 {
			w.t.Errorf("%d slabs are pinned", f.pins)
		}
		f.mu.Unlock()
	}
}
