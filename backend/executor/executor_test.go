package executor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const itemSize = 64

// frontend is a fake frontend: slabs made from the request's id, and a count
// of the outputs per request.
type frontend struct {
	t     *testing.T
	stale map[wire.RequestID]bool // Immutable once orders run.

	mu      sync.Mutex
	outputs map[wire.RequestID][]wire.Reason
	cold    map[wire.RequestID]bool
	flags   map[wire.RequestID]wire.OutputFlags
	texts   map[wire.RequestID]string // of those that failed
	pins    int
	ln      transport.Listener
	link    transport.Link // the executor's end
}

func input(id wire.RequestID) []byte {
	b := make([]byte, itemSize)
	for i := 0; i < itemSize; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], uint64(id)*1_000_003+uint64(i))
	}
	return b
}

func (f *frontend) Pin(_ wire.SlabRef, id wire.RequestID) ([]byte, error) {
	if f.stale[id] {
		return nil, transport.ErrStale
	}
	f.mu.Lock()
	f.pins++
	f.mu.Unlock()
	return input(id), nil
}

func (f *frontend) Unpin(wire.SlabRef) {
	f.mu.Lock()
	f.pins--
	f.mu.Unlock()
}

// got are the outputs of a request so far.
func (f *frontend) got(id wire.RequestID) []wire.Reason {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.outputs[id]
}

func (f *frontend) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }
func (f *frontend) Closed(transport.Link, error)                         {}

func (f *frontend) Receive(_ transport.Link, m transport.Frame) {
	var o wire.Output
	if err := o.Decode(m.Body, 0); err != nil {
		f.t.Error(err)
		return
	}
	if o.Reason == wire.ReasonNone && !bytes.Equal(m.Payload, input(o.Request)) {
		f.t.Errorf("request %d got another's output, or one that was overwritten", o.Request)
	}
	f.mu.Lock()
	f.outputs[o.Request] = append(f.outputs[o.Request], o.Reason)
	f.flags[o.Request] = o.Flags
	if o.Reason != wire.ReasonNone {
		f.texts[o.Request] = string(m.Payload)
	}
	f.cold[o.Request] = o.Flags&wire.OutputCold != 0
	f.mu.Unlock()
}

// world is a network with frontends, an executor and its reports.
type world struct {
	t         *testing.T
	network   *loopback.Network
	mu        sync.Mutex
	frontends []*frontend
	reports   map[wire.BatchID][]wire.Done
	exec      *Executor
	unreached atomic.Int64
	told      func(*wire.Done) // of each report, when not nil
	loads     map[wire.LoadID][]wire.Loaded
}

func (w *world) Link(id wire.FrontendID) transport.Link {
	w.mu.Lock()
	defer w.mu.Unlock()
	if int(id) >= len(w.frontends) {
		return nil
	}
	return w.frontends[id].link
}

// setLink replaces the link to a frontend and returns what it was.
func (w *world) setLink(i int, l transport.Link) (was transport.Link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, w.frontends[i].link = w.frontends[i].link, l
	return was
}

// AwaitFirst asks again until there is a link, on goroutines of its own.
func (w *world) AwaitFirst(id wire.FrontendID, d mono.Dur, then func(transport.Link)) {
	if int(id) >= len(w.frontends) {
		then(nil)
		return
	}
	go func() {
		for end := mono.Now().Add(d); mono.Now() < end; time.Sleep(time.Millisecond) {
			if l := w.Link(id); l != nil {
				then(l)
				return
			}
		}
		then(nil)
	}()
}

func (w *world) Report(d *wire.Done) {
	if w.told != nil {
		w.told(d)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports[d.Batch] = append(w.reports[d.Batch], *d)
}

// report is the first report of a batch.
func (w *world) report(id wire.BatchID) wire.Done {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reports[id][0]
}

type noHandler struct{}

func (noHandler) Receive(transport.Link, transport.Frame)              {}
func (noHandler) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }
func (noHandler) Closed(transport.Link, error)                         {}

