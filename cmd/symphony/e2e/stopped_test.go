package e2e

import (
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// TestSparesAndALeaderThatStandsStill: the scheduler that leads is stopped (SIGSTOP) for 5 ms to 5 s, again
// and again under load. Whatever it believes when it goes on, no GPU has two drivers, each request has
// one answer, and of the group one leads.
func TestSparesAndALeaderThatStandsStill(t *testing.T) {
	beside(t)
	stops, longest := 4, 1500*time.Millisecond
	if full() {
		stops, longest = 60, 5*time.Second
	}
	g := newGroupWith(t, "debug", 3, 2, 4, emulated{"m", 1, 5, "500ms"}, emulated{"n", 1, 5, "500ms"})
	f := g.trafficOf(500, "m", "n")
	time.Sleep(time.Second)
	const shortest = 5 * time.Millisecond
	switches := 0
	for range stops {
		at := g.settled()
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
		stand := time.Duration(float64(shortest) * math.Pow(float64(longest)/float64(shortest), rand.Float64()))
		leader := g.members[at].cmd.Process
		leader.Signal(syscall.SIGSTOP)
		time.Sleep(stand)
		leader.Signal(syscall.SIGCONT)
		now := g.settled() // the one that stood still is a spare again, or leads
		t.Logf("stood still for %v: %d led, %d does", stand.Round(time.Millisecond), at, now)
		if now != at {
			switches++
		}
	}
	if switches == 0 {
		t.Error("nobody ever took over")
	}
	last := time.Now()
	f.again(t, last)
	f.stop(t)
	g.checkDrivers(switches)
	if n := f.between(time.Time{}, time.Now()); n["unavailable"]+n["unknown_model"]+n["cancelled"] > 0 {
		t.Errorf("requests were given up: %v", n)
	}
}

// checkDrivers reads the logs of all backends, which promised at least so often.
func (g *group) checkDrivers(switches int) {
	g.t.Helper()
	for _, b := range g.backends {
		d := checkDrivers(g.t, b)
		g.t.Logf("%s: %d batches in %d reigns, each device with one driver", b.name, d.batches, d.promises)
		if d.batches == 0 || d.promises <= switches {
			g.t.Errorf("%s: its log tells of %d batches and %d promises, after %d switches", b.name, d.batches, d.promises, switches)
		}
	}
}
