package frontend

import (
	"fmt"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/wire"
)

// Outputs that are large take memory by what models and clients ask for, not by what clients send. So a call takes
// room for its outputs before it is sent, and gives it back with its answer: what it could not hold is not executed.

// OutputsMaxDefault is Options.OutputsMax where nothing is said.
const OutputsMaxDefault = 2 << 30

// smallOutput is what a response may hold without being asked for, and what is not counted.
const smallOutput = 16 << 10

// outputRoom bounds the bytes of large outputs that are awaited.
type outputRoom struct {
	most int64 // Immutable.
	used atomic.Int64
}

// take takes room for n bytes; false: there is none.
func (o *outputRoom) take(n int64) bool {
	if o.used.Add(n) <= o.most {
		return true
	}
	o.used.Add(-n)
	return false
}

func (o *outputRoom) give(n int64) {
	if n > 0 {
		o.used.Add(-n)
	}
}

// makeRoom takes room for a call's outputs, where they are large. An error is the answer.
func (c *Client) makeRoom(k *call) *Error {
	n := k.model.outputs
	if n <= smallOutput || k.held { // what is refused brings none
		return nil
	}
	if c.outputs.take(int64(n)) {
		k.room = int64(n)
		return nil
	}
	name := k.model.entry.Spec.Name
	if int64(n) > c.outputs.most {
		return &Error{Kind: ErrBadInput, Reason: wire.ReasonMemory, Model: name,
			Msg: fmt.Sprintf("its outputs take %d bytes, at most %d are taken (frontend.outputs_max, Options.OutputsMax): raise that", n, c.outputs.most)}
	}
	return &Error{Kind: ErrOverloaded, Reason: wire.ReasonMemory, Model: name,
		Msg: fmt.Sprintf("its outputs take %d bytes, and of %d bytes for outputs that are awaited %d are taken (frontend.outputs_max, Options.OutputsMax)", n, c.outputs.most, c.outputs.used.Load())}
}

// partKey names an output of which parts come: a request that is run twice has two.
type partKey struct {
	request wire.RequestID
	epoch   wire.Epoch
	batch   wire.BatchID
}

func keyOf(m *wire.Output) partKey { return partKey{m.Request, m.Epoch, m.Batch} }

// assembly is an output of which some has come.
type assembly struct {
	response *Response
	got      int
}

// assemblies are one link's. They belong to its receiving goroutine. There are no more than requests that were
// awaited when their first part came, one for each, and each goes with its last part, its reason, or its link.
type assemblies map[partKey]*assembly

// partial reports whether the payload of n bytes is a part of an output.
func partial(m *wire.Output, n int) bool { return m.Total != 0 && (n != int(m.Total) || m.Offset != 0) }

// place is where a part's bytes belong; nil: their request is not open any more, or they do not follow those before.
func (h *dataHandler) place(m *wire.Output, n int) []byte {
	key := keyOf(m)
	a := h.parts[key]
	if a != nil && int(m.Total) != len(a.response.data) {
		return nil // join finds it again
	}
	if !h.client.awaits(m.Request, int(m.Total)) {
		h.forget(key)
		return nil
	}
	if a == nil {
		if m.Offset != 0 {
			return nil
		}
		h.sweep(m.Request)
		a = &assembly{response: h.client.response()}
		a.response.room(int(m.Total))
		if h.parts == nil {
			h.parts = assemblies{}
		}
		h.parts[key] = a
	}
	from, to := int(m.Offset), int(m.Offset)+n
	if from != a.got || to > len(a.response.data) {
		return nil // likewise
	}
	return a.response.data[from:to]
}

// join adds a part that has come to its output. An error is a breach of the protocol.
func (h *dataHandler) join(m *wire.Output, payload []byte) error {
	key := keyOf(m)
	a := h.parts[key]
	if a == nil {
		h.client.metrics.stray.Inc() // its request was answered meanwhile, or the output is not its model's
		if m.Offset == 0 {
			h.client.misfit(m.Request)
		}
		return nil
	}
	size, from, to := len(a.response.data), int(m.Offset), int(m.Offset)+len(payload)
	if len(payload) == 0 || from != a.got || to > size || int(m.Total) != size {
		h.forget(key)
		h.client.fail(m.Request, wire.ReasonBackendLost)
		return fmt.Errorf("bytes %d to %d of an output of %d, of which %d of %d bytes have come", from, to, m.Total, a.got, size)
	}
	if dst := a.response.data[from:to]; &dst[0] != &payload[0] {
		copy(dst, payload)
	}
	if a.got = to; a.got < size {
		return nil
	}
	delete(h.parts, key)
	if !h.client.answer(m, a.response.data, a.response) {
		a.response.Release()
	}
	return nil
}

// misfit answers a request whose output has another size than its model's, if it is open.
func (c *Client) misfit(id wire.RequestID) {
	if k, ok := c.take(id); ok {
		err := k.misfit()
		k.model.metrics.count(err)
		k.done(nil, err)
	}
}

func (k *call) misfit() *Error {
	return &Error{Kind: ErrFailed, Reason: wire.ReasonExecution, Model: k.model.entry.Spec.Name, Msg: "the output does not fit the catalogue"}
}

// sweep forgets outputs whose requests were answered meanwhile: their backend may have given them up without a reason.
// Of the request whose output begins it forgets those of other batches: an open request has one output at most.
func (h *dataHandler) sweep(begins wire.RequestID) {
	for key, a := range h.parts {
		if key.request == begins || !h.client.awaits(key.request, len(a.response.data)) {
			h.forget(key)
		}
	}
}

// forget lets go of an output that will not be whole.
func (h *dataHandler) forget(key partKey) {
	if a := h.parts[key]; a != nil {
		delete(h.parts, key)
		a.response.Release()
		h.client.metrics.stray.Inc()
	}
}

// lose answers the requests whose outputs were coming when their link ended: the rest never comes, and their batch
// is reported, as a rule, so that no scheduler runs them again.
func (h *dataHandler) lose() {
	for key := range h.parts {
		h.forget(key)
		h.client.fail(key.request, wire.ReasonBackendLost)
	}
}
