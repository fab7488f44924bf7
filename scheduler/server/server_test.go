package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

func TestCatalogueFollowsMembership(t *testing.T) {
	s, n := newServer(t, nil)
	f := frontendPeer(t, n)
	if f.admitted.Epoch != s.Epoch() {
		t.Errorf("epoch %d, want %d", f.admitted.Epoch, s.Epoch())
	}
	b := backendPeer(t, n, "b", 3, "m")
	f.wait("the model is ready", func() bool { e := f.entry("m"); return e.Ready && e.GPUs == 3 })
	b.wait("the backend knows the frontend", func() bool {
		return len(b.members) == 1 && b.members[0].Up && strings.HasPrefix(b.members[0].Address, "inproc:f")
	})
	f.link.Close(nil)
	b.wait("the frontend's end", func() bool { return len(b.members) == 2 && !b.members[1].Up })
	g := frontendPeer(t, n)
	b.link.Close(nil)
	g.wait("no backend", func() bool { e := g.entry("m"); return e.Spec.Name == "m" && !e.Ready && e.GPUs == 0 })
}

func TestRequestsAreServedAndAnswered(t *testing.T) {
	_, n := newServer(t, nil)
	b := backendPeer(t, n, "b", 2, "m")
	f := frontendPeer(t, n)
	f.wait("ready", func() bool { return f.entry("m").Ready })
	for i := range 40 {
		f.submit(wire.RequestID(i+1), 0, mono.Second) // time enough on a busy machine
	}
	f.submit(100, 0, mono.Millisecond)     // hopeless
	f.submit(101, 77, 50*mono.Millisecond) // unknown
	f.wait("drops", func() bool { return len(f.answers[100]) == 1 && len(f.answers[101]) == 1 })
	if f.answers[100][0] != wire.ReasonDeadline || f.answers[101][0] != wire.ReasonUnknownModel {
		t.Errorf("answers %v and %v", f.answers[100], f.answers[101])
	}
	b.wait("all served", func() bool { return len(b.answers) == 40 })
	b.mu.Lock()
	defer b.mu.Unlock()
	if items := b.batches[0].Items; len(items) < 8 || items[0].Frontend != f.admitted.Frontend {
		t.Errorf("first batch has %d items of frontend %d", len(items), items[0].Frontend)
	}
}

// A backend that comes back under its name has its GPU ids again; one with
// another model set than its pool's is refused, with the difference, and so is
// one that takes the name of another.
func TestBackendsIdentity(t *testing.T) {
	s, n := newServer(t, nil)
	a := backendPeer(t, n, "a", 2, "m")
	backendPeer(t, n, "b", 2, "m")
	f := frontendPeer(t, n)
	f.wait("both are there", func() bool { return f.entry("m").GPUs == 4 })
	other := backendPeer(t, n, "c", 1, "m", "extra")
	if !strings.Contains(other.admitted.Error, "extra") || !strings.Contains(other.admitted.Error, "same models") {
		t.Errorf("a backend with another model set: %q", other.admitted.Error)
	}
	twin := backendPeer(t, n, "a", 2, "m")
	if !strings.Contains(twin.admitted.Error, "connected already") || a.closed != nil {
		t.Errorf("a second backend of one name: %q; the first: %v", twin.admitted.Error, a.closed)
	}
	a.link.Close(nil)
	f.wait("a has left", func() bool { return f.entry("m").GPUs == 2 })
	backendPeer(t, n, "a", 2, "m")
	f.wait("a is back", func() bool { return f.entry("m").GPUs == 4 })
	if got := len(*s.pools[0].gpus.Load()); got != 4 {
		t.Errorf("%d GPU ids were given, want 4", got)
	}
}

// The same process on another link replaces the link, and only it.
func TestADialAnewReplacesTheLink(t *testing.T) {
	s, n := newServer(t, nil)
	f := frontendPeer(t, n)
	info := catalog.BackendInfo{Name: "a", Instance: 7, Configured: 1}
	m := spec("m")
	m.MaxBatch = 1 // a request is not deferred: it has all of its time
	var old *peer
	for round := range 3 {
		p := dial(t, n, wire.RoleBackend, "a")
		p.introduce(info, "emulated", 2, []catalog.ModelSpec{m})
		p.wait("admission", func() bool { return p.admitted != nil && p.admitted.Error == "" })
		if old != nil {
			old.wait("the old link is closed", func() bool { return old.closed != nil })
		}
		s.mu.Lock() // it was told of its admission before its GPUs are seated; what the frontend knows may be of before
		if gpus := s.pools[0].alive.Load(); gpus != 2 {
			t.Errorf("round %d: %d GPUs are seated, want 2", round, gpus)
		}
		s.mu.Unlock()
		f.wait("two GPUs", func() bool { return f.entry("m").GPUs == 2 })
		f.submit(wire.RequestID(round+1), 0, 10*mono.Second)
		p.wait("it is served", func() bool { return len(p.answers) == 1 })
		old = p
	}
}

