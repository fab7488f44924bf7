package devices

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Life numbers the lives of a GPU: it rises with every Add of its id.
type Life uint32

// Grant says: model may use GPU, on the terms of the Offer.
type Grant struct {
	Model wire.ModelID
	GPU   wire.GPUID
	Life  Life
	// Generation is that of the model's weights on the GPU, which the batch counts on; 0
	// where pools are resident.
	Generation uint32
	// Due is the instant from which model and GPU, by what both said, could have been
	// brought together, Ready that of the GPU alone: how late the grant is shows how late
	// the loops are. They decide nothing.
	Due, Ready mono.Time
	batching.Offer
}

// Answer is a model's reply to a grant. Batch 0: it used the GPU for nothing.
type Answer struct {
	Grant Grant
	Batch wire.BatchID
	Exec  mono.Time // planned start
	Until mono.Time // planned end: the GPU is free again
	// Forgone is the GPU time that the requests would have taken that the model
	// lost since its last batch.
	Forgone mono.Dur
	// Need is the GPUs that deferral alone would keep busy with the model (batching.Need).
	Need float64
	// Slack is for how long a request of the model that runs alone may wait.
	Slack mono.Dur
	// Each is the GPU time that a request of the model takes, about.
	Each mono.Dur
}
