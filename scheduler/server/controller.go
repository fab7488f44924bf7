package server

import (
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/sampled"
	"github.com/symphony-serving/symphony/transport/wire"
)

// controller is a link of the control plane's: its orders come in here. While there is none,
// everything goes on as it was ordered last.
type controller struct {
	server *Server
	name   string
	conn   members.Conn // 0: it has ordered nothing yet. Owned by the receiving goroutine until then.
	leaves bool         // it said so. Owned by the receiving goroutine.

	link transport.Link // Guarded by Server.mu until it has joined, then immutable.

	// Owned by tellControllers.
	known  uint64 // the facts' serial that it knows
	behind bool   // a part is missing
	rates  uint64 // the look at rates that it was told
}

// Buffer implements transport.Handler.
func (c *controller) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// PayloadMax implements transport.Limiter: an order names thousands of models at most.
func (c *controller) PayloadMax(_ transport.Link, kind wire.Kind) int {
	return transport.DocsOf(kind, transport.BackendDocMax)
}

// Receive implements transport.Handler.
func (c *controller) Receive(l transport.Link, m transport.Frame) {
	switch m.Kind {
	case wire.KindDoc:
		if err := c.onDoc(l, m); err != nil {
			c.server.refusals.Refused("controller "+c.name, err)
			refuse(l, err)
		}
	case wire.KindLeave: // it closes the link itself
		c.leaves = true
	default:
		l.Close(fmt.Errorf("%w: frame of kind %d from a controller", transport.ErrProtocol, m.Kind))
	}
}

func (c *controller) onDoc(l transport.Link, m transport.Frame) error {
	var d wire.Doc
	if err := d.Decode(m.Body); err != nil {
		return err
	}
	if d.Type != wire.DocOrder {
		return unexpected(d.Type, "controller")
	}
	order, err := catalog.DecodeOrder(m.Payload)
	if err != nil {
		return err
	}
	s := c.server
	if steered(&order) {
		s.onSteer(l, &order)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.conn == 0 && !c.join(l) || s.closed {
		return nil
	}
	if s.group != nil && !s.leads.Load() && order.Kind != catalog.OrderJoin {
		s.answer(&members.Effect{Conn: c.conn, ID: order.ID, Err: errSpare})
		return nil
	}
	s.cluster.Order(mono.Now(), c.conn, &order, &s.effects)
	s.carryOut(&s.effects)
	return nil
}

// errSpare is why a spare carries no order out.
var errSpare = errors.New("this scheduler does not lead its group: give the controller all of the group, as --scheduler A+B")

// controllersMax bounds how many controllers are linked: one leads, and others wait.
const controllersMax = 64

// join makes it known with its first order. Caller holds mu.
func (c *controller) join(l transport.Link) bool {
	s := c.server
	if len(s.controllers.all) >= controllersMax {
		refuse(l, fmt.Errorf("%d controllers are connected already", controllersMax))
		return false
	}
	conn, open := s.enter(l)
	if !open {
		return false
	}
	c.conn, c.link, c.behind = conn, l, true
	s.controllers.all[conn] = c
	s.tellLead(l)
	s.log.Info().Str("controller", c.name).Int("controllers", len(s.controllers.all)).Msg("controller joined")
	return true
}

// answer tells a controller what came of its order.
func (s *Server) answer(e *members.Effect) {
	out := catalog.Outcome{ID: e.ID}
	s.controllers.carried++
	if e.Err != nil {
		out.Error = e.Err.Error()
		s.controllers.carried--
		s.controllers.refused++
		s.controllers.refusals.Add(refusedOrder{e.ID, e.Err})
	}
	if c := s.controllers.all[e.Conn]; c != nil {
		transport.SendDoc(c.link, wire.DocOutcome, out)
	}
}

// refusedOrder is one that was not carried out.
type refusedOrder struct {
	id  uint64
	err error
}

// newRefusedOrders logs them, as many as are worth a line: the controller that gave them knows all.
func newRefusedOrders(log zerolog.Logger) *sampled.Log[refusedOrder] {
	return sampled.New(sampled.Span, func(r refusedOrder, left int) {
		e := log.Info().Uint64("order", r.id).Err(r.err)
		if left > 0 {
			e = e.Int("and_others", left)
		}
		e.Msg("an order of the control plane's is not carried out")
	})
}

// Closed implements transport.Handler.
func (c *controller) Closed(_ transport.Link, err error) {
	if c.conn == 0 {
		return
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.controllers.all, c.conn)
	if s.closed {
		return
	}
	s.cluster.Leave(mono.Now(), c.conn, &s.effects)
	s.carryOut(&s.effects)
	if c.leaves {
		s.log.Info().Str("controller", c.name).Int("controllers", len(s.controllers.all)).Msg("controller left")
		return
	}
	s.log.Warn().Str("controller", c.name).Int("controllers", len(s.controllers.all)).AnErr("cause", err).
		Msg("controller away: everything goes on as it was planned last; models that come and go, and new plans, wait")
}
