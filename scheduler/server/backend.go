package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// backend is one backend's link: its reports come in here.
type backend struct {
	server *Server
	name   string

	// Owned by the receiving goroutine until admitted, then immutable.
	link     transport.Link
	admitted bool

	seats   []seated // Guarded by Server.mu.
	retired bool     // Guarded by Server.mu: it said that it drains.

	done wire.Done // Owned by the receiving goroutine: scratch.
}

// seated is a GPU of this backend.
type seated struct {
	pool *pool
	gpu  *gpu
	life engine.GPU
}

// Buffer implements transport.Handler.
func (b *backend) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// Receive implements transport.Handler.
func (b *backend) Receive(l transport.Link, m transport.Frame) {
	switch m.Kind {
	case wire.KindDone:
		b.onDone(l, m.Body)
	case wire.KindDoc:
		if err := b.onDoc(l, m); err != nil {
			b.server.refusals.Refused("backend "+b.name, err)
			refuse(l, err)
		}
	case wire.KindLeave:
		b.server.retire(b)
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
	if d.Epoch != b.server.epoch {
		return // of an order that an earlier scheduler gave
	}
	if w := b.server.cfg.Watch.Done; w != nil {
		w(d, l.Shift())
	}
	end := min(d.End, mono.Now()) // clocks are only so well aligned: nothing ends in the future
	if p := b.server.poolOf(d.Batch); p != nil {
		p.engine.Done(engine.Done{Batch: d.Batch, Start: min(d.Start, end), End: end, Fetch: d.Fetch, Ran: int(d.Ran)})
	}
}

func (b *backend) onDoc(l transport.Link, m transport.Frame) error {
	var d wire.Doc
	if err := d.Decode(m.Body); err != nil {
		return err
	}
	switch {
	case d.Type == wire.DocBackend && !b.admitted:
		info, err := catalog.DecodeBackendInfo(m.Payload)
		if err != nil {
			return err
		}
		return b.server.admitBackend(b, l, info)
	case d.Type == wire.DocProfile && b.admitted:
		var u catalog.ProfileUpdate
		if err := json.Unmarshal(m.Payload, &u); err != nil {
			return fmt.Errorf("ProfileUpdate: %w", err)
		}
		return b.server.updateProfile(u)
	}
	return fmt.Errorf("document %d is not expected of a backend now", d.Type)
}

// admitBackend seats the backend's devices, or says why not.
func (s *Server) admitBackend(b *backend, l transport.Link, info catalog.BackendInfo) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkBackend(info); err != nil {
		return err
	}
	if old := s.backends[info.Name]; old != nil {
		s.log.Warn().Str("backend", info.Name).Msg("a backend of this name registers again: it replaces the old link")
		s.unseat(old)
		old.link.Close(errors.New("replaced by a new link of the same name"))
	}
	b.name, b.link, b.admitted = info.Name, l, true
	s.backends[b.name] = b
	s.peers.Add(1)
	transport.SendDoc(l, wire.DocAdmitted, catalog.Admitted{Epoch: s.epoch, Backend: wire.BackendID(s.nextID)})
	s.nextID++
	for _, f := range s.frontends {
		_ = l.Send(s.memberFrame(f, true))
	}
	if err := s.joinPools(b, info.Pools); err != nil {
		s.unseat(b)
		delete(s.backends, b.name)
		b.admitted = false
		s.peers.Add(-1)
		return err
	}
	s.broadcastCatalogue()
	s.log.Info().Str("backend", b.name).Int("gpus", len(b.seats)).Msg("backend joined")
	return nil
}

