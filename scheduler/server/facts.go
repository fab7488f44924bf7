package server

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/sampled"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	// factsRest is between two looks: what changes meanwhile is told together.
	factsRest = 100 * time.Millisecond
	// ratesEvery is how often rates, needs and counts are told.
	ratesEvery = time.Second
	// factsMost is about how many models of devices a document tells of, a hundred bytes each.
	factsMost = 4096
	// ratesMost is how many models' rates are told at a look: of more in turns, for reading what ten
	// thousand are told each second costs a controller 2 % of a processor.
	ratesMost = 2048
)

// controllers are the links of the control plane's, and the goroutine that tells them facts.
type controllers struct {
	wake     chan struct{}
	done     chan struct{}
	refusals *sampled.Log[refusedOrder]

	// Guarded by Server.mu.
	all              map[members.Conn]*controller
	carried, refused uint64 // orders
	looks            uint64 // at rates
	looked           mono.Time
	fresh            []wire.ModelID // models with something new that are told of at the last look
	turn             int            // the model that is first at the next
}

func newControllers(log zerolog.Logger) controllers {
	return controllers{refusals: newRefusedOrders(log), wake: make(chan struct{}, 1), done: make(chan struct{}), all: map[members.Conn]*controller{}}
}

// look makes the goroutine look whether anybody knows less than there is.
func (c *controllers) look() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// tellControllers is the goroutine.
func (s *Server) tellControllers() {
	c := &s.controllers
	defer close(c.done)
	second := time.NewTicker(ratesEvery)
	defer second.Stop()
	for {
		rates := false
		select {
		case <-s.stop:
			return
		case <-second.C:
			rates = true
		case <-c.wake:
		}
		if s.tellFacts(rates) {
			c.look() // someone's link was full
		}
		select {
		case <-s.stop:
			return
		case <-time.After(factsRest):
		}
	}
}

// tellFacts brings all controllers up to date; true when somebody's link could not take it all.
func (s *Server) tellFacts(rates bool) (behind bool) {
	s.mu.Lock()
	if s.closed || s.group != nil && (!s.leads.Load() || !s.group.told) { // of a spare nobody asks what it has
		s.mu.Unlock()
		return false
	}
	if rates && len(s.controllers.all) > 0 {
		s.lookAtRates(mono.Now())
	}
	all := slices.Collect(maps.Values(s.controllers.all))
	s.mu.Unlock()
	for _, c := range all {
		if !s.tellController(c) {
			behind = true
		}
	}
	return behind
}

// tellController sends one all that it does not know, or as much as its link takes. Documents are
// written and sent without the lock: of a large cluster they are many.
func (s *Server) tellController(c *controller) bool {
	for {
		facts, rates := s.factsFor(c)
		if facts == nil {
			return true
		}
		for i := range facts {
			if sent, ok := s.sendFacts(c, &facts[i]); !sent {
				return ok // rates are told anew, the others follow
			}
			c.known, c.behind = facts[i].Serial, facts[i].More
		}
		c.rates = rates
	}
}

// factsFor are a controller's next documents, and the look at rates that it knows with them; nil:
// it knows all.
func (s *Server) factsFor(c *controller) ([]catalog.Facts, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.behind || c.known < s.cluster.FactsSerial() {
		facts := s.cluster.Facts(c.known, factsMost)
		for i := range facts.Models {
			s.rateOf(&facts.Models[i])
		}
		for i := range facts.SubClusters {
			s.busyOf(&facts.SubClusters[i])
		}
		return []catalog.Facts{facts}, c.rates
	}
	if c.rates == s.controllers.looks {
		return nil, c.rates
	}
	facts := s.ratesNow()
	for i := range facts {
		facts[i].Serial = c.known
	}
	return facts, s.controllers.looks
}

