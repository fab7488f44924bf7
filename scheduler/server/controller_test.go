package server

import (
	"testing"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A controller that says that it goes has left, which is no warning; one that is just gone is away.
func TestControllerLeaves(t *testing.T) {
	var log lines
	_, n := newServer(t, func(c *Config) { c.Logger = zerolog.New(&log) })
	polite := newBoss(t, n)
	if err := polite.link.Send((&wire.Leave{}).Append(nil)); err != nil {
		t.Fatal(err)
	}
	polite.link.Close(nil)
	polite.wait("it has left", func() bool { return log.count("controller left") == 1 })
	if log.count("controller away") != 0 {
		t.Error("it is warned of")
	}
	rude := newBoss(t, n)
	rude.link.Close(nil)
	rude.wait("it is away", func() bool { return log.count("controller away") == 1 })
}

// A backend that ends while it begins drains as soon as it is admitted, and has left then.
func TestBackendLeavesEarly(t *testing.T) {
	var log lines
	s, n := newServer(t, func(c *Config) { c.Logger = zerolog.New(&log) })
	b := dial(t, n, wire.RoleBackend, "b")
	if err := b.link.Send((&wire.Leave{Epoch: s.Epoch()}).Append(nil)); err != nil {
		t.Fatal(err)
	}
	b.introduce(catalog.BackendInfo{Name: "b"}, "emulated", 1, []catalog.ModelSpec{spec("m")})
	b.wait("it drains", func() bool { return log.count("backend drains") == 1 })
	b.link.Close(nil)
	b.wait("it has left", func() bool { return log.count("backend left") == 1 })
	if log.count("backend lost") != 0 {
		t.Error("it is said to be lost")
	}
}
