package executor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// picky fails each batch that has a bad request, and runs the others.
type picky struct {
	t     *testing.T
	depth int
	bad   func(id wire.RequestID) bool
	pause time.Duration

	queue chan *Batch
	runs  sync.WaitGroup
	sizes []int // of the runs; owned by its goroutine until Close
}

func newPicky(t *testing.T, depth int, bad func(wire.RequestID) bool) *picky {
	d := &picky{t: t, depth: depth, bad: bad, queue: make(chan *Batch, depth)}
	d.runs.Add(1)
	go d.run()
	return d
}

func (d *picky) Depth() int { return d.depth }

func (d *picky) Launch(b *Batch) {
	select {
	case d.queue <- b:
	default:
		d.t.Error("more batches than the device takes")
	}
}

func (d *picky) Close() {
	close(d.queue)
	d.runs.Wait()
}

var errPicky = errors.New("indices element out of data bounds,\n\x1b[1midx=99 \xff")

func (d *picky) run() {
	defer d.runs.Done()
	for b := range d.queue {
		start, err := mono.Now(), error(nil)
		if len(b.Input) != b.Size*itemSize || len(b.Inputs) != b.Size || len(b.Outputs) != b.Size || len(b.Output) != b.Size*itemSize {
			d.t.Errorf("a batch of %d: %d bytes of inputs, %d inputs, %d outputs of %d bytes", b.Size, len(b.Input), len(b.Inputs), len(b.Outputs), len(b.Output))
		}
		time.Sleep(d.pause)
		for i := range b.Size {
			if d.bad(wire.RequestID(binary.LittleEndian.Uint64(b.Input[i*itemSize:]) / 1_000_003)) {
				err = errPicky
			}
		}
		if err == nil {
			copy(b.Output, b.Input)
		}
		d.sizes = append(d.sizes, b.Size)
		b.Finish(start, mono.Now(), err)
	}
}

// plannedOrder is an order that has much time left.
func plannedOrder(batch wire.BatchID, items ...wire.BatchItem) *Order {
	o := newOrder(batch, items...)
	o.Exec, o.Until = o.Arrived, o.Arrived.Add(30*mono.Second)
	return o
}

// startBeside has other goroutines look for what can be launched, as the ends of READs do, until stop.
func startBeside(e *Executor) (stop func()) {
	var over atomic.Bool
	var looks sync.WaitGroup
	for range 4 {
		looks.Go(func() {
			for !over.Load() {
				e.start()
			}
		})
	}
	return func() {
		over.Store(true)
		looks.Wait()
	}
}

// Of a batch that fails only those fail that fail alone; the others get their own outputs.
func TestOnlyCulpritsFail(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, depth := range []int{1, 2} {
		t.Run(fmt.Sprint("depth ", depth), func(t *testing.T) {
			defer goleak.VerifyNone(t)
			rnd := rand.New(rand.NewPCG(seed, uint64(depth)))
			bad := func(id wire.RequestID) bool { return id%7 == 3 }
			w := newWorld(t, 2, newPicky(t, depth, bad))
			defer w.close()
			defer startBeside(w.exec)()
			const batches = 60
			id := wire.RequestID(0)
			for b := range wire.BatchID(batches) {
				items := make([]wire.BatchItem, 1+rnd.IntN(16))
				for i := range items {
					items[i] = item(id, rnd.IntN(2), 30*mono.Second)
					items[i].Suspicion = wire.Suspicion(rnd.IntN(6) / 4)
					id++
				}
				w.exec.Submit(plannedOrder(b, items...))
				w.wait(int(b) + 1)
			}
			for k := range id {
				all := append(w.frontends[0].got(k), w.frontends[1].got(k)...)
				want := wire.ReasonNone
				if bad(k) {
					want = wire.ReasonExecution
				}
				if len(all) != 1 || all[0] != want {
					t.Errorf("request %d: %v, want one %v", k, all, want)
				}
			}
			for b := range wire.BatchID(batches) {
				d := w.report(b)
				if int(d.Ran)+int(d.Failed) == 0 || d.End < d.Start || len(w.reports[b]) != 1 {
					t.Errorf("batch %d: %+v", b, w.reports[b])
				}
			}
		})
	}
}