func newWorld(t *testing.T, frontends int, d Device) *world {
	t.Helper()
	w := &world{t: t, network: loopback.New(), reports: map[wire.BatchID][]wire.Done{}, loads: map[wire.LoadID][]wire.Loaded{}}
	for range frontends {
		f := &frontend{t: t, stale: map[wire.RequestID]bool{}, outputs: map[wire.RequestID][]wire.Reason{}, cold: map[wire.RequestID]bool{}, flags: map[wire.RequestID]wire.OutputFlags{}, texts: map[wire.RequestID]string{}}
		var err error
		f.ln, err = w.network.Listen("inproc:", transport.Options{Slabs: f, Hello: wire.Hello{Role: wire.RoleFrontend}}, func(wire.Hello) (transport.Handler, error) { return f, nil })
		if err == nil {
			f.link, err = w.network.Dial(context.Background(), f.ln.Address(), transport.Options{Hello: wire.Hello{Role: wire.RoleBackend}}, noHandler{})
		}
		if err != nil {
			t.Fatal(err)
		}
		w.frontends = append(w.frontends, f)
	}
	w.exec = New(d, []Model{{InputSize: itemSize, InputMax: itemSize, OutputSize: itemSize, MaxBatch: 16}}, w, transport.Heap{}, w, Observer{Unreached: func(int) { w.unreached.Add(1) }})
	return w
}

func (w *world) close() {
	w.exec.Close()
	for _, f := range w.frontends {
		f.link.Close(nil)
		f.ln.Close()
	}
}

// wait waits until every batch has a report.
func (w *world) wait(batches int) {
	w.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		w.mu.Lock()
		n := len(w.reports)
		w.mu.Unlock()
		if n == batches && w.exec.Idle() {
			time.Sleep(20 * time.Millisecond) // outputs on their way
			return
		}
	}
	w.t.Fatalf("%d of %d batches were reported within 10 s", len(w.reports), batches)
}

// copier is a Device that copies inputs to outputs after a while, on a
// goroutine of its own, and tells when two batches overlap.
type copier struct {
	t     *testing.T
	pause func() time.Duration
	fail  error
	mu    sync.Mutex
	busy  bool
	runs  sync.WaitGroup
}

func (c *copier) Close() { c.runs.Wait() }

func (c *copier) Launch(b *Batch) {
	c.mu.Lock()
	if c.busy {
		c.t.Error("two batches on one device")
	}
	c.busy = true
	c.mu.Unlock()
	c.runs.Add(1)
	go func() {
		defer c.runs.Done()
		start := mono.Now()
		if c.pause != nil {
			time.Sleep(c.pause())
		}
		for i := range b.Inputs {
			copy(b.Outputs[i], b.Inputs[i])
		}
		c.mu.Lock()
		c.busy = false
		c.mu.Unlock()
		b.Finish(start, mono.Now(), c.fail)
	}()
}

// hold is a pause that tells that it has begun, and ends with held.
func hold(running chan<- struct{}, held <-chan struct{}) func() time.Duration {
	return func() time.Duration {
		running <- struct{}{}
		<-held
		return 0
	}
}

// ending reports whether Close has been called.
func (e *Executor) ending() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

func item(id wire.RequestID, f int, budget mono.Dur) wire.BatchItem {
	return wire.BatchItem{Request: id, Frontend: wire.FrontendID(f), Deadline: mono.Now().Add(budget), Input: wire.SlabRef{Length: itemSize}}
}

func newOrder(batch wire.BatchID, items ...wire.BatchItem) *Order {
	return &Order{Batch: wire.Batch{Epoch: 1, Batch: batch, Latest: mono.Never, Items: items}, Arrived: mono.Now()}
}

func TestEachKindOfItem(t *testing.T) {
	defer goleak.VerifyNone(t)
	w := newWorld(t, 2, &copier{t: t})
	defer w.close()
	w.frontends[0].stale[2] = true
	long := item(4, 1, mono.Second)
	long.Input.Length = 2 * itemSize
	w.exec.Submit(newOrder(1, item(1, 0, mono.Second), item(2, 0, mono.Second), item(3, 1, mono.Second), long, item(5, 9, mono.Second), item(6, 1, -1)))
	w.wait(1)
	want := []map[wire.RequestID]wire.Reason{{1: wire.ReasonNone, 2: wire.ReasonInput}, {3: wire.ReasonNone, 4: wire.ReasonInput, 6: wire.ReasonDeadline}}
	for i, f := range w.frontends {
		for id, reason := range want[i] {
			if got := f.got(id); len(got) != 1 || got[0] != reason {
				t.Errorf("request %d: outputs %v, want one %v", id, got, reason)
			}
		}
		f.mu.Lock()
		if len(f.outputs) != len(want[i]) {
			t.Errorf("frontend %d: %v", i, f.outputs)
		}
		f.mu.Unlock()
	}
	if d := w.report(1); d.Ran != 2 || d.Failed != 4 || d.Reason != wire.ReasonNone {
		t.Errorf("report %+v", d)
	}
}

// counting is a link that counts what is sent on it.
type counting struct {
	transport.Link
	sent atomic.Int64
}

func (c *counting) Send(frames []byte) error {
	c.sent.Add(1)
	return c.Link.Send(frames)
}

