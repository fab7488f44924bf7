package executor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// ahead is a Pipelined device: it takes depth batches and ends them one after another, in
// order, when the test, or a goroutine of its own, says so.
type ahead struct {
	t     *testing.T
	depth int
	after func() error // what a batch ends with; may wait

	mu      sync.Mutex
	most    int
	batches chan *Batch
	under   int
	calls   int // of Launch, under way
	done    sync.WaitGroup
}

func newAhead(t *testing.T, depth int, after func() error) *ahead {
	a := &ahead{t: t, depth: depth, after: after, batches: make(chan *Batch, depth)}
	a.done.Add(1)
	go a.run()
	return a
}

func (a *ahead) Depth() int { return a.depth }

func (a *ahead) Launch(b *Batch) {
	a.mu.Lock()
	a.under++
	a.calls++
	a.most = max(a.most, a.under)
	if a.under > a.depth || a.calls > 1 {
		a.t.Errorf("%d batches on a device that takes %d, %d calls of Launch at once", a.under, a.depth, a.calls)
	}
	a.mu.Unlock()
	a.batches <- b
	a.mu.Lock()
	a.calls--
	a.mu.Unlock()
}

func (a *ahead) run() {
	defer a.done.Done()
	for b := range a.batches {
		start := mono.Now()
		err := a.after()
		for i := range b.Inputs {
			copy(b.Outputs[i], b.Inputs[i])
		}
		a.mu.Lock()
		a.under--
		a.mu.Unlock()
		b.Finish(start, mono.Now(), err)
	}
}

func (a *ahead) Close() {
	close(a.batches)
	a.done.Wait()
}

// A device of depth 2 gets the second batch while the first runs, and no third one; orders
// beyond the limit are refused at the same number of orders as with any device.
func TestLaunchesAhead(t *testing.T) {
	defer goleak.VerifyNone(t)
	step := make(chan struct{})
	d := newAhead(t, 2, func() error { <-step; return nil })
	w := newWorld(t, 1, d)
	defer w.close()
	launched := func() int {
		w.exec.mu.Lock()
		defer w.exec.mu.Unlock()
		return len(w.exec.launched)
	}
	for i := range 6 {
		w.exec.Submit(newOrder(wire.BatchID(i+1), item(wire.RequestID(i+1), 0, 10*mono.Second)))
		want := min(i+1, 2)
		for end := time.Now().Add(5 * time.Second); launched() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d orders: %d launched, want %d", i+1, launched(), want)
			}
		}
	}
	for end := time.Now().Add(5 * time.Second); len(w.frontends[0].got(6)) == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	for id, want := range []wire.Reason{5: wire.ReasonFull, 6: wire.ReasonFull} {
		if got := w.frontends[0].got(wire.RequestID(id)); want != 0 && (len(got) != 1 || got[0] != want) {
			t.Errorf("order %d: %v, want that it is refused as full: one runs and three wait", id, got)
		}
	}
	if w.exec.Idle() {
		t.Error("idle, with four orders")
	}
	close(step)
	w.wait(6)
	for id := range 4 {
		if got := w.frontends[0].got(wire.RequestID(id + 1)); len(got) != 1 || got[0] != wire.ReasonNone {
			t.Errorf("order %d: %v", id+1, got)
		}
	}
	if d.most != 2 {
		t.Errorf("at most %d batches on the device, want 2", d.most)
	}
}

// Close finishes what was launched, also ahead, and forgets what waits.
func TestCloseFinishesWhatWasLaunched(t *testing.T) {
	defer goleak.VerifyNone(t)
	w := newWorld(t, 1, newAhead(t, 2, func() error { time.Sleep(30 * time.Millisecond); return nil }))
	for id := range 3 {
		w.exec.Submit(newOrder(wire.BatchID(id+1), item(wire.RequestID(id+1), 0, 10*mono.Second)))
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		w.exec.mu.Lock()
		n := len(w.exec.launched)
		w.exec.mu.Unlock()
		if n == 2 {
			break
		}
	}
	w.exec.Close()
	w.mu.Lock()
	if len(w.reports) != 2 || len(w.reports[1]) != 1 || len(w.reports[2]) != 1 {
		t.Errorf("reports %v, want one of each batch that was launched", w.reports)
	}
	w.mu.Unlock()
	for _, f := range w.frontends {
		f.link.Close(nil)
		f.ln.Close()
	}
}