// What is told of a batch that failed: its report is marked, the culprit gets the model's words, and no run is counted
// with another length than its own.
func TestWhatIsToldOfAFailedBatch(t *testing.T) {
	defer goleak.VerifyNone(t)
	d := newPicky(t, 1, func(id wire.RequestID) bool { return id == 5 })
	w := newWorld(t, 1, d)
	var ran, failed atomic.Int64
	var parted Parted
	w.exec.obs = Observer{Ran: func(_ wire.GPUID, _, size int, _, _ mono.Dur) { ran.Add(int64(size)) },
		Failed: func(f *Failure) {
			failed.Add(int64(f.Requests))
			if f.First == nil || f.First.Request != 5 || !errors.Is(f.Err, errPicky) {
				t.Errorf("%+v", f)
			}
		}, Parted: func(p *Parted) { parted = *p }}
	var items []wire.BatchItem
	for id := range wire.RequestID(16) {
		items = append(items, item(id, 0, 10*mono.Second))
	}
	w.exec.Submit(plannedOrder(1, items...))
	w.wait(1)
	w.close()
	if r := w.report(1); r.Flags&wire.OutputParts == 0 || r.Ran != 15 || r.Failed != 1 || r.Reason != wire.ReasonNone {
		t.Errorf("report %+v", r)
	}
	if ran.Load() != 15 || failed.Load() != 1 || parted.Runs != len(d.sizes) || parted.Ran != 15 || parted.Alone != 1 {
		t.Errorf("%d ran, %d failed, %+v, runs of %v", ran.Load(), failed.Load(), parted, d.sizes)
	}
	f := w.frontends[0]
	if f.flags[5] != wire.OutputAlone || f.texts[5] != "indices element out of data bounds, ?[1midx=99 ?" {
		t.Errorf("flags %x, text %q", f.flags[5], f.texts[5])
	}
}

// Suspects run after the others, apart, and do not make them wait: the first run is of those above suspicion.
func TestSuspectsRunApart(t *testing.T) {
	defer goleak.VerifyNone(t)
	d := newPicky(t, 1, func(id wire.RequestID) bool { return id%4 == 1 })
	w := newWorld(t, 1, d)
	var items []wire.BatchItem
	for id := range wire.RequestID(16) {
		items = append(items, item(id, 0, 10*mono.Second))
		if id%4 == 1 {
			items[id].Suspicion = wire.SuspicionStrong
		}
	}
	w.exec.Submit(plannedOrder(1, items...))
	w.wait(1)
	w.close()
	for id := range wire.RequestID(16) {
		want := wire.ReasonNone
		if id%4 == 1 {
			want = wire.ReasonExecution
		}
		if got := w.frontends[0].got(id); len(got) != 1 || got[0] != want {
			t.Errorf("request %d: %v", id, got)
		}
	}
	if len(d.sizes) != 5 || d.sizes[0] != 12 {
		t.Errorf("runs of %v, want 12 and four of 1", d.sizes)
	}
}