func TestGarbageIsRefused(t *testing.T) {
	_, n := newServer(t, nil)
	for name, send := range map[string]func(p *peer){
		"no name": func(p *peer) { transport.SendDoc(p.link, wire.DocBackend, catalog.BackendInfo{}) },
		"no pool": func(p *peer) { transport.SendDoc(p.link, wire.DocBackend, catalog.BackendInfo{Name: "x"}) },
		"no JSON": func(p *peer) {
			_ = p.link.SendPayload((&wire.Doc{Type: wire.DocBackend}).Append(nil, 3), []byte("{{{"), nil)
		},
		"no digest": func(p *peer) {
			transport.SendDoc(p.link, wire.DocBackend, catalog.BackendInfo{Name: "x", Pools: []catalog.Pool{{DeviceType: "t", Devices: 1, Models: "m"}}})
		},
		"a list that nobody asked for": func(p *peer) { p.register("x", 1, "m"); transport.SendDoc(p.link, wire.DocModels, catalog.ModelList{}) },
		"labels that nobody asked for": func(p *peer) { p.register("x", 1, "m"); transport.SendDoc(p.link, wire.DocLabels, []string{"a"}) },
		"bad profile":                  func(p *peer) { p.registerSpec(func(m *catalog.ModelSpec) { m.Profile.Alpha = -1 }) },
		"bad SLO":                      func(p *peer) { p.registerSpec(func(m *catalog.ModelSpec) { m.SLO = 0 }) },
		"bad policy":                   func(p *peer) { p.registerSpec(func(m *catalog.ModelSpec) { m.DropPolicy = "dice" }) },
	} {
		p := dial(t, n, wire.RoleBackend, "x")
		send(p)
		p.wait(name+" is refused", func() bool { return p.closed != nil && p.admitted != nil && p.admitted.Error != "" })
	}
	p := dial(t, n, wire.RoleFrontend, "x")
	p.submit(1, 0, mono.Second) // before the admission
	p.wait("a submit of a stranger ends the link", func() bool { return p.closed != nil })
}

func (p *peer) registerSpec(change func(*catalog.ModelSpec)) {
	m := spec("m")
	change(&m)
	p.introduce(catalog.BackendInfo{Name: "x"}, "emulated", 1, []catalog.ModelSpec{m})
}

// The requests of a lost backend run on the other one.
func TestLostBackendIsReplaced(t *testing.T) {
	replaceBackend(t, func(doomed *peer) { doomed.link.Close(nil) })
}

// So do those that reach a backend that drains too late: it ends without a word of them.
func TestDrainedBackendIsReplaced(t *testing.T) {
	replaceBackend(t, func(doomed *peer) {
		_ = doomed.link.Send((&wire.Leave{}).Append(nil))
		doomed.link.Close(nil)
	})
}

func replaceBackend(t *testing.T, end func(*peer)) {
	t.Helper()
	defer goleak.VerifyNone(t)
	s, n := newServer(t, nil)
	doomed := backendPeer(t, n, "doomed", 1, "m")
	doomed.mu.Lock()
	doomed.mute = true
	doomed.mu.Unlock()
	b := backendPeer(t, n, "b", 2, "m")
	f := frontendPeer(t, n)
	f.wait("ready", func() bool { return f.entry("m").GPUs == 3 })
	for i := range 10 {
		f.submit(wire.RequestID(i+1), 0, 30*mono.Second)
	}
	// Ten are fewer than fit: they wait for frontrun. A full batch runs at once.
	for i := range 16 {
		f.submit(wire.RequestID(i+101), 0, 30*mono.Second)
	}
	doomed.wait("it has a batch", func() bool { return len(doomed.batches) > 0 })
	end(doomed)
	s.Hasten() // the ten, too: not within the last milliseconds of their time
	b.wait("all run on the other", func() bool { return len(b.answers) == 26 })
	for _, p := range []*peer{b, f} {
		p.mu.Lock()
		for id, a := range p.answers {
			if len(a) != 1 || a[0] != wire.ReasonNone {
				t.Errorf("request %d: answers %v", id, a)
			}
		}
		p.mu.Unlock()
	}
	for _, p := range []*peer{b, f} {
		p.link.Close(nil)
	}
	s.Close()
}