// joinPools adds what the backend has. It hears of the models before its first GPU is
// there to be granted: an order of a model that it does not know it can only refuse.
func (s *Server) joinPools(b *backend, pools []catalog.Pool) error {
	for i := range pools {
		if err := s.joinModels(b, &pools[i]); err != nil {
			return err
		}
	}
	transport.SendDoc(b.link, wire.DocCatalogue, s.catalogue())
	for i := range pools {
		if err := s.joinGPUs(b, uint32(i), &pools[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkBackend finds what is wrong before anything is changed.
func (s *Server) checkBackend(info catalog.BackendInfo) error {
	if info.Name == "" || len(info.Pools) == 0 {
		return errors.New("BackendInfo: a backend needs a name and at least one pool")
	}
	if len(s.backends) >= s.cfg.BackendsMax {
		return fmt.Errorf("%d backends are connected already", s.cfg.BackendsMax)
	}
	seen := map[string]bool{}
	for i := range info.Pools {
		p := &info.Pools[i]
		if p.DeviceType == "" || p.Devices < 1 || p.Devices > 4096 || seen[p.DeviceType] {
			return fmt.Errorf("pool %q with %d devices: each pool needs a device type of its own and 1 to 4096 devices", p.DeviceType, p.Devices)
		}
		seen[p.DeviceType] = true
		if err := s.checkPool(info.Name, p); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) checkPool(name string, p *catalog.Pool) error {
	keys, err := poolKeys(p)
	if err != nil {
		return err
	}
	for i := range p.Models {
		m := &p.Models[i]
		if _, err := modelConfig(m, s.cfg.QueueMax); err != nil {
			return fmt.Errorf("pool %s: %w", p.DeviceType, err)
		}
		if id, ok := s.models[m.Key()]; ok && s.entries[id].DeviceType != p.DeviceType {
			return fmt.Errorf("model %s is served on %s already; a model belongs to one pool", m.Key(), s.entries[id].DeviceType)
		}
	}
	if len(s.models)+len(keys) > s.cfg.ModelsMax {
		return fmt.Errorf("more than %d models", s.cfg.ModelsMax)
	}
	have := s.pools[p.DeviceType]
	if have == nil {
		if len(s.pools) >= s.cfg.PoolsMax {
			return fmt.Errorf("more than %d device types", s.cfg.PoolsMax)
		}
		return nil
	}
	if others := s.othersIn(have, name); others == "" {
		return nil
	} else if missing, extra := difference(have.keys, keys); len(missing)+len(extra) > 0 {
		return fmt.Errorf("pool %s: every backend must have the same models as %s; missing here: [%s], only here: [%s]",
			p.DeviceType, others, strings.Join(missing, " "), strings.Join(extra, " "))
	}
	return nil
}

// othersIn names one other backend with GPUs in the pool; "" if none.
func (s *Server) othersIn(p *pool, name string) string {
	for _, b := range s.backends {
		if b.name == name {
			continue
		}
		for _, seat := range b.seats {
			if seat.pool == p {
				return b.name
			}
		}
	}
	return ""
}

// unseat takes the backend's GPUs away; what ran there is queued again.
func (s *Server) unseat(b *backend) {
	for _, seat := range b.seats {
		seat.gpu.seat.Store(nil)
		seat.gpu.left = mono.Now()
		seat.gpu.undone.Store(0)
		seat.pool.engine.RemoveGPU(seat.life)
	}
	b.seats = nil
}

// retire lets the backend finish what it has and gives it nothing more.
func (s *Server) retire(b *backend) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.retired = true
	for _, seat := range b.seats {
		seat.pool.engine.RetireGPU(seat.life)
	}
	s.log.Info().Str("backend", b.name).Msg("backend drains")
}

// Closed implements transport.Handler.
func (b *backend) Closed(_ transport.Link, err error) {
	s := b.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if !b.admitted {
		return
	}
	s.peers.Add(-1)
	gpus := len(b.seats)
	if s.backends[b.name] == b {
		delete(s.backends, b.name)
	}
	if s.closed {
		return
	}
	s.unseat(b)
	s.broadcastCatalogue()
	if b.retired {
		s.log.Info().Str("backend", b.name).Int("gpus", gpus).Msg("backend left")
		return
	}
	s.log.Warn().Str("backend", b.name).Int("gpus", gpus).AnErr("cause", err).Msg("backend lost: what ran there is queued again")
}

func (s *Server) updateProfile(u catalog.ProfileUpdate) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ok := s.models[u.Model]
	if !ok {
		return fmt.Errorf("profile of unknown model %q", u.Model)
	}
	e := &s.entries[id]
	p, err := profile.FromDoc(u.Profile, e.Spec.MaxBatch)
	if err != nil {
		return fmt.Errorf("profile of model %s: %w", u.Model, err)
	}
	e.Spec.Profile = u.Profile
	s.pools[e.DeviceType].engine.SetProfile(id, p)
	return nil
}