// A suspect whose share of the time is used up is refused with a reason that says so.
func TestSuspectsBeyondTheirShare(t *testing.T) {
	defer goleak.VerifyNone(t)
	d := newPicky(t, 1, func(id wire.RequestID) bool { return id%2 == 1 })
	d.pause = 30 * time.Millisecond
	w := newWorld(t, 1, d)
	var isolated atomic.Int64
	w.exec.obs.Failed = func(f *Failure) {
		if f.Cause == CauseIsolated {
			isolated.Add(int64(f.Requests))
		}
	}
	const batches = 30
	for b := range wire.BatchID(batches) {
		bad := item(wire.RequestID(2*b+1), 0, 10*mono.Second)
		bad.Suspicion = wire.SuspicionStrong
		w.exec.Submit(plannedOrder(b, bad, item(wire.RequestID(2*b), 0, 10*mono.Second)))
		w.wait(int(b) + 1)
	}
	w.close()
	refused := 0
	for b := range wire.RequestID(batches) {
		if got := w.frontends[0].got(2 * b); len(got) != 1 || got[0] != wire.ReasonNone {
			t.Errorf("request %d: %v", 2*b, got)
		}
		got := w.frontends[0].got(2*b + 1)
		if len(got) != 1 || got[0] != wire.ReasonExecution && got[0] != wire.ReasonIsolated {
			t.Errorf("request %d: %v", 2*b+1, got)
		}
		if got[0] == wire.ReasonIsolated {
			refused++
		}
	}
	if int64(refused) != isolated.Load() || refused < batches/3 || refused == batches {
		t.Errorf("%d of %d were refused, %d told", refused, batches, isolated.Load())
	}
}

// Suspend, Fence and Close amid the parts of a batch: each request has one answer at most, buffers come back, nothing hangs.
func TestPartsAreCutShort(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 9))
	for round := range 40 {
		func() {
			defer goleak.VerifyNone(t)
			d := newPicky(t, 1+round%2, func(id wire.RequestID) bool { return id%5 == 0 })
			d.pause = 500 * time.Microsecond
			w := newWorld(t, 1, d)
			for b := range wire.BatchID(2) {
				var items []wire.BatchItem
				for id := range wire.RequestID(16) {
					items = append(items, item(wire.RequestID(b)*16+id, 0, 10*mono.Second))
				}
				w.exec.Submit(plannedOrder(b, items...))
			}
			time.Sleep(time.Duration(rnd.IntN(8000)) * time.Microsecond)
			switch rnd.IntN(3) {
			case 0:
				w.exec.Suspend()
				for end := time.Now().Add(10 * time.Second); !w.exec.Idle() && time.Now().Before(end); {
					time.Sleep(time.Millisecond)
				}
				if w.exec.Resume(); !w.exec.Idle() {
					t.Error("the device is not free")
				}
			case 1:
				w.exec.Fence(5, false, func(*Order) {})
				for end := time.Now().Add(10 * time.Second); !w.exec.Idle() && time.Now().Before(end); {
					time.Sleep(time.Millisecond)
				}
				if !w.exec.Idle() {
					t.Error("the device is not free")
				}
			}
			w.close()
			for id := range wire.RequestID(32) {
				if got := w.frontends[0].got(id); len(got) > 1 {
					t.Errorf("request %d: %v", id, got)
				}
			}
		}()
	}
}

// An order of which no request is left to run says nothing about its model: of one that does nothing but fail there are
// no reruns, whatever expires in between.
func TestExpiredOrdersProveNothing(t *testing.T) {
	defer goleak.VerifyNone(t)
	for try := 0; ; try++ {
		d := newPicky(t, 1, func(wire.RequestID) bool { return true })
		w := newWorld(t, 1, d)
		const fails = 12 // rerun takes the model to be hopeless
		for b := range wire.BatchID(fails) {
			w.exec.Submit(plannedOrder(b, item(wire.RequestID(b), 0, 10*mono.Second)))
			w.wait(int(b) + 1)
		}
		failed := time.Now()
		w.exec.Submit(plannedOrder(100, item(100, 0, -mono.Second)))
		w.wait(fails + 1)
		w.exec.Submit(plannedOrder(101, item(101, 0, 10*mono.Second), item(102, 0, 10*mono.Second)))
		w.wait(fails + 2)
		took := time.Since(failed)
		w.close()
		if took > 900*time.Millisecond && try < 20 {
			continue // rerun tries such a model again each second
		}
		if len(d.sizes) != fails+1 {
			t.Errorf("runs of %v, want %d of 1 and one of 2", d.sizes, fails)
		}
		return
	}
}
