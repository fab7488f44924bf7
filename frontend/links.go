package frontend

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// dataHandler takes what one backend sends. Its scratch belongs to the link's
// receiving goroutine, of which there is one at a time.
type dataHandler struct {
	client *Client
	output wire.Output
	next   *Response // what the next output goes into; nil: to be taken
	parts  assemblies
}

// Buffer implements transport.Handler: an output's bytes go straight where the
// Response will have them.
func (h *dataHandler) Buffer(l transport.Link, kind wire.Kind, body []byte, n int) []byte {
	m := &h.output
	if kind != wire.KindOutput || m.Decode(body, 0) != nil {
		return nil
	}
	if partial(m, n) {
		return h.place(m, n)
	}
	// What is large is made only for who waits for it. (What is small costs
	// nothing, a look at the table costs a lock.)
	if n > smallOutput && !h.client.awaits(m.Request, n) {
		return nil // what lies in the link's own buffer is refused by Receive
	}
	return h.response().room(n)
}

func (h *dataHandler) response() *Response {
	if h.next == nil {
		h.next = h.client.response()
	}
	return h.next
}

// Receive implements transport.Handler.
func (h *dataHandler) Receive(l transport.Link, f transport.Frame) {
	if f.Kind == wire.KindLeave {
		return
	}
	m := &h.output
	if f.Kind != wire.KindOutput {
		l.Close(fmt.Errorf("%w: frame of kind %d from a backend", transport.ErrProtocol, f.Kind))
		return
	}
	if err := m.Decode(f.Body, l.Shift()); err != nil {
		l.Close(fmt.Errorf("%w: %w", transport.ErrProtocol, err))
		return
	}
	if m.Reason == wire.ReasonNone && partial(m, len(f.Payload)) {
		if err := h.join(m, f.Payload); err != nil {
			l.Close(fmt.Errorf("%w: %w", transport.ErrProtocol, err))
		}
		return
	}
	if m.Reason != wire.ReasonNone && len(h.parts) > 0 {
		h.forget(keyOf(m))
	}
	if h.client.answer(m, f.Payload, h.response()) || cap(h.next.data) > dataKeep {
		h.next = nil
	}
}

// Closed implements transport.Handler. What ran on that backend is queued again
// by the scheduler; what was coming is lost.
func (h *dataHandler) Closed(transport.Link, error) { h.lose() }
