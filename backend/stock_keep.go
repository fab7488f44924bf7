package backend

import (
	"cmp"
	"errors"
	"fmt"
	"iter"

	"github.com/symphony-serving/symphony/backend/nice"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// entriesMax bounds a pool's models, those that fail included: more than a cluster has.
const entriesMax = 1 << 14

// onKeep takes what a device shall have. What comes of it is told by Stock, for each model
// that is named, also where there is nothing to do.
func (b *Backend) onKeep(u *uplink, l transport.Link, k catalog.Keep) error {
	if k.Pool < 0 || k.Pool >= len(b.pools) || k.Device < 0 || k.Device >= len(b.pools[k.Pool].devices) {
		return fmt.Errorf("an order what to keep for device %d of pool %d, which does not exist", k.Device, k.Pool)
	}
	select {
	case b.keeps <- keepOrder{u, l, k}:
		return nil
	default:
		return fmt.Errorf("%d orders what to keep wait already", cap(b.keeps))
	}
}

// keepsMax bounds the orders what to keep that wait.
const keepsMax = 1 << 12

// keepOrder is one from a link.
type keepOrder struct {
	from *uplink
	link transport.Link
	keep catalog.Keep
}

// keepAll carries them out, apart from the goroutine that takes batches: what is ordered of a thousand
// models is not to keep a batch waiting.
func (b *Backend) keepAll() {
	for {
		select {
		case o := <-b.keeps:
			if !o.from.mayOrder() {
				continue // another scheduler was promised since
			}
			for part := range partsOf(o.keep) {
				if err := b.pools[part.Pool].stock.keep(o.from, o.link, &part); err != nil {
					o.link.Close(fmt.Errorf("%w: %w", transport.ErrProtocol, err))
					break
				}
			}
		case <-b.stop:
			return
		}
	}
}

// partModels is how many models of an order are looked at while nobody else can.
const partModels = 32

// partsOf divides an order into small ones. What it says of routes comes with the first one.
func partsOf(k catalog.Keep) iter.Seq[catalog.Keep] {
	return func(yield func(catalog.Keep) bool) {
		for first := true; first || len(k.Unload)+len(k.Load)+len(k.Measure) > 0; first = false {
			part := catalog.Keep{Pool: k.Pool, Device: k.Device, In: k.In, Told: k.Told}
			switch {
			case len(k.Unload) > 0:
				part.Unload, k.Unload = cut(k.Unload)
			case len(k.Load) > 0:
				part.Load, k.Load = cut(k.Load)
			default:
				part.Measure, k.Measure = cut(k.Measure)
			}
			k.Told = nil
			if !yield(part) {
				return
			}
		}
	}
}

func cut[T any](all []T) (part, rest []T) {
	n := min(len(all), partModels)
	return all[:n], all[n:]
}

func (s *stock) keep(u *uplink, l transport.Link, k *catalog.Keep) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.introducedBy(u, l) == nil || s.closed {
		return nil // it has crossed the link's end
	}
	if len(s.entries)+len(k.Load) > entriesMax {
		return fmt.Errorf("%d more models for device %d of pool %d, which has %d: at most %d are kept", len(k.Load), k.Device, k.Pool, len(s.entries), entriesMax)
	}
	moved := s.devices[k.Device].in != k.In
	s.devices[k.Device].in = k.In
	if k.Told != nil && k.Told.SubCluster == k.In {
		s.hear(k.Told, s.reignOf(u))
	}
	if moved {
		s.forgetRouted()
	}
	for i := range s.ledgers {
		s.ledgers[i].missed = true
	}
	for _, key := range k.Unload {
		if e := s.known(u, key); e != nil {
			e.on[k.Device].wanted = false
			s.settle(e)
		}
	}
	for i := range k.Load {
		s.wantOn(&k.Load[i], k.Device)
	}
	for _, key := range k.Measure {
		e := s.known(u, key)
		if e == nil {
			continue
		}
		e.measureOn[k.Device] = e.on[k.Device].wanted
		if e.err != nil || e.later {
			s.retried(e)
		}
		s.settle(e)
	}
	return nil
}

// known finds a model that a scheduler's order names; one that is not here it is told to be gone.
// Caller holds mu.
func (s *stock) known(u *uplink, key string) *entry {
	e := s.entries[key]
	if e == nil {
		e = &entry{key: key, gone: true, heard: s.unheard(), slot: -1}
		k := &s.ledgers[u.index]
		k.number(e)
		k.changed(e)
		return nil
	}
	return e
}

// errOtherFiles: a device was ordered to have other files than others of its pool have. That is so
// until it is ordered anew.
var errOtherFiles = errors.New("with other files")

