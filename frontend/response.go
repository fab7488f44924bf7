package frontend

import (
	"sync"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Response is an inference and where its time went.
type Response struct {
	Outputs   []Tensor
	Version   string // of the model, that answered
	BatchSize int
	GPU       int            // its id at the scheduler that served it: each has its own
	Cold      bool           // its batch was the first one after the model's weights were loaded: it waited for them
	Request   wire.RequestID // what scheduler and backend call the request
	Frontend  wire.FrontendID

	Preprocess time.Duration // decoding and resizing at the frontend
	Queue      time.Duration // from the submission until the inputs were fetched
	Fetch      time.Duration // the backend's READ of the batch's inputs
	Execute    time.Duration // the batch on the device
	Reply      time.Duration // from the end of execution to this answer
	Total      time.Duration
	Slack      time.Duration // left until the deadline; negative: late

	Epoch wire.Epoch   // of the scheduler's reign that Batch is of; 0: the backend does not tell of batches
	Batch wire.BatchID // that it ran in
	Times Times

	exchanged wire.OutputFlags // of OutputBefore and OutputAfter

	pool *sync.Pool // where Release puts it; nil once released
	few  [2]Tensor  // what Outputs mostly needs, so that it is no allocation of its own
	data []byte     // the outputs' bytes
}

// Times are when what became of a request, on this process's clock, in their order.
type Times struct {
	Arrival   mono.Time // Infer was called
	Submitted mono.Time // its record went to the scheduler
	Ordered   mono.Time // its batch's order arrived at the backend, which began to read the inputs
	Ready     mono.Time // all inputs were there
	Start     mono.Time // execution began
	End       mono.Time // execution ended
	Answered  mono.Time // the output was here
}

// ID is what symphony explain takes, to tell the request's way.
func (r *Response) ID() string { return requestID(r.Frontend, r.Request) }

// dataKeep is the most bytes that a released response holds for its next life.
const dataKeep = 1 << 20

// Release gives the response and its outputs back for reuse: who calls it has
// inferences without garbage. It is optional, what is not released is the
// collector's. Nothing of the response may be used after it.
func (r *Response) Release() {
	p := r.pool
	if p == nil {
		return
	}
	data := r.data
	if cap(data) > dataKeep {
		data = nil
	}
	*r = Response{data: data[:0]}
	p.Put(r)
}

// response takes a released one, or makes one.
func (c *Client) response() *Response {
	r, _ := c.responses.Get().(*Response)
	if r == nil {
		r = new(Response)
	}
	r.pool = &c.responses
	return r
}

// room makes room for n bytes of outputs.
func (r *Response) room(n int) []byte {
	if cap(r.data) < n {
		r.data = make([]byte, n)
	}
	r.data = r.data[:n]
	return r.data
}
