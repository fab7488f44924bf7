package shard

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/gaps"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Dispatch is a finished batch for a GPU. Requests is valid until the Out is
// reset.
type Dispatch struct {
	Batch wire.BatchID
	Model wire.ModelID
	GPU   wire.GPUID
	Life  rank.Life
	Due   mono.Time // when its order had left if nothing took time; decides nothing
	Exec  mono.Time
	Until mono.Time
	// Generation is that of the grant, Latest the last start by which all of the requests can still be in time (margins aside),
	// where the GPU needs weights of a generation; else 0 and mono.Never.
	Generation uint32
	Latest     mono.Time
	Requests   []batching.Request
}

// Candidate is a model's new candidate, for the rank.
type Candidate struct {
	Model     wire.ModelID
	Candidate batching.Candidate
}

// Moved is a request of a model that was extracted, for where the model is served now.
type Moved struct {
	Model   wire.ModelID
	Came    mono.Time // when it was handed in; of those of a lost GPU: when that was told
	Request batching.Request
	Cancel  bool // not a request: it is to be cancelled there
}

// Out collects the effects of calls.
type Out struct {
	Drops      []batching.Drop
	Dispatches []Dispatch
	Answers    []rank.Answer // replies to grants; precede the candidates of this Out
	Candidates []Candidate
	Fills      []gaps.Answer // replies to what was lent; precede the wishes of this Out
	Wishes     []gaps.Wish
	Moved      []Moved
	requests   []batching.Request // backs Dispatches
}

// Reset empties the Out and keeps its memory.
func (o *Out) Reset() {
	o.Drops, o.Dispatches, o.Answers = o.Drops[:0], o.Dispatches[:0], o.Answers[:0]
	o.Candidates, o.Moved, o.requests = o.Candidates[:0], o.Moved[:0], o.requests[:0]
	o.Fills, o.Wishes = o.Fills[:0], o.Wishes[:0]
}
