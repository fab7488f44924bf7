package policy

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

func batchOf(gpu wire.GPUID, ids ...wire.RequestID) Running {
	r := Running{Model: 3, GPU: gpu, Exec: 10, Until: 20}
	for _, id := range ids {
		r.Requests = append(r.Requests, batching.Request{ID: id, Deadline: mono.Time(id)})
	}
	return r
}

func idsOf(requests []batching.Request) []wire.RequestID {
	var ids []wire.RequestID
	for _, r := range requests {
		ids = append(ids, r.ID)
	}
	return ids
}

// Start records what it dispatches, in memory of its own.
func TestLedgerStart(t *testing.T) {
	var l Ledger
	var out Out
	given := batchOf(7, 1, 2)
	id := l.Start(given, &out).ID
	given.Requests[0].ID = 99
	d := out.Dispatches[0]
	if id == 0 || d.Batch != id || d.Model != 3 || d.GPU != 7 || d.Exec != 10 || d.Until != 20 {
		t.Errorf("batch %x is dispatched as %+v", id, d)
	}
	r := l.Find(id)
	if r == nil || r.ID != id || r.Model != 3 || r.GPU != 7 || r.Exec != 10 || r.Until != 20 {
		t.Fatalf("found %+v", r)
	}
	for what, requests := range map[string][]batching.Request{"recorded": r.Requests, "dispatched": d.Requests} {
		if got := idsOf(requests); !slices.Equal(got, []wire.RequestID{1, 2}) {
			t.Errorf("%s: requests %v, want 1 and 2", what, got)
		}
	}
}

// The id of a batch that has ended finds nothing, also when its record holds
// another batch; ids that were never given find nothing either.
func TestEndedBatchIsNotFound(t *testing.T) {
	var l Ledger
	var out Out
	if l.Find(0) != nil || l.Find(1<<indexBits) != nil {
		t.Error("an empty ledger finds a batch")
	}
	first, other := l.Start(batchOf(0, 1), &out).ID, l.Start(batchOf(1, 2), &out).ID
	l.End(l.Find(first))
	if l.Find(first) != nil || l.Find(other) == nil || l.Find(0) != nil {
		t.Error("the wrong batch has ended, or none is found in the free record")
	}
	second := l.Start(batchOf(2, 3), &out).ID
	if second == first || len(l.records) != 2 {
		t.Errorf("ids %x and %x, %d records, want other ids for one record of 2", first, second, len(l.records))
	}
	if l.Find(first) != nil {
		t.Error("an ended batch is found in the record of another")
	}
	if r := l.Find(second); r == nil || r.GPU != 2 || !slices.Equal(idsOf(r.Requests), []wire.RequestID{3}) {
		t.Errorf("found %+v in a record that is used again", r)
	}
	for _, id := range []wire.BatchID{0, 5, second + 1<<indexBits, 9<<indexBits | 900} {
		if l.Find(id) != nil {
			t.Errorf("id %x finds a batch", id)
		}
	}
}

// The requests of an ended batch are there until the next Start.
func TestEndedRequestsStay(t *testing.T) {
	var l Ledger
	var out Out
	r := l.Start(batchOf(0, 1, 2, 3), &out)
	l.End(r)
	if got := idsOf(r.Requests); !slices.Equal(got, []wire.RequestID{1, 2, 3}) {
		t.Errorf("requests %v after the end", got)
	}
}

// OnGPU names the running batches of a GPU, in the order of their records, and
// keeps what was in the slice.
func TestOnGPU(t *testing.T) {
	var l Ledger
	var out Out
	var ids []wire.BatchID
	for i := range wire.GPUID(6) {
		ids = append(ids, l.Start(batchOf(i%2, wire.RequestID(i)), &out).ID)
	}
	l.End(l.Find(ids[2]))
	l.End(l.Find(ids[0]))
	again := l.Start(batchOf(0, 9), &out).ID // in the record that was left last
	if got, want := l.OnGPU(0, []wire.BatchID{42}), []wire.BatchID{42, again, ids[4]}; !slices.Equal(got, want) {
		t.Errorf("on GPU 0: %x, want %x", got, want)
	}
	if got, want := l.OnGPU(1, nil), []wire.BatchID{ids[1], ids[3], ids[5]}; !slices.Equal(got, want) {
		t.Errorf("on GPU 1: %x, want %x", got, want)
	}
	if got := l.OnGPU(2, nil); len(got) != 0 {
		t.Errorf("on GPU 2: %x", got)
	}
}

func TestLedgerAllocatesNothing(t *testing.T) {
	var l Ledger
	var out Out
	given := batchOf(0, 1, 2, 3)
	turn := func() {
		l.End(l.Start(given, &out))
		out.Reset()
	}
	turn()
	if n := testing.AllocsPerRun(100, turn); n != 0 {
		t.Errorf("%v allocations a turn, want 0", n)
	}
}
