package rdmae2e

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/cgo/verbs"
	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/rdmalink"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/wire"
)

// reader is the test's own end: a device, a network over it, and one link.
type reader struct {
	t    *testing.T
	nic  *rdma.NIC
	net  *rdmalink.Network
	link transport.Link
	over chan error // why the link is over
}

// newReader opens the device; it is closed, and must be free, at the test's end.
func newReader(t *testing.T) *reader {
	t.Helper()
	nic, err := openDevice(verbs.New())
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{t: t, nic: nic, net: rdmalink.New(rdmalink.Config{TCP: tcp.New(), NIC: nic})}
	t.Cleanup(func() {
		r.hangUp()
		if err := errors.Join(r.net.Close(), nic.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// dial links it with a peer, over RDMA.
func (r *reader) dial(p *peerProcess, silence mono.Dur) {
	r.t.Helper()
	r.over = make(chan error, 1)
	o := transport.Options{Hello: wire.Hello{Role: wire.RoleBackend, Incarnation: 1, Name: "reader"}, Silence: silence, SendBuffer: 512 << 10}
	var err error
	if r.link, err = r.net.Dial(r.t.Context(), p.address, o, r); err != nil {
		r.t.Fatal(err)
	}
	if st := r.net.Stats(); st.LinksRDMA != 1 {
		r.t.Fatalf("the link is not over RDMA: %+v", st)
	}
}

// hangUp ends the link, if there is one still.
func (r *reader) hangUp() {
	if r.link == nil {
		return
	}
	r.link.Close(nil)
	<-r.over
	r.link = nil
}

// awaitEnd waits until the link is over by itself, and says why.
func (r *reader) awaitEnd() error {
	r.t.Helper()
	select {
	case err := <-r.over:
		return err
	case <-time.After(20 * time.Second):
		r.t.Fatal("the link is still there")
		return nil
	}
}

// Receive implements transport.Handler.
func (r *reader) Receive(transport.Link, transport.Frame) {}

// Buffer implements transport.Handler.
func (r *reader) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// Closed implements transport.Handler.
func (r *reader) Closed(_ transport.Link, err error) { r.over <- err }

// tally counts how READs ended.
type tally struct {
	right, wrong, stale, closed, other int
	slowest                            time.Duration
	ended                              time.Time // the last one
	err                                error     // one of other
}

func (y *tally) total() int { return y.right + y.wrong + y.stale + y.closed + y.other }

func (y *tally) String() string {
	s := fmt.Sprintf("%d READs: %d right, %d wrong, %d stale, %d closed, %d other; slowest %v", y.total(), y.right, y.wrong, y.stale, y.closed, y.other, y.slowest.Round(time.Millisecond))
	if y.err != nil {
		s += fmt.Sprintf(" (%v)", y.err)
	}
	return s
}

func (y *tally) add(err error, right bool, took time.Duration) {
	switch {
	case err == nil && right:
		y.right++
	case err == nil:
		y.wrong++
	case errors.Is(err, transport.ErrStale):
		y.stale++
	case errors.Is(err, transport.ErrClosed), errors.Is(err, transport.ErrSilent):
		y.closed++
	default:
		y.other++
		y.err = err
	}
	y.slowest, y.ended = max(y.slowest, took), time.Now()
}

// read READs all objects at once, waits for all, and counts.
func (r *reader) read(objects []object, y *tally) {
	buffers := r.net.Buffers()
	ops := make([]transport.ReadOp, len(objects))
	errs := make([]error, len(objects))
	took := make([]time.Duration, len(objects))
	var left sync.WaitGroup
	left.Add(len(objects))
	begin := time.Now()
	done := func(token uint64, err error) {
		errs[token], took[token] = err, time.Since(begin)
		left.Done()
	}
	for i, o := range objects {
		dst := buffers.Alloc(int(o.Input.Length))
		clear(dst)
		ops[i] = transport.ReadOp{Request: o.Request, Input: o.Input, Dst: dst, Done: done, Token: uint64(i)}
	}
	_ = r.link.Read(ops) // every Done is called
	left.Wait()
	for i := range ops {
		y.add(errs[i], filled(ops[i].Dst, objects[i].Request), took[i])
		buffers.Free(ops[i].Dst)
	}
}

// hammer READs over and over until stop, which says how that went.
func (r *reader) hammer(objects []object) (stop func() tally) {
	var y tally
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			default:
				r.read(objects, &y)
			}
			if y.closed > 0 {
				return // it will not get better
			}
		}
	}()
	return func() tally {
		close(quit)
		<-done
		return y
	}
}
