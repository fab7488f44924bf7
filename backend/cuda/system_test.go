package cuda_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const itemBytes = 64 // of flip

// system is a frontend, an executor and its device, over a network; and the scheduler's part:
// reports.
type system struct {
	*rig
	exec    *executor.Executor
	buffers buffers
	ln      transport.Listener
	link    transport.Link

	mu      sync.Mutex
	outputs map[wire.RequestID][]wire.Reason
	reports map[wire.BatchID][]wire.Done
	causes  map[executor.Cause]int
}

// input is a request's.
func input(id wire.RequestID) []byte {
	b := make([]byte, itemBytes)
	r := rand.New(rand.NewPCG(uint64(id), 0))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (s *system) Pin(_ wire.SlabRef, id wire.RequestID) ([]byte, error)            { return input(id), nil }
func (s *system) Unpin(wire.SlabRef)                                               {}
func (s *system) Buffer(transport.Link, wire.Kind, []byte, int) []byte             { return nil }
func (s *system) Closed(transport.Link, error)                                     {}
func (s *system) Link(wire.FrontendID) transport.Link                              { return s.link }
func (s *system) AwaitFirst(_ wire.FrontendID, _ mono.Dur, f func(transport.Link)) { f(s.link) }

// Receive takes an output.
func (s *system) Receive(_ transport.Link, m transport.Frame) {
	var o wire.Output
	if err := o.Decode(m.Body, 0); err != nil {
		s.t.Error(err)
		return
	}
	want := make([]byte, itemBytes)
	flipTo(want, input(o.Request))
	if o.Reason == wire.ReasonNone && !bytes.Equal(m.Payload, want) {
		s.t.Errorf("request %d got another's output, or one that was overwritten", o.Request)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outputs[o.Request] = append(s.outputs[o.Request], o.Reason)
}

// Report implements executor.Reporter.
func (s *system) Report(d *wire.Done) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports[d.Batch] = append(s.reports[d.Batch], *d)
}

type noHandler struct{}

func (noHandler) Receive(transport.Link, transport.Frame)              {}
func (noHandler) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }
func (noHandler) Closed(transport.Link, error)                         {}

func newSystem(t *testing.T, c config) *system {
	t.Helper()
	s := &system{rig: newRig(t, c), outputs: map[wire.RequestID][]wire.Reason{}, reports: map[wire.BatchID][]wire.Done{}, causes: map[executor.Cause]int{}}
	network := loopback.New()
	var err error
	s.ln, err = network.Listen("inproc:", transport.Options{Slabs: s, Hello: wire.Hello{Role: wire.RoleFrontend}}, func(wire.Hello) (transport.Handler, error) { return s, nil })
	if err == nil {
		s.link, err = network.Dial(context.Background(), s.ln.Address(), transport.Options{Hello: wire.Hello{Role: wire.RoleBackend}}, noHandler{})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.buffers = newBuffers(s.rig)
	models := []executor.Model{{InputSize: itemBytes, InputMax: itemBytes, OutputSize: itemBytes, MaxBatch: 16}}
	s.exec = executor.New(s.device, models, s, s.buffers, s, executor.Observer{Failed: func(f *executor.Failure) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.causes[f.Cause]++
	}})
	return s
}

// end closes everything in the backend's order.
func (s *system) end() {
	s.exec.Close()
	s.link.Close(nil)
	s.ln.Close()
	s.buffers.close(s.t)
	s.check()
}

func (s *system) order(batch, first, n int) *executor.Order {
	now := mono.Now()
	o := &executor.Order{Arrived: now}
	o.Batch.Batch, o.Exec, o.Until, o.Latest = wire.BatchID(batch), now, now.Add(mono.Second), mono.Never
	for i := range n {
		o.Items = append(o.Items, wire.BatchItem{Request: wire.RequestID(first + i), Deadline: now.Add(60 * mono.Second), Input: wire.SlabRef{Length: itemBytes}})
	}
	return o
}

// reported is how many batches have a report.
func (s *system) reported() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.reports)
}

// whole checks that each batch has one report and each request one answer; served is how many
// got an output.
func (s *system) whole(batches, requests int) (served int) {
	s.t.Helper()
	until(s.t, "all are answered", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.outputs) == requests && len(s.reports) == batches
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.reports {
		if len(r) != 1 {
			s.t.Errorf("batch %d has %d reports", id, len(r))
		}
	}
	for id, o := range s.outputs {
		if len(o) != 1 {
			s.t.Errorf("request %d has answers %v", id, o)
		}
		if o[0] == wire.ReasonNone {
			served++
		}
	}
	return served
}

