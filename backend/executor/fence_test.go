package executor

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// fenced is a Fence's answer: the batches that go on.
func (w *world) fenced(epoch wire.Epoch, keep bool) (goes []wire.BatchID, dropped int) {
	dropped = w.exec.Fence(epoch, keep, func(o *Order) { goes = append(goes, o.Batch.Batch) })
	return goes, dropped
}

// until polls.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// submit orders a batch of one request, and waits for its input: they are launched in this order.
func (w *world) submit(id wire.BatchID) {
	w.t.Helper()
	w.exec.Submit(newOrder(id, item(wire.RequestID(id), 0, 100*mono.Second)))
	until(w.t, "it is not ready", func() bool {
		w.exec.mu.Lock()
		defer w.exec.mu.Unlock()
		return !slices.ContainsFunc(w.exec.orders, func(o *order) bool { return !o.isReady() })
	})
}

// reported are the batches with a report, in order of their numbers.
func (w *world) reported() (all []wire.BatchID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.reports {
		all = append(all, id)
	}
	slices.Sort(all)
	return all
}

// At a fence what the device was given goes on, also what it has been given ahead; what waits is
// given up without an answer or a report, and an older order that comes later is not taken.
func TestFence(t *testing.T) {
	defer goleak.VerifyNone(t)
	step := make(chan error)
	w := newWorld(t, 1, newAhead(t, 2, func() error { return <-step }))
	memory := &lent{}
	w.exec.memory = memory
	for id := range wire.BatchID(4) {
		w.submit(id + 1)
	}
	until(t, "two batches on the device", func() bool {
		w.exec.mu.Lock()
		defer w.exec.mu.Unlock()
		return len(w.exec.launched) == 2
	})
	if goes, dropped := w.fenced(5, false); !slices.Equal(goes, []wire.BatchID{1, 2}) || dropped != 2 {
		t.Errorf("%v go on, %d are given up", goes, dropped)
	}
	w.exec.Submit(newOrder(5, item(5, 0, 100*mono.Second))) // of epoch 1: it has crossed
	wrong := newOrder(6, item(6, 0, 100*mono.Second))
	wrong.ModelIndex = 7
	w.exec.Submit(wrong) // not even refused
	next := newOrder(7, item(7, 0, 100*mono.Second))
	next.Epoch = 5
	w.exec.Submit(next)
	for range 3 {
		step <- nil
	}
	until(t, "it is not idle", w.exec.Idle)
	until(t, "outputs", func() bool {
		return len(w.frontends[0].got(1)) == 1 && len(w.frontends[0].got(2)) == 1 && len(w.frontends[0].got(7)) == 1
	})
	until(t, "other reports than of 1, 2 and 7", func() bool { return slices.Equal(w.reported(), []wire.BatchID{1, 2, 7}) })
	w.close()
	w.checkOnce()
	for _, id := range []wire.RequestID{3, 4, 5, 6} {
		if got := w.frontends[0].got(id); len(got) != 0 {
			t.Errorf("request %d was answered: %v", id, got)
		}
	}
	if memory.out != 0 {
		t.Errorf("%d buffers are lent still", memory.out)
	}
}

// What is kept at a fence is run; a second fence that keeps nothing gives it up.
func TestFenceKeeps(t *testing.T) {
	defer goleak.VerifyNone(t)
	step := make(chan error)
	w := newWorld(t, 1, newAhead(t, 1, func() error { return <-step }))
	for id := range wire.BatchID(3) {
		w.submit(id + 1)
	}
	if goes, dropped := w.fenced(5, true); !slices.Equal(goes, []wire.BatchID{1, 2, 3}) || dropped != 0 {
		t.Errorf("%v go on, %d are given up", goes, dropped)
	}
	step <- nil
	until(t, "the first is not reported", func() bool { return slices.Contains(w.reported(), 1) })
	if goes, dropped := w.fenced(6, false); !slices.Equal(goes, []wire.BatchID{2}) || dropped != 1 {
		t.Errorf("%v go on, %d are given up", goes, dropped)
	}
	step <- nil
	until(t, "the second is not reported, or not answered", func() bool {
		return slices.Equal(w.reported(), []wire.BatchID{1, 2}) && len(w.frontends[0].got(2)) == 1
	})
	w.close()
	w.checkOnce()
	if got := w.frontends[0].got(3); len(got) != 0 || len(w.reported()) != 2 {
		t.Errorf("what was given up is answered: %v", got)
	}
}

