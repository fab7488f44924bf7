package server

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// backend is one backend's link: its reports come in here.
type backend struct {
	server *Server
	name   string
	conn   members.Conn // 0: it has not introduced itself. Owned by the receiving goroutine until then.

	instance uint64         // of its process; likewise
	link     transport.Link // Guarded by Server.mu until admitted, then immutable.
	admitted atomic.Bool
	said     atomic.Bool // in a group: it has said whom it obeys
	told     bool        // Guarded by Server.mu: that it has not
	since    mono.Time   // likewise: of its admission

	seats []seated               // Guarded by Server.mu.
	rows  paging                 // of its devices that are paged; guards itself
	reign wire.Epoch             // likewise: that it has promised to obey; 0: none. Where there is no group nobody asks
	aside []*aside               // likewise: its GPUs, until then
	asked map[catalog.Digest]int // likewise: labels that it owes

	leaves  bool         // Owned by the receiving goroutine: it said that it drains.
	done    wire.Done    // Likewise: scratch.
	loaded  wire.Loaded  // Likewise.
	running wire.Running // Likewise.
}

// seated is a GPU of this backend.
type seated struct {
	pool *pool
	gpu  *gpu
}

// Buffer implements transport.Handler.
func (b *backend) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// Receive implements transport.Handler.
func (b *backend) Receive(l transport.Link, m transport.Frame) {
	switch m.Kind {
	case wire.KindDone:
		b.onDone(l, m.Body)
	case wire.KindLoaded:
		b.onLoaded(l, m.Body)
	case wire.KindDoc:
		if err := b.onDoc(l, m); err != nil {
			b.server.refusals.Refused("backend "+b.name, err)
			refuse(l, err)
		} else if b.leaves { // perhaps it is admitted now
			b.retire()
		}
	case wire.KindRunning, wire.KindPromised:
		b.onPromise(l, m)
	case wire.KindLeave:
		b.leaves = true
		b.retire()
	default:
		l.Close(fmt.Errorf("%w: frame of kind %d from a backend", transport.ErrProtocol, m.Kind))
	}
}

func (b *backend) onDone(l transport.Link, body []byte) {
	d := &b.done
	if err := d.Decode(body, l.Shift()); err != nil {
		l.Close(errors.Join(transport.ErrProtocol, err))
		return
	}
	if s := b.server; d.Epoch != wire.Epoch(s.reign.Load()) { // of an order that another scheduler gave
		if s.held != nil {
			waiting := s.held.end(heldKey{b.conn, d.Epoch, d.Batch}) // what is held was answered by its outputs
			if refusedWhole(d) != wire.ReasonNone {                  // but of a batch whose weights went there are none
				s.release(waiting)
			}
		}
		return
	}
	if w := b.server.cfg.Watch.Done; w != nil {
		w(d, l.Shift())
	}
	end := min(d.End, mono.Now()) // clocks are only so well aligned: nothing ends in the future
	if p := b.server.poolOf(d.Batch); p != nil {
		p.engine.Done(engine.Done{Batch: d.Batch, Start: min(d.Start, end), End: end, Fetch: d.Fetch, Ran: int(d.Ran), Refused: refusedWhole(d), Cold: d.Flags&wire.OutputCold != 0, Parts: d.Flags&wire.OutputParts != 0})
	}
}

func (b *backend) onDoc(l transport.Link, m transport.Frame) error {
	var d wire.Doc
	if err := d.Decode(m.Body); err != nil {
		return err
	}
	switch {
	case d.Type == wire.DocBackend && b.conn == 0:
		info, err := catalog.DecodeBackendInfo(m.Payload)
		if err != nil {
			return err
		}
		b.join(l, &info)
		return nil
	case d.Type == wire.DocModels && b.conn != 0:
		b.onModels(m.Payload)
		return nil
	case d.Type == wire.DocLabels && b.admitted.Load():
		return b.onLabels(m.Payload)
	case d.Type == wire.DocService && b.admitted.Load():
		return b.onService(m.Payload)
	case d.Type == wire.DocStock && b.admitted.Load():
		return b.onStock(m.Payload)
	case d.Type == wire.DocHeld && b.conn != 0:
		return b.onHeld(m.Payload)
	case d.Type == wire.DocKeep && b.admitted.Load() && b.server.group != nil:
		return b.onKeep(m.Payload)
	}
	return unexpected(d.Type, "backend")
}

