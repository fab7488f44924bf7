package executor

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/outbound"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/wire"
)

// writer is a Device that writes a pattern of the input, so that every word of an output tells its request and place.
type writer struct{ runs sync.WaitGroup }

func (w *writer) Close() { w.runs.Wait() }

func (w *writer) Launch(b *Batch) {
	w.runs.Go(func() {
		now := mono.Now()
		for i, in := range b.Inputs {
			id := binary.LittleEndian.Uint64(in)
			for k := 0; k+8 <= len(b.Outputs[i]); k += 8 {
				binary.LittleEndian.PutUint64(b.Outputs[i][k:], word(id, k))
			}
		}
		b.Finish(now, mono.Now(), nil)
	})
}

func word(id uint64, at int) uint64 { return id*0x9e3779b97f4a7c15 ^ uint64(at)*0xbf58476d1ce4e5b9 }

// gatherer is a frontend that puts outputs together and compares each word.
type gatherer struct {
	t    *testing.T
	slow time.Duration // each frame is taken after that

	mu      sync.Mutex
	got     map[wire.RequestID]int // bytes
	whole   map[wire.RequestID]time.Time
	reasons map[wire.RequestID]wire.Reason
}

func (g *gatherer) Pin(_ wire.SlabRef, id wire.RequestID) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(nil, uint64(id)), nil
}
func (g *gatherer) Unpin(wire.SlabRef)                                   {}
func (g *gatherer) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }
func (g *gatherer) Closed(transport.Link, error)                         {}
func (g *gatherer) Receive(_ transport.Link, f transport.Frame) {
	var m wire.Output
	if err := m.Decode(f.Body, 0); err != nil {
		g.t.Error(err)
		return
	}
	time.Sleep(g.slow)
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.Reason != wire.ReasonNone {
		g.reasons[m.Request] = m.Reason
		return
	}
	if int(m.Offset) != g.got[m.Request] {
		g.t.Errorf("request %d: byte %d where %d is next", m.Request, m.Offset, g.got[m.Request])
	}
	// The first word of each frame, its last one, and some between.
	for k := 0; k+8 <= len(f.Payload); k += 8 * 61 {
		if w := binary.LittleEndian.Uint64(f.Payload[k:]); w != word(uint64(m.Request), int(m.Offset)+k) {
			g.t.Fatalf("request %d: byte %d is another's", m.Request, int(m.Offset)+k)
		}
	}
	g.got[m.Request] += len(f.Payload)
	if m.Total == 0 || g.got[m.Request] == int(m.Total) {
		g.whole[m.Request] = time.Now()
	}
}

// outputWorld is an executor of models with outputs of these sizes, and a frontend.
type outputWorld struct {
	exec   *Executor
	front  *gatherer
	link   transport.Link
	lost   atomic.Int64
	failed atomic.Int64
	done   chan wire.Done
}

func (w *outputWorld) Link(wire.FrontendID) transport.Link { return w.link }
func (w *outputWorld) AwaitFirst(_ wire.FrontendID, _ mono.Dur, then func(transport.Link)) {
	then(w.link)
}
func (w *outputWorld) Report(d *wire.Done) { w.done <- *d }

func newOutputWorld(t *testing.T, n transport.Network, address string, s *outbound.Sender, sizes ...int) *outputWorld {
	t.Helper()
	w := &outputWorld{done: make(chan wire.Done, 100), front: &gatherer{t: t, got: map[wire.RequestID]int{}, whole: map[wire.RequestID]time.Time{}, reasons: map[wire.RequestID]wire.Reason{}}}
	ln, err := n.Listen(address, transport.Options{Slabs: w.front, Hello: wire.Hello{Role: wire.RoleFrontend}}, func(wire.Hello) (transport.Handler, error) { return w.front, nil })
	if err == nil {
		w.link, err = n.Dial(context.Background(), ln.Address(), transport.Options{Hello: wire.Hello{Role: wire.RoleBackend}}, noHandler{})
	}
	if err != nil {
		t.Fatal(err)
	}
	var models []Model
	for _, size := range sizes {
		models = append(models, Model{InputSize: 8, InputMax: 8, OutputSize: size, MaxBatch: 32})
	}
	w.exec = New(&writer{}, models, w, transport.Heap{}, w, Observer{
		Lost:   func(*outbound.Output, outbound.Cause) { w.lost.Add(1) },
		Failed: func(f *Failure) { w.failed.Add(int64(f.Requests)) }})
	if s != nil {
		w.exec.SendBy(s)
	}
	t.Cleanup(func() { w.exec.Close(); w.link.Close(nil); ln.Close() })
	return w
}

