package frontend

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// schedulerHandler is the client as handler of its link to the scheduler.
type schedulerHandler Client

// Buffer implements transport.Handler.
func (h *schedulerHandler) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// Receive implements transport.Handler.
func (h *schedulerHandler) Receive(l transport.Link, f transport.Frame) {
	c := (*Client)(h)
	switch f.Kind {
	case wire.KindAnswer:
		var m wire.Answer
		if err := m.Decode(f.Body); err != nil {
			l.Close(fmt.Errorf("%w: %w", transport.ErrProtocol, err))
			return
		}
		c.fail(m.Request, m.Reason)
	case wire.KindDoc:
		if err := c.onDoc(l, f); errors.Is(err, transport.ErrRejected) {
			l.Close(err)
		} else if err != nil {
			l.Close(fmt.Errorf("%w: %w", transport.ErrProtocol, err))
		}
	case wire.KindLeave: // the scheduler drains: its refusals say so
	default:
		l.Close(fmt.Errorf("%w: frame of kind %d from the scheduler", transport.ErrProtocol, f.Kind))
	}
}

func (c *Client) onDoc(l transport.Link, f transport.Frame) error {
	var d wire.Doc
	if err := d.Decode(f.Body); err != nil {
		return err
	}
	switch d.Type {
	case wire.DocAdmitted:
		a, err := catalog.DecodeAdmitted(f.Payload)
		if err != nil {
			return err
		}
		if a.Error != "" {
			err := fmt.Errorf("%w: this frontend is not admitted: %s", transport.ErrRejected, a.Error)
			c.trouble.Store(&err)
			return err // the keeper tells it, and waits longer each time
		}
		if s := c.models.Load(); s != nil {
			now := mono.Now()
			c.before.Store(&earlier{s.names(now), now})
		}
		if c.served != nil {
			c.served.endAll()
		}
		c.served = newServed(a.Epoch)
		c.models.Store(nil) // another epoch has other ids: wait for its catalogue
		c.trouble.Store(nil)
		c.admitted.Store(&admission{epoch: a.Epoch, id: a.Frontend, link: l})
		c.log.Info().Uint64("epoch", uint64(a.Epoch)).Uint32("id", uint32(a.Frontend)).Str("address", a.Address).Msg("admitted by the scheduler")
		c.sayIfHidden(l, a.Address)
	case wire.DocChanges:
		ch, err := catalog.DecodeChanges(f.Payload)
		if err != nil {
			return err
		}
		if c.served == nil {
			return errChanges
		}
		if err := c.served.change(&ch, c.metrics); err != nil || ch.More {
			return err
		}
		c.models.Store(c.served.snapshot(c.models.Load(), c.before.Load()))
	case wire.DocLabels:
		if err := c.labels.got(f.Payload); err != nil { // a backend's fault, for which no request is to fail
			c.labels.bad.Add(err)
			return nil
		}
	}
	c.signal()
	return nil
}

// Closed implements transport.Handler.
func (h *schedulerHandler) Closed(l transport.Link, err error) {
	c := (*Client)(h)
	a := c.admitted.Load()
	had := a != nil && a.link == l
	if had {
		c.admitted.CompareAndSwap(a, nil)
	}
	c.failAll(wire.ReasonUnavailable)
	c.signal()
	select {
	case <-c.stop:
		return
	default:
	}
	if had || !errors.Is(err, transport.ErrRejected) {
		c.log.Warn().AnErr("cause", err).Msg("lost the scheduler: requests are answered unavailable until it is back")
	}
}

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
