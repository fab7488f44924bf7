package cuda_test

import (
	"sync/atomic"
	"testing"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// bare is a link that brings inputs and takes outputs at once, and allocates nothing: what
// is left is the backend's own.
type bare struct{ outputs atomic.Int64 }

func (*bare) Peer() wire.Hello           { return wire.Hello{} }
func (*bare) Send([]byte) error          { return nil }
func (*bare) Shift() mono.Dur            { return 0 }
func (*bare) Stats() transport.LinkStats { return transport.LinkStats{} }
func (*bare) Close(error)                {}

func (l *bare) SendPayload(_, payload []byte, release func()) error {
	l.outputs.Add(1)
	release()
	return nil
}

func (*bare) Read(ops []transport.ReadOp) error {
	for i := range ops {
		for k := range ops[i].Dst {
			ops[i].Dst[k] = byte(k)
		}
		ops[i].Done(ops[i].Token, nil)
	}
	return nil
}

// told tells each report.
type told chan struct{}

func (c told) Report(*wire.Done) { c <- struct{}{} }

// A batch's whole way through a backend, order to report, allocates nothing, and all of it
// lies in pinned memory.
func TestBatchAllocatesNothing(t *testing.T) {
	defer leaks(t)
	s := &system{rig: newRig(t, config{})}
	link := &bare{}
	s.link, s.buffers = link, newBuffers(s.rig)
	reports := make(told, 1)
	s.exec = executor.New(s.device, []executor.Model{{InputSize: itemBytes, InputMax: itemBytes, OutputSize: itemBytes, MaxBatch: 16}}, s, s.buffers, reports, executor.Observer{})
	var orders []*executor.Order
	for i, n := range []int{1, 7, 16} {
		orders = append(orders, s.order(i, 100*i, n))
	}
	all := func() {
		for _, o := range orders {
			s.exec.Submit(o)
			<-reports
		}
	}
	for range 20 { // every spare order has had its turn
		all()
	}
	unpinned, before := s.gpu.Stats().Unpinned, link.outputs.Load()
	if n := testing.AllocsPerRun(200, all); n != 0 && !raceEnabled {
		t.Errorf("%v allocations for %d batches, want none", n, len(orders))
	}
	if n := s.gpu.Stats().Unpinned - unpinned; n != 0 {
		t.Errorf("%d copies of memory that is not pinned", n)
	}
	if n := link.outputs.Load() - before; n != 201*(1+7+16) {
		t.Errorf("%d outputs", n)
	}
	s.exec.Close()
	s.buffers.close(t)
	s.check()
}
