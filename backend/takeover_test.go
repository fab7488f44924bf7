package backend

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport/wire"
)

// Another scheduler takes over: it is told of the batch that runs, whose output goes to the frontend
// and whose report goes to it. What had not begun is given up without a word, and so is what the one
// before orders from then on.
func TestTakeOver(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := led(t)
	defer g.end()
	g.a.order(1000, 1)
	g.queued(0)
	g.a.order(1000, 2)
	g.queued(1)
	g.b.order(1000, 50) // of a scheduler that is not obeyed
	g.b.order(100, 51)
	g.b.promise(2000, false)
	g.b.hears(running{1000, 1, 1, wire.RunningItem{Instance: 3, Request: 1}}, wire.Promised{Epoch: 2000, Highest: 2000})
	g.a.hears(wire.Promised{Epoch: 1000, Highest: 2000})
	g.a.order(1000, 3)
	g.a.order(2000, 4)
	g.b.order(2000, 5)
	g.queued(1)
	g.gate.open()
	g.b.hears(done{1000, 1, 1})
	g.queued(0)
	g.gate.open()
	g.b.hears(done{2000, 5, 1})
	g.answered(1, 5)
	g.eventually("all is done", g.backend.idle)
	g.b.order(2000, 6)
	g.queued(0)
	g.gate.open()
	g.b.hears(done{2000, 6, 1})
	g.a.hears()
	g.answered(1, 5, 6)
	g.eventually("four orders of schedulers that are not obeyed", func() bool { return g.counter("symphony_backend_overtaken_orders_total") == 4 })
	if n := g.counter("symphony_backend_given_up_total"); n != 1 {
		t.Errorf("%v batches given up, want 1", n)
	}
	if said := g.log.about("obeyed from now on", `"scheduler":"inproc:b"`, `"running":1`, `"given_up":1`); len(said) != 1 {
		t.Errorf("log:\n%s", strings.Join(g.log.about(""), "\n"))
	}
}

// A planned change: what waits is run, too, and the scheduler that takes over is told of it.
func TestTakeOverKeeps(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := led(t)
	defer g.end()
	g.a.order(1000, 1)
	g.queued(0)
	g.a.order(1000, 2)
	g.queued(1)
	g.b.promise(2000, true)
	g.b.hears(running{1000, 1, 1, wire.RunningItem{Instance: 3, Request: 1}}, running{1000, 2, 1, wire.RunningItem{Instance: 3, Request: 2}},
		wire.Promised{Epoch: 2000, Highest: 2000})
	g.b.order(2000, 3)
	g.queued(2)
	for range 3 {
		g.eventually("a batch", func() bool { return g.gate.runs() == 1 })
		g.gate.open()
	}
	g.b.hears(done{1000, 1, 1}, done{1000, 2, 1}, done{2000, 3, 1})
	g.a.hears(wire.Promised{Epoch: 1000, Highest: 2000})
	g.answered(1, 2, 3)
}

// A scheduler of an earlier reign is refused, and told of the later one; who is obeyed goes on.
func TestPromiseRefused(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := led(t)
	defer g.end()
	g.a.order(1000, 1)
	g.queued(0)
	g.b.promise(999, false)
	g.b.hears(wire.Promised{Epoch: 999, Highest: 1000})
	g.b.promise(1000, false) // two of one reign: the second takes another
	g.b.hears(wire.Promised{Epoch: 1000, Highest: 1001})
	g.b.order(999, 2)
	g.b.order(1000, 3)
	g.a.order(1000, 4)
	g.queued(1)
	g.gate.open()
	g.queued(0)
	g.gate.open()
	g.a.hears(done{1000, 1, 1}, done{1000, 4, 1})
	g.answered(1, 4)
	if n := g.counter("symphony_backend_promises_total"); n != 3 {
		t.Errorf("%v promises asked for", n)
	}
}