// wantOn has a device get a model. Caller holds mu.
func (s *stock) wantOn(source *catalog.Source, d int) {
	e := s.entries[source.Key()]
	if e == nil {
		e = s.newEntry(*source)
	}
	p := &e.on[d]
	switch other := s.differs(e, source); {
	case !other:
		settings := e.source
		if e.source = *source; source.Digest == "" { // what is there will do, and is still the same
			e.source.Digest = settings.Digest
		}
		if e.local {
			e.source.URL = ""
		}
		if e.files == filesHere && e.next == nil && settings != e.source {
			s.adjust(e)
		}
		e.next, e.nextModel = nil, nil
		if e.local && source.Digest != "" && s.b.cfg.Shelf != nil {
			s.compare(e, *source)
		}
	case s.wantedBeside(e, d):
		p.err = fmt.Errorf("other devices here have model %s %w (%s, digest %q): give new files a new version, or unload the old ones first", e.key, errOtherFiles, e.source.URL, cmp.Or(e.got.Digest, e.source.Digest))
		p.wanted = true
		s.failed(e, p.err, false)
		return
	default:
		next := *source
		e.next, e.nextModel = &next, nil
	}
	p.wanted, p.err, e.grace = true, nil, false
	e.retry.forget()
	s.retried(e)
}

// compare looks whether a model of the backend's own folder is the one that is ordered, and has
// that one take its place if it is not. Caller holds mu.
func (s *stock) compare(e *entry, source catalog.Source) {
	m := e.model
	s.work.Go(func() {
		var own catalog.Digest
		var err error
		nice.Run(nice.Most, func() { own, _, err = s.b.cfg.Shelf.Digest(cmp.Or(m.Files, m.Dir), source.Version) })
		if err == nil && own == source.Digest {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.gone || e.model != m || !e.local {
			return
		}
		s.b.log.Warn().Str("model", e.key).AnErr("cause", err).Msg("another one than in this backend's own folder is ordered under its name: it takes its place")
		e.next, e.nextModel, e.grace = &source, nil, true
		s.settle(e)
	})
}

// differs reports whether a source has other files than an entry; of a model that is the
// backend's own compare says so later. Caller holds mu.
func (s *stock) differs(e *entry, source *catalog.Source) bool {
	at := &e.source
	if e.next != nil {
		at = e.next
	}
	switch {
	case e.local || at.Digest == source.Digest && at.Digest != "":
		return false
	case e.next != nil:
	case e.files == filesHere && e.got.Digest != "" && (source.Digest != "" || at.URL == source.URL): // which an order without a digest has brought, or wants
		return source.Digest != "" && source.Digest != e.got.Digest
	case e.files != filesHere && at.Digest == "" && at.URL == source.URL: // what comes is looked at: asOrdered
		return false
	}
	return at.URL != source.URL || at.Digest != source.Digest
}

// wantedBeside reports whether another device is to have the model. Caller holds mu.
func (s *stock) wantedBeside(e *entry, d int) bool {
	for i := range e.on {
		if i != d && e.on[i].wanted {
			return true
		}
	}
	return false
}

// adjust has a model served as its source says now: nothing of it is loaded again. Caller
// holds mu.
func (s *stock) adjust(e *entry) {
	spec := served(e.model, &e.source)
	if e.source.Profile == nil || e.measured {
		spec.Profile = e.spec.Profile
	}
	if e.source.MaxBatch > e.exec.MaxBatch {
		s.b.log.Warn().Str("model", e.key).Int("max_batch", e.source.MaxBatch).Int("loaded_with", e.exec.MaxBatch).Msg("a larger max_batch takes effect when the model is loaded again: unload it, or bring it as a new version")
	}
	e.spec = &spec
	e.respecify()
	if e.slot >= 0 {
		s.p.setSpec(e.slot, e.spec)
	}
	s.changed(e)
}

// bind takes the ids of models: of all that the introduction listed, or of those that a Stock
// told.
func (b *Backend) bind(u *uplink, l transport.Link, bound catalog.Bound) error {
	if bound.Pool < 0 || bound.Pool >= len(b.pools) {
		return fmt.Errorf("ids of %d models of pool %d, which has others", len(bound.IDs), bound.Pool)
	}
	s := b.pools[bound.Pool].stock
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.introducedBy(u, l)
	ids := u.ids.Load()
	if k == nil || ids == nil {
		return nil
	}
	if bound.Slots == nil && len(bound.IDs) != k.listed || bound.Slots != nil && len(bound.IDs) != len(bound.Slots) {
		return fmt.Errorf("ids of %d models of pool %d, which has others", len(bound.IDs), bound.Pool)
	}
	refs := map[wire.ModelID]modelRef{}
	for i, id := range bound.IDs {
		number := i
		if bound.Slots != nil {
			number = bound.Slots[i]
		}
		if id >= modelsMax {
			return fmt.Errorf("model id %d", id)
		}
		if _, twice := refs[id]; twice {
			return fmt.Errorf("model id %d is given twice", id)
		}
		if number < 0 || number >= len(k.numbers) {
			return fmt.Errorf("an id of model %d of pool %d, which nobody was told of", number, bound.Pool)
		}
		refs[id] = modelRef{pool: -1}
		if e := k.numbers[number]; e != nil && e.slot >= 0 { // else it is gone since
			refs[id] = modelRef{bound.Pool, e.slot, e.exec}
		}
	}
	ids.setRefs(bound.Pool, refs, bound.Slots == nil)
	b.members.settle(ids.frontends)
	return nil
}