func (w *outputWorld) order(batch, model, first, items int, budget mono.Dur) {
	o := &Order{Batch: wire.Batch{Epoch: 1, Batch: wire.BatchID(batch), Latest: mono.Never}, ModelIndex: model, Arrived: mono.Now()}
	for i := range items {
		o.Items = append(o.Items, wire.BatchItem{Request: wire.RequestID(first + i), Deadline: mono.Now().Add(budget), Input: wire.SlabRef{Length: 8}})
	}
	w.exec.Submit(o)
}

func (w *outputWorld) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		w.front.mu.Lock()
		is := ok()
		w.front.mu.Unlock()
		if is {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %d whole outputs, %d reasons, %d lost", what, len(w.front.whole), len(w.front.reasons), w.lost.Load())
		}
	}
}

// Each output arrives, whatever its size and its batch's: more than a link's send buffer takes, and just as much.
func TestOutputsOfAnySize(t *testing.T) {
	defer goleak.VerifyNone(t)
	sizes := []int{8, 1024, 16 << 10, 16<<10 + 8, 256 << 10, 256<<10 + 8, 1 << 20, 4 << 20, 4_000_000, 24 << 20}
	for name, n := range map[string]struct {
		network transport.Network
		address string
	}{"inproc": {loopback.New(), "inproc:"}, "tcp": {tcp.New(), "tcp:127.0.0.1:0"}} {
		t.Run(name, func(t *testing.T) {
			w := newOutputWorld(t, n.network, n.address, nil, sizes...)
			id := 1
			for m, size := range sizes {
				for _, items := range []int{1, 3, 8, 32} {
					if items*size > 256<<20 {
						continue
					}
					w.order(id, m, id, items, 60*mono.Second)
					id += items
					if d := <-w.done; int(d.Ran) != items {
						t.Errorf("%d outputs of %d bytes: %+v", items, size, d)
					}
					w.await(t, "outputs are lost", func() bool { return len(w.front.whole) == id-1 })
				}
			}
			if len(w.front.reasons) > 0 || w.lost.Load() > 0 {
				t.Errorf("reasons %v, %d lost", w.front.reasons, w.lost.Load())
			}
			w.await(t, "buffers are kept", func() bool { return w.exec.outputs.Held() == 0 && w.exec.outputs.Idle() })
		})
	}
}

// A frontend that is slow to take a large stream gets the outputs of another model, which have less time, before
// the rest of it.
func TestSmallOutputsDoNotWait(t *testing.T) {
	w := newOutputWorld(t, tcp.New(), "tcp:127.0.0.1:0", nil, 16<<20, 4000)
	w.front.slow = 2 * time.Millisecond
	w.order(1, 0, 1, 8, 60*mono.Second) // 512 parts: more than a second
	<-w.done
	const small = 5
	for i := range small {
		w.order(2+i, 1, 100+i, 1, 30*mono.Second)
		<-w.done
		w.await(t, "a small output", func() bool {
			_, ok := w.front.whole[wire.RequestID(100+i)]
			return ok
		})
	}
	w.front.mu.Lock()
	n := len(w.front.whole) - small
	w.front.mu.Unlock()
	if n > 7 {
		t.Errorf("%d small outputs came when all %d large ones had", small, n)
	}
	w.await(t, "all", func() bool { return len(w.front.whole) == 8+small })
}

// Where too many bytes wait, requests are answered with a reason at once, and told; new ones go on when there is room.
func TestTooManyBytesWait(t *testing.T) {
	s := outbound.New(10 << 20)
	w := newOutputWorld(t, loopback.New(), "inproc:", s, 1<<20)
	w.front.slow = 20 * time.Millisecond
	w.order(1, 0, 1, 8, 60*mono.Second)
	<-w.done
	w.order(2, 0, 11, 8, 60*mono.Second)
	<-w.done
	w.await(t, "no reason", func() bool { return len(w.front.reasons) == 8 })
	for id, r := range w.front.reasons {
		if id < 11 || r != wire.ReasonUnsent {
			t.Errorf("request %d: %v", id, r)
		}
	}
	if n := w.failed.Load(); n != 8 {
		t.Errorf("%d lost requests were reported, want 8", n)
	}
	w.await(t, "the first batch", func() bool { return len(w.front.whole) == 8 && s.Held() == 0 })
	w.order(3, 0, 21, 8, 60*mono.Second)
	<-w.done
	w.await(t, "the third batch", func() bool { return len(w.front.whole) == 16 })
}