// Nothing is obeyed before a promise; ready is who obeys somebody; each scheduler hears whom, when it
// has admitted the backend and when that changes.
func TestNothingBeforeAPromise(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := newGroup(t)
	defer g.end()
	g.b.promise(500, false) // who has not admitted us has no promise
	g.a.admits()
	g.b.admits()
	g.eventually("ids", func() bool {
		return g.backend.uplinks[1].ids.Load() != nil && g.backend.uplinks[1].ids.Load().models.Load() != nil
	})
	g.a.order(200, 1) // of its life, as one that stands alone would
	g.b.order(100, 2)
	g.eventually("orders that are ignored", func() bool { return g.counter("symphony_backend_overtaken_orders_total") == 2 })
	if g.backend.Ready() || g.gate.runs() != 0 || !g.backend.idle() {
		t.Error("somebody is obeyed who has no promise")
	}
	news := wire.Promised{Highest: 0}
	g.a.wait("news", func() bool { return len(g.a.heard) == 1 && g.a.heard[0] == news })
	g.b.promise(1000, false)
	g.b.hears(wire.Promised{Epoch: 1000, Highest: 1000})
	g.eventually("it is ready", g.backend.Ready)
	news.Highest = 1000
	g.a.wait("news", func() bool { return len(g.a.heard) == 2 && g.a.heard[1] == news })
	if n := gauge(t, g.registry, "symphony_backend_scheduler_linked"); n != 2 {
		t.Errorf("%v schedulers are linked", n)
	}
	if n := gauge(t, g.registry, "symphony_backend_scheduler_obeyed"); n != 1 {
		t.Errorf("%v schedulers are obeyed", n)
	}
	if n := gauge(t, g.registry, "symphony_backend_reign"); n != 1000 {
		t.Errorf("reign %v", n)
	}
}

// The scheduler that is obeyed is lost: what runs ends, its output goes to the frontend, and what
// waits is run, too, until another one asks. The one that was lost comes back as one among others.
func TestObeyedSchedulerIsLost(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := led(t)
	defer g.end()
	for id := wire.BatchID(1); id <= 3; id++ {
		g.a.order(1000, id)
		g.queued(int(id - 1))
	}
	g.a.mu.Lock()
	old := g.a.link
	g.a.mu.Unlock()
	g.a.listener.Close()
	g.eventually("the loss", func() bool { return !g.backend.Ready() })
	if g.backend.uplinks[0].ids.Load().frontends.Link(3) == nil {
		t.Error("the data link went with the scheduler")
	}
	g.gate.open()
	g.answered(1)
	g.queued(1)
	g.b.promise(2000, false)
	g.b.hears(running{1000, 2, 1, wire.RunningItem{Instance: 3, Request: 2}}, wire.Promised{Epoch: 2000, Highest: 2000})
	g.gate.open()
	g.b.hears(done{1000, 2, 1})
	g.answered(1, 2)
	g.eventually("all is done", g.backend.idle)

	g.a.life = 300 // another process
	g.a.listen(g.cluster)
	g.a.wait("another introduction", func() bool { return g.a.link != nil && g.a.link != old })
	g.a.mu.Lock()
	g.a.heard = nil
	g.a.mu.Unlock()
	g.a.admits()
	g.a.wait("whom the backend obeys", func() bool {
		return len(g.a.heard) == 1 && g.a.heard[0].(wire.Promised).Epoch == 0 && g.a.heard[0].(wire.Promised).Highest == 2000
	})
	g.a.order(1000, 9)
	g.a.promise(1000, false)
	g.a.wait("a refusal", func() bool { return len(g.a.heard) == 2 })
	g.a.hears(wire.Promised{Epoch: 1000, Highest: 2000})
	if !g.backend.idle() {
		t.Error("an order of a reign that is over was taken")
	}
	if n := len(g.log.about("lost the scheduler that is obeyed", "inproc:a")); n != 1 {
		t.Errorf("log:\n%s", strings.Join(g.log.about(""), "\n"))
	}
}

// The scheduler that is obeyed asks again over a new link: what had not begun is given up, for it has
// queued it again, and the report of what runs goes there.
func TestAsksAgainOverANewLink(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := led(t)
	defer g.end()
	g.a.order(1000, 1)
	g.queued(0)
	g.a.order(1000, 2)
	g.queued(1)
	g.a.mu.Lock()
	old := g.a.link
	g.a.mu.Unlock()
	old.Close(nil)
	g.a.wait("another introduction", func() bool { return g.a.link != nil && g.a.link != old })
	g.a.admits()
	g.a.order(1000, 3) // before it has asked again
	g.a.promise(1000, false)
	g.a.hears(running{1000, 1, 1, wire.RunningItem{Instance: 3, Request: 1}}, wire.Promised{Epoch: 1000, Highest: 1000})
	g.a.order(1000, 4)
	g.queued(1)
	g.gate.open()
	g.queued(0)
	g.gate.open()
	g.a.hears(done{1000, 1, 1}, done{1000, 4, 1})
	g.answered(1, 4)
}