// Batches of a device that takes several, with failures, expired items and synchronous
// Finish: one report each, one output each at most, of its own input.
func TestChaosAhead(t *testing.T) {
	defer goleak.VerifyNone(t)
	const seed, batches = 5, 500
	r := rand.New(rand.NewPCG(seed, 0))
	var failures int
	failing := rand.New(rand.NewPCG(seed, 1))
	d := newAhead(t, 3, func() error {
		time.Sleep(time.Duration(failing.IntN(300)) * time.Microsecond)
		if failing.IntN(10) == 0 {
			failures++
			return errors.New("no")
		}
		return nil
	})
	w := newWorld(t, 4, d)
	id := wire.RequestID(0)
	for b := range batches {
		var items []wire.BatchItem
		for range 1 + r.IntN(16) {
			id++
			items = append(items, item(id, r.IntN(4), mono.Dur(r.IntN(30)-2)*mono.Millisecond))
		}
		w.exec.Submit(newOrder(wire.BatchID(b+1), items...))
		if r.IntN(4) != 0 {
			time.Sleep(200 * time.Microsecond)
		}
	}
	w.wait(batches)
	for b, reports := range w.reports {
		if len(reports) != 1 {
			t.Errorf("seed %d: batch %d has %d reports", seed, b, len(reports))
		}
	}
	answers := 0
	for _, f := range w.frontends {
		f.mu.Lock()
		for id, o := range f.outputs {
			answers++
			if len(o) != 1 {
				t.Errorf("seed %d: request %d has outputs %v", seed, id, o)
			}
		}
		f.mu.Unlock()
	}
	if answers != int(id) || failures == 0 {
		t.Errorf("seed %d: %d answers to %d requests, %d failures", seed, answers, id, failures)
	}
	w.close()
}

// recording is an Allocator that knows what it gave and got back.
type recording struct {
	mu   sync.Mutex
	gave map[*byte]int
	back map[*byte]int
}

func (m *recording) Alloc(n int) []byte {
	b := make([]byte, max(n, 1))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gave[unsafe.SliceData(b)]++
	return b[:n]
}

func (m *recording) Free(b []byte) {
	if cap(b) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.back[unsafe.SliceData(b)]++
}

// Buffers that a device may still write to are neither used nor given back; all others are,
// once.
func TestBuffersAstray(t *testing.T) {
	defer goleak.VerifyNone(t)
	var lost error
	seen := map[*byte]bool{}
	astray := map[*byte]bool{}
	var w *world
	d := newAhead(t, 2, nil)
	d.after = func() error { return lost }
	m := &recording{gave: map[*byte]int{}, back: map[*byte]int{}}
	w = newWorld(t, 1, neverDone{})
	w.exec = New(d, []Model{{InputSize: itemSize, InputMax: itemSize, OutputSize: itemSize, MaxBatch: 16}}, w, m, w, Observer{})
	for i := range 20 {
		lost = nil
		if i == 7 {
			lost = fmt.Errorf("it hangs: %w", ErrAstray)
		}
		w.exec.Submit(newOrder(wire.BatchID(i+1), item(wire.RequestID(i+1), 0, 10*mono.Second)))
		w.wait(i + 1)
		w.exec.mu.Lock()
		for _, o := range w.exec.spare {
			for _, b := range [][]byte{o.in, o.out} {
				if astray[unsafe.SliceData(b)] && cap(b) > 0 {
					t.Errorf("batch %d: a buffer that may be written to is used again", i+1)
				}
				if i < 7 {
					seen[unsafe.SliceData(b)] = true
				}
			}
		}
		if i == 7 { // what is no spare's any more
			for b := range seen {
				astray[b] = true
			}
			for _, o := range w.exec.spare {
				delete(astray, unsafe.SliceData(o.in))
				delete(astray, unsafe.SliceData(o.out))
			}
		}
		w.exec.mu.Unlock()
	}
	w.close()
	if len(astray) != 2 {
		t.Errorf("%d buffers astray, want the batch's two", len(astray))
	}
	for b := range m.gave {
		if want := 1; m.back[b] != want && !astray[b] || astray[b] && m.back[b] != 0 {
			t.Errorf("a buffer was given back %d times (astray: %v)", m.back[b], astray[b])
		}
	}
}

var _ transport.Allocator = (*recording)(nil)