func (c *counting) SendPayload(frame, payload []byte, release func()) error {
	c.sent.Add(1)
	return c.Link.SendPayload(frame, payload, release)
}

// A batch is reported when all its answers have been handed to their links: reported
// first, it would be done although its backend may die with the outputs.
func TestReportComesLast(t *testing.T) {
	defer goleak.VerifyNone(t)
	w := newWorld(t, 1, &copier{t: t})
	defer w.close()
	link := &counting{}
	link.Link = w.setLink(0, link)
	var before atomic.Int64
	w.told = func(*wire.Done) { before.Store(link.sent.Load()) }
	w.frontends[0].stale[2] = true
	w.exec.Submit(newOrder(1, item(1, 0, mono.Second), item(2, 0, mono.Second), item(3, 0, mono.Second)))
	w.wait(1)
	if n := before.Load(); n != 3 {
		t.Errorf("reported after %d of 3 answers", n)
	}
}

// A frontend may send its first request, and get a device at once, before the
// data link to it is up.
func TestWaitsForALinkThatComes(t *testing.T) {
	defer goleak.VerifyNone(t)
	w := newWorld(t, 2, &copier{t: t})
	defer w.close()
	late := w.setLink(1, nil)
	w.exec.Submit(newOrder(1, item(1, 0, mono.Second), item(2, 1, mono.Second), item(3, 9, mono.Second)))
	time.Sleep(10 * time.Millisecond)
	w.setLink(1, late)
	w.wait(1)
	for i, f := range w.frontends {
		if got := f.got(wire.RequestID(i + 1)); len(got) != 1 || got[0] != wire.ReasonNone {
			t.Errorf("request %d: outputs %v, want one", i+1, got)
		}
	}
	if d := w.report(1); d.Ran != 2 || d.Failed != 1 {
		t.Errorf("report %+v: the frontend that never comes fails alone", d)
	}
	if n := w.unreached.Load(); n != 1 {
		t.Errorf("%d answers unreached, want that of the frontend that never comes", n)
	}
}

// A link that does not come must not cost the others of the batch their
// deadlines: it is awaited as long as the batch can still be run.
func TestDoesNotWaitForALinkTooLong(t *testing.T) {
	defer goleak.VerifyNone(t)
	w := newWorld(t, 2, &copier{t: t})
	defer w.close()
	never := w.setLink(1, nil)
	o := newOrder(1, item(1, 0, 2*mono.Second), item(2, 1, 60*mono.Second))
	o.Exec, o.Until = o.Arrived, o.Arrived.Add(1900*mono.Millisecond)
	w.exec.Submit(o)
	w.wait(1)
	if got := w.frontends[0].got(1); len(got) != 1 || got[0] != wire.ReasonNone {
		t.Errorf("outputs %v of the one that could be served, want one", got)
	}
	w.setLink(1, never) // for close
}

func TestExecutionFails(t *testing.T) {
	w := newWorld(t, 1, &copier{t: t, fail: errors.New("out of memory")})
	defer w.close()
	w.exec.Submit(newOrder(1, item(1, 0, mono.Second)))
	w.wait(1)
	if d := w.report(1); d.Reason != wire.ReasonExecution || d.Ran != 0 || len(w.frontends[0].got(1)) != 1 || w.frontends[0].got(1)[0] != wire.ReasonExecution {
		t.Errorf("report %+v, outputs %v", d, w.frontends[0].got(1))
	}
}

func TestOrdersBeyondTheLimitAreRefused(t *testing.T) {
	running, held := make(chan struct{}, 8), make(chan struct{})
	w := newWorld(t, 1, &copier{t: t, pause: hold(running, held)})
	defer w.close()
	for i := range 8 {
		w.exec.Submit(newOrder(wire.BatchID(i+1), item(wire.RequestID(i+1), 0, 100*mono.Second)))
		if i == 0 {
			<-running
		}
	}
	close(held)
	bad := newOrder(99, item(99, 0, mono.Second))
	bad.ModelIndex = 3
	w.exec.Submit(bad)
	w.wait(9)
	refused := 0
	for _, d := range w.reports {
		if d[0].Reason == wire.ReasonFull {
			refused++
		}
	}
	if refused != 4 || w.reports[99][0].Reason != wire.ReasonExecution {
		t.Errorf("%d orders refused as full, want 4 (one runs, three wait); wrong model: %+v", refused, w.reports[99])
	}
}

