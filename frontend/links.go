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
}

// Buffer implements transport.Handler: an output's bytes go straight where the
// Response will have them.
func (h *dataHandler) Buffer(l transport.Link, kind wire.Kind, body []byte, n int) []byte {
	m := &h.output
	if kind != wire.KindOutput || m.Decode(body, 0) != nil {
		return nil
	}
	// What is large is made only for who waits for it. (What is small costs
	// nothing, a look at the table costs a lock.)
	if n > smallOutput && !h.client.awaits(m.Request, n) {
		return nil // what lies in the link's own buffer is refused by Receive
	}
	return h.response().room(n)
}

// smallOutput is what a response may hold without being asked for.
const smallOutput = 16 << 10

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
	if h.client.answer(m, f.Payload, h.response()) || cap(h.next.data) > dataKeep {
		h.next = nil
	}
}

// Closed implements transport.Handler. What ran on that backend is queued again
// by the scheduler; nothing is to be done here.
func (*dataHandler) Closed(transport.Link, error) {}
