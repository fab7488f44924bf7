package rdmae2e

import (
	"syscall"
	"testing"
	"time"
)

const (
	faultRounds = 2
	// poolGrowth is by how many chunks a backend's pool may still grow as it needs them;
	// fewer than the regions of the lanes that it loses in all.
	poolGrowth = 3
)

// The parts under load, one fault after the other. (One cluster for all: under
// emulation its start takes as long as a fault.)
func TestFaults(t *testing.T) {
	need(t)
	c := newCluster(t, "always", emulated(t), emulatedPool)
	c.start(modelName)
	f := c.traffic()
	f.flow(t, "at first", 20)
	with := steady(t)
	with.mr = -1 // of a part at work: its pool grows as it needs
	for _, fault := range []struct {
		name string
		run  func(*testing.T, *cluster, *traffic, held)
	}{{"backend killed", backendKilled}, {"frontend killed", frontendKilled}, {"backend frozen", backendFrozen}} {
		t.Run(fault.name, func(t *testing.T) { fault.run(t, c, f, with) })
	}
	c.end(f)
	c.stop()
}

// kill -9 of a backend that is READing: every request has one answer, soon; a new
// backend serves; nothing of the old one is left at the others.
func backendKilled(t *testing.T, c *cluster, f *traffic, with held) {
	var without held
	var memory int
	for round := range faultRounds {
		fault := time.Now()
		c.backend.kill()
		f.answered(t, fault)
		now := steady(t)
		a := f.account(fault, hangMax)
		if round == 0 {
			without, memory = now, rss(t, c.frontend.pid())
		} else if now.grown(without, 0) {
			t.Errorf("round %d: without a backend the kernel holds %v, in the first round %v", round, now, without)
		}
		c.startBackend()
		f.flow(t, "with a new backend", 10)
		say("kill -9 of a backend: %v; served again after %v", a, time.Since(fault).Round(time.Millisecond))
		a.check(t)
		settle(t, "the backend is there again", with)
	}
	c.grown(t, "frontend", c.frontend, memory)
}

// kill -9 of a frontend while it is READ.
func frontendKilled(t *testing.T, c *cluster, f *traffic, with held) {
	var without held
	var memory int
	for round := range faultRounds {
		fault := time.Now()
		c.frontend.kill()
		f.answered(t, fault)
		now := steady(t)
		if round == 0 {
			without, memory = now, rss(t, c.backend.pid())
		} else if now.grown(without, poolGrowth) {
			t.Errorf("round %d: without a frontend the kernel holds %v, in the first round %v", round, now, without)
		}
		c.startFrontend()
		f.flow(t, "with a new frontend", 10)
		a := f.account(fault, hangMax)
		say("kill -9 of a frontend: %v; served again after %v", a, time.Since(fault).Round(time.Millisecond))
		a.check(t)
		settle(t, "the frontend is there again", with)
	}
	c.grown(t, "backend", c.backend, memory)
}

// A backend that stands still polls nothing and answers nothing: its requests are
// answered, and when it goes on it serves again.
func backendFrozen(t *testing.T, c *cluster, f *traffic, with held) {
	for range faultRounds - 1 {
		fault := time.Now()
		c.backend.signal(syscall.SIGSTOP)
		f.answered(t, fault)
		a := f.account(fault, hangMax)
		time.Sleep(500 * time.Millisecond) // the others have given it up
		c.backend.signal(syscall.SIGCONT)
		f.flow(t, "when the backend goes on", 10)
		say("a backend that stands still: %v; served again after %v", a, time.Since(fault).Round(time.Millisecond))
		a.check(t)
		settle(t, "the backend is back", with)
	}
}

// check is what must hold after every fault.
func (a account) check(t *testing.T) {
	t.Helper()
	if a.open == 0 {
		t.Error("no request was open at the fault")
	}
	if a.slowest > hangMax || a.later > hangMax+modelSLO {
		t.Errorf("a request hung: %v", a)
	}
}

// end ends the load.
func (c *cluster) end(f *traffic) {
	c.t.Helper()
	for _, a := range f.stop() {
		if a.end.Sub(a.begin) >= patience {
			c.t.Errorf("a request was not answered for %v: %v", patience, a.err)
		}
	}
}

// grown compares a survivor's memory with what it was after the first fault.
func (c *cluster) grown(t *testing.T, name string, p *process, first int) {
	t.Helper()
	now := rss(t, p.pid())
	say("memory of the %s: %d MiB after the first fault, %d after %d", name, first, now, faultRounds)
	if now > first+64 {
		t.Errorf("memory of the %s has grown from %d to %d MiB", name, first, now)
	}
}
