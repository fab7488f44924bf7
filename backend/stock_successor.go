package backend

import (
	"errors"
	"slices"
	"time"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A model of the backend's own folder whose files change has a successor: an entry of its own with a slot
// of its own, which schedulers do not hear of. It is loaded like every model, on all devices that are to have the one
// before, and is measured there if it has no profile. Then it takes the place of the one before:
//
//	served:     old ................................ old | new
//	successor:        fetching loading measuring ready ---^   old: leaving
//	                  failed: old goes on; tried again, and when files change again
//
//  1. Orders name a model by the scheduler's id. The exchange is one step (ids.move) where requests that were
//     checked for the old one fit the new one. Where tensors differ the scheduler gives the new one an id of its own (members.replace);
//     the old id leads to the old slot until that is empty.
//  2. The exchange is announced for as long as a request may take. Outputs of before and after are marked, so that items of
//     one request that ran on both sides make no answer. Schedulers get a smaller max_batch, so that batches that come fit.
//  3. The old one leaves when the schedulers have named the new one, and a grace time later.
//
// Where a device has no room for both the old one goes first, and requests are refused as loading meanwhile. Paged
// devices do the same: schedulers know by id which model's weights are there.

// errRoomForBoth says why a model is refused while another one of its name is loaded.
var errRoomForBoth = errors.New("there is no room for both")

// supersede has a model's new files loaded: beside what is served, if any is. Caller holds mu.
func (s *stock) supersede(e *entry, m *repository.Model) {
	s.abandon(e)
	if s.p.cfg.Paged != nil || !e.served() {
		s.b.log.Info().Str("pool", s.p.doc.DeviceType).Str("model", e.key).Msg("its files have changed: loading it again")
		s.exchange(e, m)
		return
	}
	s.b.log.Info().Str("pool", s.p.doc.DeviceType).Str("model", e.key).Msg("its files have changed: they are loaded, and what was served goes on until they are ready")
	n := s.unlisted(e.source)
	n.local, n.model, n.succeeds, e.successor = true, m, e, n
	for d := range n.on {
		n.on[d].wanted = e.on[d].wanted
	}
	s.settle(n)
}

// exchange has a model's new files take its place when no device has the old ones any more. Caller holds mu.
func (s *stock) exchange(e *entry, m *repository.Model) {
	e.next = &catalog.Source{Name: m.Spec.Name, Version: m.Spec.Version}
	e.nextModel, e.grace = m, true
}

// served reports whether some device has it. Caller holds mu.
func (e *entry) served() bool {
	for d := range e.on {
		if e.ready(d) {
			return true
		}
	}
	return false
}

// unlisted makes an entry that is not the one of its key. Caller holds mu.
func (s *stock) unlisted(source catalog.Source) *entry {
	e := s.blankEntry(source)
	e.hidden = true
	s.hidden[e] = true
	return e
}

// abandon gives a model's successor up. Caller holds mu.
func (s *stock) abandon(e *entry) {
	n := e.successor
	if n == nil {
		return
	}
	announced := !e.due.IsZero()
	e.successor, n.succeeds, e.due = nil, nil, time.Time{}
	if e.exec != nil {
		e.exec.Exchange.Store(0)
		if announced {
			s.adjust(e) // its own max_batch holds again
		}
	}
	s.dismiss(n)
}

// dismiss has an entry that is not its key's end. Caller holds mu.
func (s *stock) dismiss(e *entry) {
	e.retry.forget()
	for d := range e.on {
		e.on[d].wanted = false
	}
	s.settle(e)
}

// lead has a successor go where the one before is wanted. Caller holds mu.
func (s *stock) lead(e *entry) {
	n := e.successor
	switch {
	case n == nil:
		return
	case e.next != nil:
		s.abandon(e)
		return
	}
	changed := false
	for d := range n.on {
		changed = changed || n.on[d].wanted != e.on[d].wanted
		n.on[d].wanted = e.on[d].wanted
	}
	if changed {
		s.settle(n)
	}
}

// takeOver lets a successor take its place when it is ready wherever the one before is wanted. Caller holds mu.
func (s *stock) takeOver(n *entry) {
	old := n.succeeds
	if old == nil || n.next != nil || !n.served() {
		return
	}
	for d := range n.on {
		if old.on[d].wanted && !n.ready(d) {
			return
		}
	}
	if old.due.IsZero() {
		s.announce(n, old)
	}
	if time.Now().Before(old.due) {
		return
	}
	s.inherit(n, old)
}

// Spans between the moment at which a successor is ready and that at which it takes its place, and after that: items of one
// request that run on both sides are marked as such (wire.OutputBefore), and a smaller max_batch holds (rule 2).
const (
	announceMost = 2 * mono.Second
	afterTime    = 10 * time.Second // stock.after
)

// announce begins to let a successor take its place. Caller holds mu.
func (s *stock) announce(n, old *entry) {
	n.source = old.source
	s.adjust(n)
	old.exec.Exchange.Store(uint32(wire.OutputBefore))
	n.exec.Exchange.Store(uint32(wire.OutputAfter))
	pause := max(s.grace, min(old.spec.SLO, announceMost).Std())
	old.due = time.Now().Add(pause)
	time.AfterFunc(pause+time.Millisecond, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.settle(n)
	})
	if n.spec.MaxBatch < old.spec.MaxBatch && n.spec.SameTensors(old.spec) {
		spec := *old.spec
		spec.MaxBatch = n.spec.MaxBatch
		old.spec = &spec
		old.respecify()
		s.p.setSpec(old.slot, old.spec)
		s.changed(old)
	}
}

