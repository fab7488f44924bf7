package policy

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A Dispatch has its own requests: neither the caller's slice nor a later
// Dispatch reaches into them, however often the Out grows.
func TestAddDispatchCopies(t *testing.T) {
	var out Out
	var want [][]wire.RequestID
	scratch := make([]batching.Request, 0, 8)
	for i := range 50 {
		scratch = scratch[:0]
		for k := range 1 + i%5 {
			scratch = append(scratch, batching.Request{ID: wire.RequestID(10*i + k)})
		}
		want = append(want, idsOf(scratch))
		out.AddDispatch(Dispatch{Batch: wire.BatchID(i), Requests: scratch})
	}
	for _, d := range out.Dispatches {
		_ = append(d.Requests, batching.Request{ID: 9999}) // must not reach the next one
	}
	for i, d := range out.Dispatches {
		if got := idsOf(d.Requests); d.Batch != wire.BatchID(i) || !slices.Equal(got, want[i]) {
			t.Errorf("dispatch %d has %v, want %v", i, got, want[i])
		}
	}
}

func TestReset(t *testing.T) {
	out := Out{Drops: make([]batching.Drop, 2), Preempts: make([]Preempt, 3), Unloads: make([]Unload, 1), Loads: make([]Load, 2)}
	out.AddDispatch(Dispatch{Requests: make([]batching.Request, 4)})
	if out.Empty() {
		t.Error("an Out with effects is empty")
	}
	out.Reset()
	if !out.Empty() || len(out.requests) != 0 {
		t.Errorf("after Reset: %+v", out)
	}
	if cap(out.Drops) < 2 || cap(out.Preempts) < 3 || cap(out.Loads) < 2 || cap(out.requests) < 4 {
		t.Error("Reset gave its memory away")
	}
}

// Each kind of effect alone is one.
func TestEmpty(t *testing.T) {
	if !(&Out{}).Empty() {
		t.Error("an Out without effects is not empty")
	}
	for i, o := range []Out{{Drops: make([]batching.Drop, 1)}, {Preempts: make([]Preempt, 1)}, {Unloads: make([]Unload, 1)}, {Loads: make([]Load, 1)}, {Dispatches: make([]Dispatch, 1)}} {
		if o.Empty() {
			t.Errorf("effect %d is none", i)
		}
	}
}
