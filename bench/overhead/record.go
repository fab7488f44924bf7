package overhead

import (
	"sync"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Recorder takes the instants of the parts. Each log has one writer at a time, and
// its lock is for the end of the run.
type Recorder struct {
	every atomic.Uint64 // one request in so many is looked at

	submits    journal[submitted]
	dispatches journal[dispatched]
	members    journal[member]
	reports    journal[reported]
	answers    journal[answered]
}

type submitted struct {
	id wire.RequestID
	at mono.Time
}

type dispatched struct {
	batch   wire.BatchID
	gpu     wire.GPUID
	due, at mono.Time // due 0: not known
}

// member says which batch a request is in.
type member struct {
	id    wire.RequestID
	batch wire.BatchID
}

// reported is a batch's report.
type reported struct {
	batch                      wire.BatchID
	arrived, ready, start, end mono.Time
}

// answered is what the client saw of a request.
type answered struct {
	id           wire.RequestID // 0: an error
	called, sent mono.Time      // InferAsync called, and returned
	answer, done mono.Time      // the client had the output; done was called
	bad          bool
}

// journal is a log that is on while something is measured.
type journal[T any] struct {
	mu   sync.Mutex
	on   bool
	rows []T
}

func (j *journal[T]) add(row T) {
	j.mu.Lock()
	if j.on {
		j.rows = append(j.rows, row)
	}
	j.mu.Unlock()
}

// begin turns the log on; end turns it off and gives its rows away.
func (j *journal[T]) begin() {
	j.mu.Lock()
	j.rows, j.on = nil, true
	j.mu.Unlock()
}

func (j *journal[T]) end() []T {
	j.mu.Lock()
	defer j.mu.Unlock()
	rows := j.rows
	j.rows, j.on = nil, false
	return rows
}

// Submitted: the scheduler has received the request's record.
func (r *Recorder) Submitted(id wire.RequestID) {
	if r.wants(id) {
		r.submits.add(submitted{id, mono.Now()})
	}
}

// wants: ids count up above the slot (frontend/inflight).
func (r *Recorder) wants(id wire.RequestID) bool {
	every := r.every.Load()
	return id != 0 && (every <= 1 || uint64(id)>>24%every == 0)
}

// Dispatched: the scheduler sends the batch, which was due to leave at due.
func (r *Recorder) Dispatched(batch wire.BatchID, gpu wire.GPUID, due mono.Time) {
	r.dispatches.add(dispatched{batch, gpu, due, mono.Now()})
}

// Member: the request is in the batch. (Called for each, behind Dispatched.)
func (r *Recorder) Member(batch wire.BatchID, id wire.RequestID) {
	if r.wants(id) {
		r.members.add(member{id, batch})
	}
}

// Reported: the batch's report has come, with its instants shifted by the link.
func (r *Recorder) Reported(d *wire.Done, shift mono.Dur) {
	ready := d.Ready.Add(-shift)
	r.reports.add(reported{d.Batch, ready.Add(-d.Fetch), ready, d.Start.Add(-shift), d.End.Add(-shift)})
}

func (r *Recorder) begin(every uint64) {
	r.every.Store(every)
	r.submits.begin()
	r.dispatches.begin()
	r.members.begin()
	r.reports.begin()
	r.answers.begin()
}