// inherit is takeOver's step. Caller holds mu.
func (s *stock) inherit(n, old *entry) {
	s.b.log.Info().Str("pool", s.p.doc.DeviceType).Str("model", n.key).Msg("its new files are served")
	n.succeeds, old.successor = nil, nil
	n.hidden, old.hidden = false, true
	delete(s.hidden, n)
	s.hidden[old] = true
	s.entries[n.key] = n
	for i := range s.ledgers {
		s.ledgers[i].inherit(n, old)
	}
	n.heard, old.heard = old.heard, s.unheard()
	n.respecify()
	n.measureOn = slices.Clone(old.measureOn)
	if n.spec.SameTensors(old.spec) && n.spec.SameImages(old.spec) {
		s.b.move(s.index, old.slot, n.slot, n.exec)
	}
	s.changed(n)
	flags := n.exec.Exchange // as it is now: n may be loaded again before the span has passed
	time.AfterFunc(s.after, func() { flags.CompareAndSwap(uint32(wire.OutputAfter), 0) })
	old.grace, old.heir = true, n
	s.dismiss(old)
	s.settle(n)
}

// inherit lets a scheduler's number be n's. Caller holds the stock's mu.
func (k *ledger) inherit(n, old *entry) {
	for _, list := range [][]*entry{k.numbers, k.dirty} {
		for i, e := range list {
			if e == old {
				list[i] = n
			}
		}
	}
}

// move has the ids that lead to a slot lead to another one.
func (b *Backend) move(pool, from, to int, model *executor.Model) {
	for _, u := range b.uplinks {
		if ids := u.ids.Load(); ids != nil {
			ids.move(pool, from, modelRef{pool, to, model})
		}
	}
}

// move lets the ids that lead to a slot lead to ref.
func (s *ids) move(pool, from int, ref modelRef) {
	s.edit(func(table []modelRef) []modelRef {
		for id := range table {
			if table[id].pool == pool && table[id].index == from {
				table[id] = ref
			}
		}
		return table
	})
}

// namedMost bounds what a model that was replaced waits for schedulers to name the next one.
const namedMost = 5 * mono.Second

// awaitNamed waits until all schedulers that can be heard have named a model, which is about to be asked for.
func (s *stock) awaitNamed(n *entry) bool {
	for until := mono.Now().Add(namedMost); mono.Now() < until; {
		s.mu.Lock()
		named := n.gone || n.slot < 0 || s.b.named(s.index, n.slot)
		s.mu.Unlock()
		if named {
			return true
		}
		if !s.sleep(s.ctx, 5*time.Millisecond) {
			return false
		}
	}
	return true
}

// named reports whether all schedulers that can be heard have an id that leads to a slot.
func (b *Backend) named(pool, slot int) bool {
	for _, u := range b.uplinks {
		if ids := u.ids.Load(); u.link.Load() != nil && (ids == nil || !ids.names(pool, slot)) {
			return false
		}
	}
	return true
}

// noRoomForBoth reports whether a device refused a successor for want of room that it would have without the one before: then that
// one goes first. Caller holds mu.
func (s *stock) noRoomForBoth(n *entry, d int, err error) bool {
	old := n.succeeds
	if old == nil || !errors.Is(err, errRoom) && !errors.Is(err, cuda.ErrMemory) {
		return false
	}
	var gpu *cuda.RefusedError
	if errors.As(err, &gpu) && gpu.Need > gpu.Left+old.on[d].need.static || s.fitsWithout(s.p.loader.need(n.model), d, old) != nil {
		return false // it is too large by itself
	}
	s.b.log.Warn().Str("pool", s.p.doc.DeviceType).Str("model", old.key).AnErr("cause", err).Err(errRoomForBoth).
		Msg("its files have changed: what is served goes first, and until the new files are loaded requests are answered with loading; raise the pool's memory to load them beside it")
	m := n.model
	s.abandon(old)
	s.exchange(old, m)
	s.settle(old)
	return true
}

// outdated is why a model's files, as they are now, are not served in place of what is; nil: they are, or are about to be. Caller
// holds mu.
func (e *entry) outdated() error {
	if e.refused != nil {
		return e.refused
	}
	if n := e.successor; n != nil {
		if n.err != nil {
			return n.err
		}
		for d := range n.on {
			if n.on[d].err != nil {
				return n.on[d].err
			}
		}
	}
	return nil
}

// faulty notes why files of the backend's own folder cannot be read: of a version, or of all. What is served goes on. Caller
// holds mu.
func (s *stock) faulty(dir string, failed []error) map[string]bool {
	stays := map[string]bool{}
	for _, err := range failed {
		var of *repository.ModelError
		if !errors.As(err, &of) {
			continue
		}
		for key, e := range s.entries {
			if e.local && e.model != nil && e.model.Dir == dir && (of.Version == "" || of.Version == e.source.Version) {
				s.abandon(e)
				e.refused, stays[key] = err, true
				s.changed(e)
			}
		}
	}
	return stays
}

// knows reports whether there is an entry of a key.
func (s *stock) knows(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[key] != nil
}