// From a frontend's slabs to its outputs, over pinned buffers, two batches on the device at a
// time: all are right, copies are hidden, and the times reported are those of executions.
func TestExecutorOnDevice(t *testing.T) {
	defer leaks(t)
	const length = 4 * mono.Millisecond
	s := newSystem(t, config{fake: fakecuda.Config{CopyTime: mono.Millisecond}, length: takes(length), models: []cuda.Model{flip(16)}})
	unpinned := s.gpu.Stats().Unpinned
	const batches = 60
	requests := 0
	for b := range batches {
		until(t, "room for an order", func() bool { return b-s.reported() < 2 }) // as the scheduler does
		n := 1 + b%16
		s.exec.Submit(s.order(b+1, requests, n))
		requests += n
	}
	if served := s.whole(batches, requests); served != requests {
		t.Errorf("%d of %d served", served, requests)
	}
	for b := range batches {
		d := s.reports[wire.BatchID(b+1)][0]
		if d.End.Sub(d.Start) < length || d.Ready > d.Start {
			t.Errorf("batch %d: ready %v, start %v, end %v", b+1, d.Ready, d.Start, d.End)
		}
	}
	if st := s.device.Stats(); st.Hidden.Load() == 0 {
		t.Error("no copy was hidden")
	}
	if n := s.gpu.Stats().Unpinned - unpinned; n != 0 || s.pinned.Bytes() == 0 {
		t.Errorf("%d copies of memory that is not pinned, %d bytes pinned", n, s.pinned.Bytes())
	}
	s.end()
}

// A device that is lost under load, and returns: every order is reported once, every request
// answered once, with an output of its own or a reason.
func TestExecutorOnALostDevice(t *testing.T) {
	defer leaks(t)
	s := newSystem(t, config{length: takes(mono.Millisecond), models: []cuda.Model{flip(16)}})
	batches, requests := 0, 0
	submit := func() {
		until(t, "room for an order", func() bool { return batches-s.reported() < 2 })
		s.exec.Submit(s.order(batches+1, requests, 1+batches%16))
		requests += 1 + batches%16
		batches++
	}
	for round := range 3 {
		for range 30 {
			submit()
		}
		s.gpu.FailKernel()
		for s.losses() == round {
			submit()
			time.Sleep(time.Millisecond)
		}
		for range 5 {
			submit()
		}
		s.reopen()
	}
	for range 30 {
		submit()
	}
	served := s.whole(batches, requests)
	s.mu.Lock()
	if failed := requests - served; failed == 0 || served < requests/2 || s.causes[executor.CauseDevice] == 0 || len(s.causes) != 1 {
		t.Errorf("%d of %d served, causes %v", served, requests, s.causes)
	}
	if o := s.outputs[wire.RequestID(requests-1)]; o[0] != wire.ReasonNone {
		t.Errorf("the last one, after the device's return: %v", o)
	}
	s.mu.Unlock()
	if !errors.Is(s.lost[0], cuda.ErrLost) {
		t.Error(s.lost[0])
	}
	s.end()
}

// Batches that fail for their inputs run again in parts, two at a time on the device, with graphs and without: each request
// has one answer, its own output or the model's error, and the device stays in service.
func TestBatchesThatFailRunInParts(t *testing.T) {
	for _, graphs := range []cuda.Graphs{cuda.GraphsOff, cuda.GraphsOn} {
		t.Run(string(graphs), func(t *testing.T) {
			defer leaks(t)
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 2))
			models := []cuda.Model{flip(16), pair(16)}
			models[0].Graphs, models[1].Graphs = graphs, graphs
			s := newSystem(t, config{models: models})
			errs := make([]error, 2000)
			for i := range errs {
				if rnd.IntN(3) == 0 {
					errs[i] = fmt.Errorf("%w: index 99 is beyond the table", cuda.ErrModel)
				}
			}
			s.runtime.FailRuns(errs...)
			const batches, size = 40, 16
			for b := range batches {
				s.exec.Submit(s.order(b, b*size, size))
				until(t, "there is room", func() bool { return s.reported() >= b-1 })
			}
			served := s.whole(batches, batches*size)
			if served < batches*size/3 || served == batches*size || s.losses() != 0 {
				t.Errorf("%d of %d were served, the device was lost %d times", served, batches*size, s.losses())
			}
			s.end()
		})
	}
}