// A backend whose device hangs is given up although its link lives.
func TestOverdueBackendIsClosed(t *testing.T) {
	_, n := newServer(t, nil)
	b := backendPeer(t, n, "b", 1, "m")
	b.mu.Lock()
	b.mute = true
	b.mu.Unlock()
	f := frontendPeer(t, n)
	f.wait("ready", func() bool { return f.entry("m").Ready })
	for i := range 16 { // a full batch runs at once, however busy the machine is
		f.submit(wire.RequestID(i+1), 0, mono.Second)
	}
	b.wait("its link is closed", func() bool { return b.closed != nil })
	f.wait("the requests are answered", func() bool { return len(f.answers) == 16 })
}

// Of a backend with two devices the one that hangs is taken out of service, and tried again;
// the other one runs what it had.
func TestOverdueDeviceIsTakenOut(t *testing.T) {
	_, n := newServer(t, func(c *Config) { c.reportGrace = mono.Second })
	b := backendPeer(t, n, "b", 2, "m")
	b.mu.Lock()
	b.deaf = map[uint32]bool{0: true}
	b.mu.Unlock()
	f := frontendPeer(t, n)
	f.wait("ready", func() bool { return f.entry("m").GPUs == 2 })
	for i := range 16 {
		f.submit(wire.RequestID(i+1), 0, 10*mono.Second)
	}
	f.wait("one GPU", func() bool { return f.entry("m").GPUs == 1 })
	b.wait("the other runs the batch", func() bool { return len(b.answers) == 16 })
	b.mu.Lock()
	b.deaf = nil
	b.mu.Unlock()
	f.wait("both GPUs", func() bool { return f.entry("m").GPUs == 2 })
	if b.closed != nil || len(f.answers) != 0 {
		t.Errorf("link %v, answers %v", b.closed, f.answers)
	}
}

// A doubt doubles the pause each time, is forgotten after a while, also when the GPU does not
// come back, and does not pass to whoever has the GPU's id next.
func TestDoubtsEnd(t *testing.T) {
	s, n := newServer(t, nil)
	b := backendPeer(t, n, "b", 2, "m")
	s.mu.Lock()
	defer s.mu.Unlock()
	g, now := s.backendOf(t, "b").seats[0].gpu, mono.Now()
	out := func(d mono.Dur) {
		t.Helper()
		s.doubts(now, g)
		s.carryOut(&s.effects)
		if p := s.doubted[g].pause; p != d || g.seat.Load() != nil {
			t.Errorf("a pause of %v, want %v; seat %+v", p, d, g.seat.Load())
		}
		now = now.Add(d)
		s.lookForReports(now)
		if g.seat.Load() == nil {
			t.Errorf("it is not tried again after %v", d)
		}
	}
	out(doubtFirst)
	out(2 * doubtFirst)
	g.name = "another/0"
	out(doubtFirst)
	s.doubts(now, g)
	s.carryOut(&s.effects)
	s.mu.Unlock()
	b.link.Close(nil)
	for gone := false; !gone; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		gone = len(s.backends) == 0
		s.mu.Unlock()
	}
	s.mu.Lock()
	for range 3 {
		now = now.Add(doubtMost)
		s.lookForReports(now)
	}
	if len(s.doubted) != 0 {
		t.Errorf("doubted still: %+v", s.doubted[g])
	}
}

func TestDrain(t *testing.T) {
	s, n := newServer(t, nil)
	b := backendPeer(t, n, "b", 1, "m")
	f := frontendPeer(t, n)
	f.wait("ready", func() bool { return f.entry("m").Ready })
	f.submit(1, 0, mono.Second)
	for s.open() == 0 {
		time.Sleep(time.Millisecond)
	}
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(context.Background()) }()
	for !s.draining.Load() {
		time.Sleep(time.Millisecond)
	}
	f.submit(2, 0, 100*mono.Millisecond)
	f.wait("refused while draining", func() bool { return len(f.answers[2]) == 1 && f.answers[2][0] == wire.ReasonDraining })
	if err := <-drained; err != nil {
		t.Error(err)
	}
	// Served, or dropped where the machine was too busy to start it in time:
	// answered once.
	f.wait("the open request's answer", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.answers[1])+len(f.answers[1]) == 1
	})
}

