package server

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// refusing is a link that takes nothing, for one reason.
type refusing struct {
	transport.Link
	role  wire.Role
	why   error
	cause error // of its end
}

func (l *refusing) Peer() wire.Hello                         { return wire.Hello{Role: l.role, Name: "slow", Incarnation: 7} }
func (l *refusing) Send([]byte) error                        { return l.why }
func (l *refusing) SendPayload([]byte, []byte, func()) error { return l.why }
func (l *refusing) Close(cause error)                        { l.cause = cause }

// total is a counter's value, over all labels but those that are given.
func total(t *testing.T, r *prometheus.Registry, name, label string) (sum float64) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if label == "" || m.GetLabel()[0].GetValue() == label {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// What a peer must hear is not lost in silence where its link is full: the link ends, and is
// counted, so that the peer answers its requests and hears the rest with its next admission.
func TestFullLinksEnd(t *testing.T) {
	for name, c := range map[string]struct {
		role wire.Role
		send func(s *Server, l *refusing)
	}{
		"a refusal at once": {wire.RoleFrontend, func(s *Server, l *refusing) {
			s.send(l, (&wire.Answer{Request: 1, Reason: wire.ReasonFull}).Append(nil))
		}},
		"answers of a model loop": {wire.RoleFrontend, func(s *Server, l *refusing) {
			k := newSink(s, &pool{}, 1)
			p := k.loops[0].to(l, nil)
			p.frames = (&wire.Answer{Request: 1, Reason: wire.ReasonDeadline}).Append(p.frames)
			k.Flush(0)
		}},
		"another leads, to frontends": {wire.RoleFrontend, func(s *Server, l *refusing) {
			s.mu.Lock()
			defer s.mu.Unlock()
			f := &frontend{server: s, link: l}
			f.admitted.Store(true)
			s.frontends[1<<20] = f
			s.tellLeads()
			delete(s.frontends, 1<<20)
		}},
		"another leads, to controllers": {wire.RoleController, func(s *Server, l *refusing) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.controllers.all[1<<20] = &controller{server: s, link: l}
			s.tellLeads()
			delete(s.controllers.all, 1<<20)
		}},
		"the first word to another scheduler": {wire.RoleScheduler, func(s *Server, l *refusing) {
			a := &place{group: s.group, index: 1, address: "inproc:other"}
			a.isUp(l)
			s.group.mu.Lock()
			defer s.group.mu.Unlock()
			if len(s.group.byNumber) > 0 {
				t.Error("the link counts as one that is up")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			s, _ := newServer(t, func(cfg *Config) {
				cfg.Metrics, cfg.Group = registry, []string{"inproc:scheduler", "inproc:other"}
			})
			full := &refusing{role: c.role, why: transport.ErrFull}
			c.send(s, full)
			if !errors.Is(full.cause, transport.ErrFull) {
				t.Errorf("the link: %v, want it closed as full", full.cause)
			}
			if n := total(t, registry, "symphony_full_links_total", roleName(c.role)); n != 1 {
				t.Errorf("%v links are counted, want 1", n)
			}
			c.send(s, &refusing{role: c.role, why: transport.ErrClosed})
			if n := total(t, registry, "symphony_full_links_total", ""); n != 1 {
				t.Errorf("%v links are counted, one that had ended with them", n)
			}
		})
	}
}

// Labels are worth no link: that they were refused is counted, and the frontend asks again. A link
// that could never take them ends.
func TestLabelsForAFullFrontend(t *testing.T) {
	registry := prometheus.NewRegistry()
	s, _ := newServer(t, func(cfg *Config) { cfg.Metrics = registry })
	doc, id, err := catalog.EncodeLabels([]string{"cat"})
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.labels.kept[id] = doc
	full, never := &refusing{why: transport.ErrFull}, &refusing{why: transport.ErrProtocol}
	s.wantLabels(mono.Now(), &frontend{server: s, link: full}, id)
	s.wantLabels(mono.Now(), &frontend{server: s, link: never}, id)
	if full.cause != nil || !errors.Is(never.cause, transport.ErrProtocol) {
		t.Errorf("the full link: %v; the other: %v", full.cause, never.cause)
	}
	s.mu.Unlock()
	n := total(t, registry, "symphony_labels_refused_total", "")
	s.mu.Lock()
	if n != 1 {
		t.Errorf("%v refusals are counted, want 1", n)
	}
}

// A frontend that reads nothing: once its link is full of refusals it ends, instead of the next ones
// being lost, and the frontend is served when it comes again.
func TestFrontendThatDoesNotRead(t *testing.T) {
	registry := prometheus.NewRegistry()
	s, n := newServer(t, func(cfg *Config) { cfg.Metrics = registry })
	deaf := newPeer(t)
	deaf.gate = make(chan struct{})
	open := sync.OnceFunc(func() { close(deaf.gate) })
	defer open()
	deaf.dial(n, wire.RoleFrontend, "f")
	transport.SendDoc(deaf.link, wire.DocFrontend, catalog.FrontendInfo{Name: "f", Instance: 1, Address: "inproc:deaf"})
	until(t, "it is admitted", func() bool { return s.peers.Load() == 1 })
	const most = 1 << 20 // of which a quarter, as refusals, fill transport.Options.SendBuffer
	sent, err := 0, error(nil)
	for end := time.Now().Add(budget.Std()); sent < most && !errors.Is(err, transport.ErrClosed) && time.Now().Before(end); {
		m := wire.Submit{Request: wire.RequestID(sent + 1), Model: 77, Deadline: mono.Now().Add(budget)}
		if err = deaf.link.Send(m.Append(nil)); err == nil {
			sent++
		}
	}
	if !errors.Is(err, transport.ErrClosed) {
		t.Fatalf("%d refusals were sent or lost, and the link is up (%v)", sent, err)
	}
	open()
	deaf.wait("it hears of the end", func() bool { return deaf.closed != nil })
	if n := total(t, registry, "symphony_full_links_total", "frontend"); n != 1 {
		t.Errorf("%v links are counted, want 1", n)
	}
	f := frontendPeer(t, n)
	if err := f.link.Send((&wire.Submit{Request: 5, Model: 77, Deadline: mono.Now().Add(budget)}).Append(nil)); err != nil {
		t.Fatal(err)
	}
	f.wait("a refusal", func() bool { return slices.Equal(f.answers[5], []wire.Reason{wire.ReasonUnknownModel}) })
}