// sendFacts sends a document; ok is false where the link takes it later.
func (s *Server) sendFacts(c *controller, facts *catalog.Facts) (sent, ok bool) {
	facts.Epoch = uint64(s.epoch)
	payload, err := json.Marshal(facts)
	if err == nil {
		err = c.link.SendPayload((&wire.Doc{Type: wire.DocFacts}).Append(nil, len(payload)), payload, nil)
	}
	switch {
	case errors.Is(err, transport.ErrFull):
		return false, false
	case err != nil:
		c.link.Close(err)
		return false, true
	}
	return true, true
}

// lookAtRates takes the second's counts.
func (s *Server) lookAtRates(now mono.Time) {
	c := &s.controllers
	passed := max(now.Sub(c.looked), mono.Millisecond)
	c.looked = now
	c.looks++
	for id := range s.models {
		if m := &s.models[id]; m.count != nil && m.count.second(passed) {
			m.count.fresh = true
		}
	}
	s.takeTurns()
	for p := range s.livePools {
		p.rate = 0
		busy := int64(0)
		for _, g := range *p.gpus.Load() {
			busy += g.busy.Load()
		}
		if n := p.alive.Load(); n > 0 {
			p.share = min(1, float64(busy-p.busyTold)/float64(passed)/float64(n))
		}
		p.busyTold = busy
		p.lookAtPages(passed)
	}
	for id := range s.models {
		if m := &s.models[id]; m.pool != nil {
			m.pool.rate += m.count.rate
		}
	}
}

// takeTurns says which models are told of.
func (s *Server) takeTurns() {
	c := &s.controllers
	c.fresh = c.fresh[:0]
	for range s.models {
		if c.turn++; c.turn >= len(s.models) {
			c.turn = 0
		}
		m := &s.models[c.turn]
		if m.count == nil || m.pool == nil || !m.count.fresh {
			continue
		}
		m.count.fresh = false
		if c.fresh = append(c.fresh, wire.ModelID(c.turn)); len(c.fresh) == ratesMost {
			return
		}
	}
}

// ratesNow is the document of what the last look has found.
func (s *Server) ratesNow() []catalog.Facts {
	doc := catalog.Facts{}
	for p := range s.livePools {
		f := catalog.SubClusterFacts{Name: p.name, DeviceType: p.deviceType, Planned: p.name != "", GPUs: int(p.alive.Load()), Models: p.models}
		s.busyOf(&f)
		doc.SubClusters = append(doc.SubClusters, f)
	}
	for _, id := range s.controllers.fresh {
		m := &s.models[id]
		if m.pool == nil || m.leaving != nil {
			continue
		}
		f := catalog.ModelFacts{Key: m.spec.Key(), DeviceType: m.pool.deviceType, In: m.pool.name, Set: s.cluster.SetOf(m.spec.Key())}
		m.facts(&f)
		doc.Models = append(doc.Models, f)
	}
	return []catalog.Facts{doc}
}

// facts adds rate, need and counts.
func (m *served) facts(f *catalog.ModelFacts) {
	f.Rate, f.Served, f.Late, f.Dropped, f.Waiting = m.count.rate, m.count.told.served, m.count.told.late, m.count.told.dropped, m.count.told.waiting()
	if f.Rate == 0 {
		return
	}
	if p, err := profile.FromDoc(m.spec.Profile, m.spec.MaxBatch); err == nil {
		f.Need = batching.Need(p, m.spec.SLO, f.Rate/1e9)
	}
}

// rateOf finds a model by its key.
func (s *Server) rateOf(f *catalog.ModelFacts) {
	if id, ok := s.cluster.ModelID(f.Key); ok && int(id) < len(s.models) && s.models[id].pool != nil {
		s.models[id].facts(f)
	}
}

// busyOf adds what the last look found of a sub-cluster.
func (s *Server) busyOf(f *catalog.SubClusterFacts) {
	for p := range s.livePools {
		if p.deviceType == f.DeviceType && p.name == f.Name {
			f.Rate, f.Busy, f.Need = p.rate, p.share, p.engine.Stats().Need
			if p.paged != nil {
				now := p.pagesTold.facts
				f.Paged = &now
			}
		}
	}
}
