package batching

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Request is what the scheduler knows of a request.
type Request struct {
	ID       wire.RequestID
	Frontend wire.FrontendID
	Model    wire.ModelID // whose counts it is in, for who handed it in; nothing here looks at it
	Arrival  mono.Time
	Deadline mono.Time
	Input    wire.SlabRef
	Priority wire.Priority // among requests of the same deadline
	// Class: of best effort, Deadline is when whoever asked gives up, and nothing is planned by it.
	Class wire.Class
	// Suspicion is for the backend, as is Input; it decides nothing here.
	Suspicion wire.Suspicion
}

// Drop is a request given up before execution, and why.
type Drop struct {
	Request Request
	Came    mono.Time // when it was handed in; 0: not told. It decides nothing
	Reason  wire.Reason
}
