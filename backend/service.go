package backend

import (
	"fmt"
	"strings"
	"sync"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// service is which devices may not be used now, and why. Each reason has a source, which
// takes it back; a device is in service when there is none.
type service struct {
	mu  sync.Mutex // Guards what follows, and the order in which the scheduler is told.
	out map[place]map[string]string

	ended bool // nothing is brought back any more
}

// place is a device: an index of Backend.pools, and one of the pool's devices.
type place struct{ pool, device int }

// OutOfService takes a device out of service for a reason of a source: what it has of
// batches is dropped without a word, and the scheduler, which is told, queues it again.
func (b *Backend) OutOfService(pool, device int, source, why string) {
	b.service.mu.Lock()
	defer b.service.mu.Unlock()
	at := place{pool, device}
	reasons := b.service.out[at]
	if reasons == nil {
		reasons = map[string]string{}
		if b.service.out == nil {
			b.service.out = map[place]map[string]string{}
		}
		b.service.out[at] = reasons
	}
	before := len(reasons)
	reasons[source] = why
	if before > 0 {
		return
	}
	b.pools[pool].executors[device].Suspend()
	b.metrics.out.WithLabelValues(b.pools[pool].doc.DeviceType).Inc()
	b.log.Warn().Str("pool", b.pools[pool].doc.DeviceType).Int("device", device).Str("cause", why).Msg("device out of service: its batches run elsewhere")
	b.tellService(at)
}

// InService takes a source's reason back.
func (b *Backend) InService(pool, device int, source string) {
	b.service.mu.Lock()
	defer b.service.mu.Unlock()
	b.inService(place{pool, device}, source)
}

// inService is InService. Caller holds the service's mu.
func (b *Backend) inService(at place, source string) {
	reasons := b.service.out[at]
	if _, there := reasons[source]; !there {
		return
	}
	if delete(reasons, source); len(reasons) > 0 {
		return
	}
	delete(b.service.out, at)
	p := b.pools[at.pool]
	p.executors[at.device].Resume()
	b.metrics.out.WithLabelValues(p.doc.DeviceType).Dec()
	b.log.Info().Str("pool", p.doc.DeviceType).Int("device", at.device).Msg("device in service again")
	b.tellService(at)
}

// heldBeside reports whether there is a reason of another source.
func (s *service) heldBeside(at place, source string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.out[at])
	if _, own := s.out[at][source]; own {
		n--
	}
	return n > 0
}

// tellService tells all schedulers how it is with a device. Caller holds the service's mu.
func (b *Backend) tellService(at place) {
	for _, u := range b.uplinks {
		if l := u.link.Load(); l != nil {
			b.service.tell(*l, at)
		}
	}
}

// tellAll tells a scheduler that has just admitted this backend what is out of service: it
// takes all devices to work.
func (s *service) tellAll(l transport.Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.out {
		s.tell(l, at)
	}
}

// tell says how it is with a device. Caller holds mu.
func (s *service) tell(l transport.Link, at place) {
	doc := catalog.Service{Pool: at.pool, Device: at.device, Works: len(s.out[at]) == 0}
	var all []string
	for source, why := range s.out[at] {
		all = append(all, fmt.Sprintf("%s: %s", source, why))
	}
	doc.Why = strings.Join(all, "; ")
	transport.SendDoc(l, wire.DocService, doc)
}