// A batch that the device has done, and whose report has not been given, goes on; one whose report
// has been given does not, though its outputs are still with their links.
func TestFenceWhileOutputsLeave(t *testing.T) {
	defer goleak.VerifyNone(t)
	w := newWorld(t, 1, &copier{t: t})
	report, last := make(chan struct{}), make(chan struct{})
	var before, after []wire.BatchID
	w.told = func(*wire.Done) { // within the report
		after, _ = w.fenced(2, false)
		close(last)
		<-report
	}
	o := newOrder(1, item(1, 0, 100*mono.Second))
	w.setLink(0, &calling{Link: w.frontends[0].link, sends: func() { before, _ = w.fenced(2, false) }})
	w.exec.Submit(o)
	<-last
	close(report)
	until(t, "it is not idle", w.exec.Idle)
	until(t, "no output", func() bool { return len(w.frontends[0].got(1)) == 1 })
	w.close()
	w.checkOnce()
	if !slices.Equal(before, []wire.BatchID{1}) || len(after) != 0 {
		t.Errorf("%v goes on while its outputs are sent, %v when it is reported", before, after)
	}
}

// Fences at any time, under orders of several epochs: each order is reported once or given up, none
// of an older epoch is taken after it, what goes on is reported, and all buffers come back.
func TestFencesAtAnyTime(t *testing.T) {
	defer goleak.VerifyNone(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for _, depth := range []int{1, 2} {
		w := newWorld(t, 2, newAhead(t, depth, func() error { time.Sleep(rand.N(500 * time.Microsecond)); return nil }))
		memory := &lent{}
		w.exec.memory = memory
		batch, taken := wire.BatchID(0), 0
		submit := func(e wire.Epoch) {
			batch++
			o := newOrder(batch, item(wire.RequestID(2*batch), 0, 100*mono.Second), item(wire.RequestID(2*batch+1), 1, 100*mono.Second))
			o.Epoch = e
			w.exec.Submit(o)
		}
		var crossed []wire.BatchID
		for e := wire.Epoch(1); e < 150; e++ {
			for range r.IntN(ordersMax + 1) {
				submit(e)
				taken++
				time.Sleep(time.Duration(r.IntN(300)) * time.Microsecond)
			}
			goes, dropped := w.fenced(e+1, r.IntN(3) == 0)
			taken -= dropped
			submit(e) // it comes too late
			crossed = append(crossed, batch)
			until(t, "an order is neither reported nor given up", func() bool { return len(w.reported()) == taken && w.exec.Idle() })
			all := w.reported()
			if slices.ContainsFunc(goes, func(id wire.BatchID) bool { return !slices.Contains(all, id) }) {
				t.Fatalf("%v go on, reported are %v", goes, all)
			}
		}
		w.close()
		w.checkOnce()
		all := w.reported()
		if len(all) != taken || slices.ContainsFunc(crossed, func(id wire.BatchID) bool { return slices.Contains(all, id) }) {
			t.Errorf("%d reports, want %d, and none of %v: %v", len(all), taken, crossed, all)
		}
		until(t, "buffers are lent still", func() bool {
			memory.mu.Lock()
			defer memory.mu.Unlock()
			return memory.out == 0
		})
	}
}

// calling is a link that calls before it sends an output.
type calling struct {
	transport.Link
	sends func()
}

func (c *calling) SendPayload(frame, payload []byte, release func()) error {
	c.sends()
	return c.Link.SendPayload(frame, payload, release)
}