// What the scheduler defers for half a minute is answered when it drains, not then.
func TestDrainRunsWhatWaits(t *testing.T) {
	s, n := newServer(t, nil)
	b := dial(t, n, wire.RoleBackend, "b")
	m := spec("m")
	m.SLO = 30 * mono.Second
	b.introduce(catalog.BackendInfo{Name: "b"}, "emulated", 1, []catalog.ModelSpec{m})
	f := frontendPeer(t, n)
	f.wait("ready", func() bool { return f.entry("m").Ready })
	f.submit(1, 0, 30*mono.Second)
	f.wait("it is queued", func() bool { // open counts orders, too: there may be some without it
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.pools[0].engine.Stats().Models[0].Used == 1
	})
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Drain(ctx); err != nil {
		t.Fatalf("after %v: %v", time.Since(begin), err)
	}
	b.wait("it ran", func() bool { return len(b.answers[1]) == 1 })
}

// Links that came and went are not remembered: each would hold its buffers.
func TestDeadLinksAreForgotten(t *testing.T) {
	s, n := newServer(t, nil)
	backendPeer(t, n, "b", 1, "m")
	for range 60 {
		f := frontendPeer(t, n)
		f.wait("ready", func() bool { return f.entry("m").Ready })
		f.submit(1, 0, mono.Microsecond) // hopeless: answered by the loop
		f.wait("an answer", func() bool { return len(f.answers[1]) == 1 })
		f.link.Close(nil)
		f.wait("closed", func() bool { return f.closed != nil })
	}
	s.Close() // the loop has ended: its memory may be looked at
	if kept := len(s.pools[0].sink.loops[0].pending); kept > pendingSpare+6 {
		t.Errorf("%d links are remembered after 60 came and went", kept)
	}
	if p := s.peers.Load(); p > 1 {
		t.Errorf("%d peers are counted, at most the backend is there", p)
	}
}

func TestConfigErrors(t *testing.T) {
	_, err := New(Config{ModelLoops: 64, PoolsMax: 16, DelayMin: 2, DelayMax: 1})
	for _, want := range []string{"no address", "no network", "model loops", "delay bound"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	_, n := newServer(t, nil)
	if _, err := New(Config{Listen: []string{"inproc:scheduler"}, Network: n}); err == nil {
		t.Error("two schedulers on one address")
	}
	var _ transport.Network = n
}

// A device that leaves service is no GPU until it is back; what it had is run elsewhere. Its
// backend stays, and says it of a device that it does not have at the cost of its link.
func TestDeviceOutOfService(t *testing.T) {
	_, n := newServer(t, func(c *Config) { c.reportGrace = 3600 * mono.Second }) // b reports nothing, and its word alone counts here
	f := frontendPeer(t, n)
	b := dial(t, n, wire.RoleBackend, "b")
	b.mute = true
	m := spec("m")
	m.MaxBatch = 1 // a request is not deferred: it has all of its time
	b.introduce(catalog.BackendInfo{Name: "b", Instance: 1, Configured: 1}, "emulated", 1, []catalog.ModelSpec{m})
	f.wait("ready", func() bool { return f.entry("m").GPUs == 1 })
	f.submit(1, 0, 10*mono.Second)
	b.wait("an order", func() bool { return len(b.batches) == 1 })
	other := dial(t, n, wire.RoleBackend, "other")
	other.introduce(catalog.BackendInfo{Name: "other", Instance: 2, Configured: 1}, "emulated", 1, []catalog.ModelSpec{m})
	f.wait("both", func() bool { return f.entry("m").GPUs == 2 })
	transport.SendDoc(b.link, wire.DocService, catalog.Service{Device: 0, Why: "lost"})
	f.wait("one GPU", func() bool { return f.entry("m").GPUs == 1 })
	other.wait("its batch runs elsewhere", func() bool { return len(other.answers[1]) == 1 })
	transport.SendDoc(b.link, wire.DocService, catalog.Service{Device: 0, Works: true})
	f.wait("both again", func() bool { return f.entry("m").GPUs == 2 })
	other.link.Close(nil)
	f.wait("the other's end", func() bool { return f.entry("m").GPUs == 1 })
	f.submit(2, 0, 10*mono.Second)
	b.wait("an order again", func() bool { return len(b.batches) == 2 })
	if first, second := &b.batches[0], &b.batches[1]; first.GPU != second.GPU || first.Device != second.Device || second.Items[0].Request != 2 {
		t.Errorf("orders %+v and %+v", first, second)
	}
	transport.SendDoc(b.link, wire.DocService, catalog.Service{Device: 1})
	b.wait("the link's end", func() bool { return b.closed != nil })
}