func (b *backend) join(l transport.Link, info *catalog.BackendInfo) {
	s := b.server
	s.mu.Lock()
	defer s.mu.Unlock()
	conn, open := s.enter(l)
	if !open {
		return
	}
	b.conn, b.link, b.name, b.instance = conn, l, info.Name, info.Instance
	b.rows.introduce(info)
	s.backends[b.conn] = b
	info.Configured = min(info.Configured, time.Now().UnixNano()) // a clock that is ahead must not hold for ever
	s.cluster.JoinBackend(mono.Now(), b.conn, info, &s.effects)
	s.carryOut(&s.effects)
}

// onModels takes the list that the backend was asked for. What takes time for a large one
// comes before the lock, and is not counted as the backend's.
func (b *backend) onModels(payload []byte) {
	digest := catalog.DigestOf(payload)
	s := b.server
	s.mu.Lock()
	s.cluster.Arrived(b.conn, digest)
	s.mu.Unlock()
	list, err := catalog.DecodeModels(payload)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.cluster.Models(mono.Now(), b.conn, digest, list.Models, err, &s.effects)
	s.carryOut(&s.effects)
}

// onService takes a device out of service or back. Its batches may not be given to another
// before the backend has dropped them, which it does before it says so.
func (b *backend) onService(payload []byte) error {
	doc, err := catalog.DecodeService(payload)
	if err != nil {
		return err
	}
	s := b.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	b.rows.service(doc.Pool, doc.Device, doc.Works)
	err = s.cluster.Service(b.conn, doc.Pool, doc.Device, doc.Works, doc.Why, &s.effects)
	s.carryOut(&s.effects)
	return err
}

// onStock takes what became of its models.
func (b *backend) onStock(payload []byte) error {
	doc, err := catalog.DecodeStock(payload)
	if err != nil {
		return err
	}
	s := b.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	err = s.cluster.Stock(mono.Now(), time.Now().UnixNano(), b.conn, &doc, &s.effects)
	s.carryOut(&s.effects)
	return err
}

// onKeep takes what another scheduler, which it obeys, has ordered of it. What it heard of us we know.
func (b *backend) onKeep(payload []byte) error {
	doc, err := catalog.DecodeKeep(payload)
	if err != nil {
		return err
	}
	s := b.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || b.reign != 0 {
		return nil
	}
	err = s.cluster.Overhear(mono.Now(), b.conn, &doc, &s.effects)
	s.carryOut(&s.effects)
	return err
}

// onLabels takes labels, likewise: frontends get none that they cannot read.
func (b *backend) onLabels(payload []byte) error {
	if _, err := catalog.DecodeLabels(payload); err != nil {
		return err
	}
	digest := catalog.DigestOf(payload)
	s := b.server
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gotLabels(b, digest, payload)
}

// admitBackend tells it that it is admitted, of the frontends, and its models' ids: an
// order of a model that it does not know it can only refuse.
func (s *Server) admitBackend(b *backend) {
	b.since = mono.Now()
	b.admitted.Store(true)
	s.peers.Add(1)
	transport.SendDoc(b.link, wire.DocAdmitted, catalog.Admitted{Epoch: s.epoch})
	for f := range s.cluster.Frontends {
		s.tellMember(b, f, true)
	}
	for _, bound := range s.cluster.Bound(b.conn) {
		transport.SendDoc(b.link, wire.DocBound, bound)
	}
	s.log.Info().Str("backend", b.name).Msg("backend joined")
	if s.group != nil {
		s.group.backendUp(b)
	}
}

// retire lets the backend finish what it has and gives it nothing more.
func (b *backend) retire() {
	s := b.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.cluster.Retired(b.conn) {
		return
	}
	s.cluster.Retire(b.conn, &s.effects)
	s.carryOut(&s.effects)
	if s.cluster.Retired(b.conn) {
		s.log.Info().Str("backend", b.name).Msg("backend drains")
	}
}

// Closed implements transport.Handler.
func (b *backend) Closed(_ transport.Link, err error) {
	if b.conn == 0 {
		return
	}
	s := b.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.backends[b.conn] != b {
		return // it was refused or replaced
	}
	if s.closed {
		s.forget(b.conn)
		return
	}
	gpus, retired, admitted := len(b.seats), s.cluster.Retired(b.conn), b.admitted.Load()
	s.cluster.Leave(mono.Now(), b.conn, &s.effects)
	s.carryOut(&s.effects)
	s.forget(b.conn)
	switch {
	case retired:
		s.log.Info().Str("backend", b.name).Int("gpus", gpus).Msg("backend left")
	case admitted:
		s.log.Warn().Str("backend", b.name).Int("gpus", gpus).AnErr("cause", err).Msg("backend lost: what ran there is queued again")
	}
}
