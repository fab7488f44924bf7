package policy

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Running is a batch that was dispatched and has not ended.
type Running struct {
	ID          wire.BatchID // 0: this record is free
	Model       wire.ModelID
	GPU         wire.GPUID
	Exec, Until mono.Time
	Requests    []batching.Request // owned by the Ledger
}

// Ledger is the running batches: who runs where, with which requests. A
// BatchID is a serial number above the record's index, so that an id finds its
// record and a late report does not find another batch.
type Ledger struct {
	records []Running
	free    []int
	serial  uint64
}

const indexBits = 20

// Start records a batch and appends its Dispatch. The requests are copied.
func (l *Ledger) Start(r Running, out *Out) *Running {
	if len(l.free) == 0 {
		l.free = append(l.free, len(l.records))
		l.records = append(l.records, Running{})
	}
	i := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	l.serial++
	k := &l.records[i]
	r.ID = wire.BatchID(l.serial<<indexBits | uint64(i))
	r.Requests = append(k.Requests[:0], r.Requests...)
	*k = r
	out.AddDispatch(Dispatch{Batch: r.ID, Model: r.Model, GPU: r.GPU, Exec: r.Exec, Until: r.Until, Requests: r.Requests})
	return k
}

// Find is the running batch of that id, or nil. It is valid until the next
// Start.
func (l *Ledger) Find(id wire.BatchID) *Running {
	i := int(id & (1<<indexBits - 1))
	if id == 0 || i >= len(l.records) || l.records[i].ID != id {
		return nil
	}
	return &l.records[i]
}

// End forgets a batch. Its Requests stay valid until the next Start.
func (l *Ledger) End(r *Running) {
	l.free = append(l.free, int(r.ID&(1<<indexBits-1)))
	r.ID = 0
}

// OnGPU appends the ids of the batches on a GPU, in the order of their records.
func (l *Ledger) OnGPU(gpu wire.GPUID, ids []wire.BatchID) []wire.BatchID {
	for i := range l.records {
		if r := &l.records[i]; r.ID != 0 && r.GPU == gpu {
			ids = append(ids, r.ID)
		}
	}
	return ids
}
