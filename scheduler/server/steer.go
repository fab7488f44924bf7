package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// steer is an order of people's, to lead or to hand over, that is not carried out yet.
type steer struct {
	link    transport.Link
	id      uint64
	promote bool
}

// steerMost is how long a change of the leader may take: it takes milliseconds.
const steerMost = 5 * time.Second

// steersMost bounds how many orders wait.
const steersMost = 64

// steered reports whether an order is one of those.
func steered(o *catalog.Order) bool {
	return o.Kind == catalog.OrderPromote || o.Kind == catalog.OrderStepDown
}

// onSteer takes one.
func (s *Server) onSteer(l transport.Link, o *catalog.Order) {
	w := &steer{link: l, id: o.ID, promote: o.Kind == catalog.OrderPromote}
	g := s.group
	if g == nil {
		w.end(errors.New("this scheduler is in no group: it was started without --standby"))
		return
	}
	if done, err := g.steer(w); done || err != nil {
		w.end(err)
		return
	}
	time.AfterFunc(steerMost, func() {
		if g.forget(w) {
			w.end(fmt.Errorf("not done within %v: the log of the schedulers says why", steerMost))
		}
	})
}

// steer begins to carry an order out; it may be done already.
func (g *group) steer(w *steer) (done bool, err error) {
	g.mu.Lock()
	full, ended := len(g.orders) >= steersMost, g.ended
	if !full && !ended {
		g.orders = append(g.orders, w)
	}
	g.mu.Unlock()
	switch {
	case full:
		return false, fmt.Errorf("%d such orders are under way already", steersMost)
	case ended:
		return !w.promote, errors.New("another scheduler has just taken over")
	}
	g.drive(func(now mono.Time, out *standby.Effects) {
		if w.promote {
			err = g.core.Promote(now, out)
		} else {
			err = g.core.StepDown(now, out)
		}
	})
	switch {
	case err == nil:
		return false, nil
	case w.promote && g.server.leads.Load():
		done, err = true, nil
	case errors.Is(err, standby.ErrLeads): // it is about to: the answer comes when it does
		return false, nil
	case errors.Is(err, standby.ErrNotLead):
		err = fmt.Errorf("%w%s", err, g.leader(", "))
	}
	g.forget(w)
	return done, err
}

// forget takes an order out; false: it has been answered.
func (g *group) forget(w *steer) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, x := range g.orders {
		if x == w {
			g.orders = append(g.orders[:i], g.orders[i+1:]...)
			return true
		}
	}
	return false
}

// answer tells those who wait for it that this scheduler leads now, or does no more.
func (g *group) answer(leads bool) {
	g.mu.Lock()
	orders := g.orders
	g.orders = nil
	g.mu.Unlock()
	for _, w := range orders {
		switch {
		case w.promote == leads:
			w.end(nil)
		case leads:
			w.end(errors.New("this scheduler has just begun to lead: ask again"))
		default:
			w.end(errors.New("another scheduler has taken over meanwhile"))
		}
	}
}

// end answers an order.
func (w *steer) end(err error) {
	out := catalog.Outcome{ID: w.id}
	if err != nil {
		out.Error = err.Error()
	}
	transport.SendDoc(w.link, wire.DocOutcome, out)
}

const (
	// handOverMost is how long a drain waits for a spare to take over; the core gives it a second.
	handOverMost = 1200 * time.Millisecond
	// handOverAgain is between two attempts: a spare may be about to come.
	handOverAgain = 20 * time.Millisecond
)

// handOver has a spare lead in this scheduler's place; false: there is none, or it does not.
func (s *Server) handOver(ctx context.Context) bool {
	if s.group == nil || !s.leads.Load() {
		return false
	}
	late := time.NewTimer(handOverMost)
	defer late.Stop()
	for asked := false; ; {
		var err error
		if !asked {
			s.group.drive(func(now mono.Time, out *standby.Effects) { err = s.group.core.StepDown(now, out) })
			asked = err == nil
		}
		again := time.NewTimer(handOverAgain)
		select {
		case <-s.group.over:
			again.Stop()
			return true
		case <-again.C:
			continue
		case <-late.C:
		case <-ctx.Done():
		}
		again.Stop()
		s.log.Warn().AnErr("why", err).Msg("no spare has taken over: what is open is finished here")
		return false
	}
}
