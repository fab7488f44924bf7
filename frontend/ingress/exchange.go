package ingress

import (
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/ingress/oip"
	"github.com/symphony-serving/symphony/frontend/tracing"
	"github.com/symphony-serving/symphony/transport/mono"
)

// exchange is one request and its answer, and the memory they need. An arrow points to
// what is viewed:
//
//	body read whole   buffer <-- request <-- bound <-- tensors    or copied from bound to slab
//	                  scratch <---------------'                   where the data came as JSON
//	read by direct    parsed <-- request                          the data is in slab
//	reply             answers <-- parts <-- reply
type exchange struct {
	ctx   *fasthttp.RequestCtx
	door  door
	began mono.Time

	// The path: views of it, and unescaped.
	name, versionName []byte
	region            []byte // of shared memory, as sent
	model, version    string

	// The body.
	held     int64  // of Server.bodies
	bodyRead bool   // to its end
	watched  *conn  // whose pace is on
	buffer   []byte // the body's memory
	ahead    int    // bytes of the body in there, which direct has read

	// The request.
	request    oip.Request
	understood bool   // request is this one's, not that of one before
	parsed     []byte // a copy of the header that direct read request from; empty: it did not
	batched    bool   // of direct: the shapes have a leading 1
	bound      []binding
	scratch    []byte // tensors decoded from JSON
	tensors    []frontend.Tensor
	slab       frontend.Reservation
	wanted     []wanted
	ids        []atomic.Uint64 // of the inferences that are asked for
	labels     []string        // of the model, where an output is wanted as classes

	// The reply.
	answers []*frontend.Response
	outcome Outcome
	outputs int64 // bytes of Server.outputs
	trace   tracing.Context
	reply   oip.Reply
	parts   [][]byte // of its outputs
	shapes  []int64  // likewise
	encoded []byte   // its JSON, where it is compressed
	digits  []byte
}

// pools keep what a request needs for the next.
type pools struct {
	exchanges sync.Pool
	gunzip    sync.Pool
	inflate   sync.Pool
	zlib      sync.Pool
	gzip      sync.Pool
	deflate   sync.Pool
}

// keepMax is the largest buffer that is kept for the next request.
const keepMax = 1 << 20

func (s *Server) take(ctx *fasthttp.RequestCtx) *exchange {
	x, ok := s.pools.exchanges.Get().(*exchange)
	if !ok {
		x = &exchange{}
	}
	x.ctx = ctx
	return x
}

// give returns an exchange; views of its body die here. What the next request on it may
// have in common with this one stays: the model's name, and the header that direct has
// parsed, with the request that views a copy of it.
func (s *Server) give(x *exchange) {
	s.bodies.Add(-x.held)
	s.Unhold(x.outputs)
	s.cfg.Client.Release(&x.slab) // after a panic
	keep := func(b []byte) []byte {
		if cap(b) > keepMax {
			return nil
		}
		return b[:0]
	}
	clear(x.tensors)
	clear(x.answers)
	clear(x.reply.Outputs)
	clear(x.parts)
	if len(x.parsed) == 0 {
		x.forget()
	}
	*x = exchange{model: x.model, slab: x.slab, digits: x.digits, buffer: keep(x.buffer), scratch: keep(x.scratch), encoded: keep(x.encoded), request: x.request,
		parsed: x.parsed, ids: few(x.ids), parts: few(x.parts), shapes: x.shapes[:0],
		bound: x.bound[:0], wanted: x.wanted[:0], tensors: few(x.tensors), answers: x.answers[:0],
		reply: oip.Reply{Parameters: x.reply.Parameters[:0], Outputs: x.reply.Outputs[:0]}}
	s.pools.exchanges.Put(x)
}