// Orders that a backend cannot run any more, because it ends, are the scheduler's to queue
// again: an answer would take that from their requests.
func TestCloseAnswersOnlyWhatRan(t *testing.T) {
	defer goleak.VerifyNone(t)
	running, held := make(chan struct{}, 3), make(chan struct{})
	w := newWorld(t, 1, &copier{t: t, pause: hold(running, held)})
	for id := range 3 {
		w.exec.Submit(newOrder(wire.BatchID(id+1), item(wire.RequestID(id+1), 0, 100*mono.Second)))
		if id == 0 {
			<-running // before the others are there
		}
	}
	closed := make(chan struct{})
	go func() { defer close(closed); w.exec.Close() }() // it waits for the one that runs
	for !w.exec.ending() {
		time.Sleep(time.Millisecond)
	}
	close(held)
	<-closed
	w.exec.Submit(newOrder(4, item(4, 0, 10*mono.Second)))
	f := w.frontends[0]
	for end := time.Now().Add(10 * time.Second); len(f.got(1)) == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	w.close()
	if got := f.got(1); len(got) != 1 || got[0] != wire.ReasonNone {
		t.Errorf("the running batch was answered with %v", got)
	}
	for id := wire.RequestID(2); id <= 4; id++ {
		if got := f.got(id); len(got) != 0 {
			t.Errorf("request %d was answered with %v, and the scheduler will queue it again", id, got)
		}
	}
	if len(w.reports) != 1 {
		t.Errorf("%d batches were reported, one ran", len(w.reports))
	}
}

// Chaos from a seed: stale slabs, unknown frontends, frontends that vanish,
// late items, bursts of orders. Each order has one report, each item at most
// one output, of its own input.
func TestChaos(t *testing.T) {
	defer goleak.VerifyNone(t)
	const seed, batches = 13, 600
	r := rand.New(rand.NewPCG(seed, 0))
	d := &copier{t: t, pause: func() time.Duration { return time.Duration(seed) * 20 * time.Microsecond }}
	w := newWorld(t, 6, d)
	id := wire.RequestID(0)
	for b := range batches {
		var items []wire.BatchItem
		for range 1 + r.IntN(16) {
			id++
			f := r.IntN(7) // one of them is unknown
			if f < 6 && r.IntN(9) == 0 {
				w.frontends[f].mu.Lock()
				it := item(id, f, mono.Second)
				it.Input.Length = 1
				w.frontends[f].mu.Unlock()
				items = append(items, it)
				continue
			}
			items = append(items, item(id, f, mono.Dur(r.IntN(30)-2)*mono.Millisecond))
		}
		w.exec.Submit(newOrder(wire.BatchID(b+1), items...))
		if b == batches/3 || b == batches/2 {
			w.frontends[r.IntN(6)].link.Close(nil)
		}
		if r.IntN(4) != 0 {
			time.Sleep(500 * time.Microsecond)
		}
	}
	w.wait(batches)
	for b, reports := range w.reports {
		if len(reports) != 1 {
			t.Errorf("seed %d: batch %d has %d reports", seed, b, len(reports))
		}
	}
	served := 0
	for _, f := range w.frontends {
		f.mu.Lock()
		for id, o := range f.outputs {
			if len(o) != 1 {
				t.Errorf("seed %d: request %d has outputs %v", seed, id, o)
			}
			if o[0] == wire.ReasonNone {
				served++
			}
		}
		if f.pins != 0 {
			t.Errorf("seed %d: %d slabs are still pinned", seed, f.pins)
		}
		f.mu.Unlock()
	}
	if served < int(id)/10 {
		t.Errorf("seed %d: only %d of %d were served", seed, served, id)
	}
	w.close()
}

// neverDone is a device whose batches do not end.
type neverDone struct{}

func (neverDone) Launch(*Batch) {}
func (neverDone) Close()        {}

// A device is planned to be free when the last of its orders ends; a plan
// that has passed says nothing.
func TestFreeIn(t *testing.T) {
	e := New(neverDone{}, []Model{{MaxBatch: 1}}, &world{}, transport.Heap{}, &world{reports: map[wire.BatchID][]wire.Done{}}, Observer{})
	now := mono.Now()
	if got := e.FreeIn(now); got != 0 {
		t.Errorf("idle: %v", got)
	}
	for i, until := range []mono.Time{now.Add(mono.Second), now.Add(2 * mono.Second)} {
		e.orders = append(e.orders, &order{})
		e.orders[i].Until = until
	}
	e.launched, e.orders = e.orders[1:], e.orders[:1]
	if got := e.FreeIn(now); got != 2*mono.Second {
		t.Errorf("busy: %v", got)
	}
	if got := e.FreeIn(now.Add(3 * mono.Second)); got != 0 {
		t.Errorf("late: %v", got)
	}
}
