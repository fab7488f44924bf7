package executor

import (
	"github.com/symphony-serving/symphony/backend/outbound"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Outputs that are small leave at once where nothing waits for their links (finish.go). Others wait with the sender,
// and keep their batch's buffers meanwhile. The bytes of these are counted; where they are too many, requests are
// answered with a reason.

// spareBytes is the most bytes of buffers that spare orders keep. The heap gives more as fast as it is filled.
const spareBytes = 256 << 20

// SendBy makes the executor use a sender that other executors use, too. Call it before the first order.
func (e *Executor) SendBy(s *outbound.Sender) { e.outputs = s }

// sendLater gives an output to the sender, which sends it when the link takes it. The order has a hold for it already.
func (o *order) sendLater(l transport.Link, i, k int, m *wire.Output) {
	if !o.reserve() {
		o.unsent++
		o.reasons[i] = wire.ReasonUnsent
		o.release()
		return
	}
	o.exec.outputs.Send(l, outbound.Output{Head: *m, Data: o.batch.Outputs[k], Deadline: o.Items[i].Deadline, Model: o.ModelIndex, Release: o.sent, Lost: o.exec.obs.Lost})
}

// reserve counts the order's outputs as waiting; false: too many bytes wait. A buffer may be larger than the batch that
// is in it, and larger than all that may wait: it counts as all of that then, so that such a batch is sent alone.
func (o *order) reserve() bool {
	if o.reserved > 0 {
		return true
	}
	n := min(int64(cap(o.out)), o.exec.outputs.Max())
	if !o.exec.outputs.Reserve(n) {
		return false
	}
	o.reserved = n
	return true
}

func (o *order) unreserve() {
	if o.reserved > 0 {
		o.exec.outputs.Unreserve(o.reserved)
		o.reserved = 0
	}
}

// tellUnsent reports the requests whose outputs found no room.
func (o *order) tellUnsent() {
	if o.unsent == 0 {
		return
	}
	s := o.exec.outputs
	o.exec.failed(&Failure{Cause: CauseUnsent, Order: &o.Order, Requests: o.unsent, Got: int(s.Held()) + cap(o.out), Want: int(s.Max())})
	o.unsent = 0
}

// hold takes one hold more on the buffers.
func (o *order) hold() {
	o.mu.Lock()
	o.holding++
	o.mu.Unlock()
}

// small reports whether the order's buffers may be kept beside those of the other spare ones.
func (o *order) small(spare []*order) bool {
	n := cap(o.in) + cap(o.out)
	for _, other := range spare {
		n += cap(other.in) + cap(other.out)
	}
	return n <= spareBytes
}

// reason sends a reason in place of an output; one that the link refuses for now waits.
func (e *Executor) reason(l transport.Link, m *wire.Output, it *wire.BatchItem, model int) {
	if err := l.Send(m.Append(nil, 0)); err != nil {
		e.reasonLater(l, m, nil, it, model)
	}
}

// reasonLater has a reason, with the words that explain it, sent when its link takes it. Where the link has ended, the
// sender reports the loss.
func (e *Executor) reasonLater(l transport.Link, m *wire.Output, words []byte, it *wire.BatchItem, model int) {
	e.outputs.Send(l, outbound.Output{Head: *m, Data: words, Deadline: max(it.Deadline, mono.Now().Add(outbound.Grace)), Model: model, Lost: e.obs.Lost})
}