// Reasons that a link refuses for now are sent when it takes them again.
func TestReasonsAreKept(t *testing.T) {
	w := newOutputWorld(t, loopback.New(), "inproc:", nil, 8)
	real := w.link
	full := &fullFor{Link: real}
	full.times.Store(5)
	w.link = full
	w.order(1, 0, 1, 4, -1) // too late
	<-w.done
	w.await(t, "reasons are lost", func() bool { return len(w.front.reasons) == 4 })
	full.times.Store(9)
	w.order(2, 0, 11, 4, 60*mono.Second)
	<-w.done
	w.await(t, "outputs are lost", func() bool { return len(w.front.whole) == 4 })
	w.link = real
}

// fullFor is a link that is full for a while.
type fullFor struct {
	transport.Link
	times atomic.Int64
}

func (f *fullFor) Send(frames []byte) error {
	if f.times.Add(-1) >= 0 {
		return transport.ErrFull
	}
	return f.Link.Send(frames)
}

func (f *fullFor) SendPayload(frame, payload []byte, release func()) error {
	if f.times.Add(-1) >= 0 {
		release()
		return transport.ErrFull
	}
	return f.Link.SendPayload(frame, payload, release)
}

// Spare orders do not keep what a large batch took.
func TestLargeBuffersAreNotKept(t *testing.T) {
	w := newOutputWorld(t, loopback.New(), "inproc:", nil, 24<<20)
	for b := range 4 {
		w.order(b+1, 0, 1+32*b, 12, 60*mono.Second)
		<-w.done
		w.await(t, "outputs", func() bool { return len(w.front.whole) == 12*(b+1) && w.exec.outputs.Idle() })
	}
	w.exec.mu.Lock()
	defer w.exec.mu.Unlock()
	kept := 0
	for _, o := range w.exec.spare {
		kept += cap(o.in) + cap(o.out)
	}
	if kept > spareBytes {
		t.Errorf("%d bytes are kept", kept)
	}
}

// roomy gives buffers of twice the bytes, as memory does that is cut into powers of two.
type roomy struct{ transport.Heap }

func (roomy) Alloc(n int) []byte { return make([]byte, n, 2*n) }

// A batch may wait whose outputs are no more than may, although its buffer is larger than that.
func TestRoomyBuffersAreSent(t *testing.T) {
	w := newOutputWorld(t, loopback.New(), "inproc:", outbound.New(10<<20), 1<<20)
	w.exec.memory = roomy{}
	for b := range 3 {
		w.order(1+b, 0, 1+8*b, 8, 60*mono.Second)
		<-w.done
		w.await(t, "outputs are lost", func() bool { return len(w.front.whole) == 8*(b+1) && w.exec.outputs.Held() == 0 })
	}
	if n := w.failed.Load(); n > 0 {
		t.Errorf("%d lost requests were reported", n)
	}
}

// An order that was given up leaves lost outputs unreported: the next order with its buffers does not report them.
func TestUntoldOutputsAreForgotten(t *testing.T) {
	w := newOutputWorld(t, loopback.New(), "inproc:", nil, 8)
	w.order(1, 0, 1, 1, 60*mono.Second)
	<-w.done
	w.await(t, "no output", func() bool { return len(w.front.whole) == 1 })
	spare := func() (some []*order) {
		w.exec.mu.Lock()
		defer w.exec.mu.Unlock()
		for _, o := range w.exec.spare {
			o.unsent = 3 // as Suspend between two parts leaves it
		}
		return w.exec.spare
	}
	w.await(t, "no spare order", func() bool { return len(spare()) > 0 })
	w.order(2, 0, 2, 1, 60*mono.Second)
	<-w.done
	if n := w.failed.Load(); n > 0 {
		t.Errorf("%d lost requests were reported", n)
	}
}
