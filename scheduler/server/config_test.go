package server

import (
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Spans are taken as they are given: their defaults are the configuration's.
func TestZeroSpansAreZero(t *testing.T) {
	c := Config{Listen: []string{"inproc:s"}, Network: loopback.New()}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	if c.Margin != 0 || c.Lead != 0 || c.DelayMin != 0 || c.DelayMax != 0 {
		t.Errorf("margin %v, lead %v, delays %v to %v: none was given", c.Margin, c.Lead, c.DelayMin, c.DelayMax)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.Margin = -1 }, func(c *Config) { c.Lead = -mono.Second }, func(c *Config) { c.DelayMin = -1 },
	} {
		c := Config{Listen: []string{"inproc:s"}, Network: loopback.New()}
		change(&c)
		if err := c.complete(); err == nil || !strings.Contains(err.Error(), "must not be negative") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// What an engine would refuse is refused when the server starts, not when a backend comes.
func TestEngineLimitsAreChecked(t *testing.T) {
	for what, change := range map[string]func(*Config){
		"10001":       func(c *Config) { c.ModelsMax = 10001 },
		"-1 GPUs":     func(c *Config) { c.GPUsMax = -1 },
		"20000 GPUs":  func(c *Config) { c.GPUsMax = 20000 },
		"-2 backends": func(c *Config) { c.BackendsMax = -2 },
		"tuner share": func(c *Config) { c.TunerShare = 2 },
		"65 model":    func(c *Config) { c.ModelLoops, c.PoolsMax = 65, 1 },
		"-1 requests": func(c *Config) { c.RequestsMax = -1 },
	} {
		c := Config{Listen: []string{"inproc:s"}, Network: loopback.New()}
		change(&c)
		if err := c.complete(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What the engine does not take leaves nothing behind: no route, no seat.
func TestEngineRefuses(t *testing.T) {
	s, n := newServer(t, nil)
	backendPeer(t, n, "b", 1, "m")
	s.mu.Lock()
	defer s.mu.Unlock()
	good, bad := spec("x"), spec("y")
	bad.Profile = catalog.Profile{}
	for id, m := range map[wire.ModelID]*catalog.ModelSpec{engine.ModelIDsMax: &good, 7: &bad} {
		s.changeModel(&members.Effect{Kind: members.AddModel, Model: id, Spec: m})
		if s.models[id].pool != nil {
			t.Errorf("model %s has a route", m.Name)
		}
		s.changeModel(&members.Effect{Kind: members.RemoveModel, Model: id})
	}
	p, b := s.pools[0], s.backendOf(t, "b")
	other, err := p.engine.AddGPU(5, 0) // a life that the server does not know of
	if err != nil {
		t.Fatal(err)
	}
	p.engine.RemoveGPU(other)
	g := p.grow(5)
	if err := s.seatGPU(b, p, g, 0, 0, 0); err == nil || g.seat.Load() != nil || p.alive.Load() != 1 || len(b.seats) != 1 {
		t.Errorf("%v; seat %+v, %d alive, %d seats of the backend", err, g.seat.Load(), p.alive.Load(), len(b.seats))
	}
	if err := s.seatGPU(b, p, g, 0, 0, 0); err != nil || g.seat.Load() == nil || p.alive.Load() != 2 || len(b.seats) != 2 {
		t.Errorf("%v; seat %+v, %d alive, %d seats of the backend", err, g.seat.Load(), p.alive.Load(), len(b.seats))
	}
}
