package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/frontend"
)

// group is schedulers of which one leads.
type group struct {
	*cluster
	members   []*process
	addresses []string
	ports     []string // of their metrics
	models    int
	backends  []*process
	level     string // of their logs
	devices   int    // of each
	others    int    // backends, and the client
	heartbeat string // scheduler.heartbeat; "": its default
}

// newGroup starts n schedulers, backends with emulated devices, and a client of all.
func newGroup(t *testing.T, n, backends, devices int, models ...emulated) *group {
	t.Helper()
	return newGroupWith(t, "info", n, backends, devices, models...)
}

// newGroupWith says what backends log: "debug" tells of each batch (checkDrivers).
func newGroupWith(t *testing.T, level string, n, backends, devices int, models ...emulated) *group {
	t.Helper()
	g := &group{level: level, cluster: &cluster{t: t, repo: emulatedRepository(t, models...)}, members: make([]*process, n), devices: devices, models: len(models), others: backends + 1}
	for range n {
		g.addresses = append(g.addresses, "tcp:"+hostPort(freePort(t)))
		g.ports = append(g.ports, hostPort(freePort(t)))
	}
	for i := range n {
		g.launch(i)
	}
	g.address = strings.TrimPrefix(strings.Join(g.addresses, "+"), "tcp:")
	g.backends = make([]*process, backends)
	for i := range backends {
		g.launchBackend(i)
	}
	var asked []string
	for _, m := range models {
		asked = append(asked, m.name)
	}
	g.dialWith(frontend.Options{ArenaBytes: 64 << 20}, asked...)
	g.waitGPUs(models[0].name, backends*devices, 20*time.Second)
	g.settled()
	return g
}

// launch starts a member of the group.
func (g *group) launch(i int) {
	args := []string{"scheduler", "--listen", g.addresses[i], "--standby", strings.Join(g.addresses, ","), "--metrics", g.ports[i]}
	if g.heartbeat != "" {
		args = append(args, "--set", "scheduler.heartbeat="+g.heartbeat)
	}
	g.members[i] = start(g.t, fmt.Sprint("scheduler-", i), args...)
}

// launchBackend starts a backend.
func (g *group) launchBackend(i int) {
	path := write(g.t, "log: {level: %s}\nbackend:\n  pools: [{device_type: emulated, kind: emulated, devices: %d}]\n", g.level, g.devices)
	name := fmt.Sprint("b", i)
	g.backends[i] = start(g.t, name, "backend", "-c", path, "--scheduler", strings.Join(g.addresses, "+"), "--repository", g.repo, "--name", name)
}

// leader is the one that says that it leads.
func (g *group) leader() int {
	g.t.Helper()
	at := -1
	eventually(g.t, 20*time.Second, "one of the group leads", func() error {
		at = -1
		for i := range g.members {
			v, err := readMetric(g.ports[i], "symphony_scheduler_leads")
			switch {
			case err != nil:
				return err
			case v == 1 && at >= 0:
				return fmt.Errorf("%d and %d lead", at, i)
			case v == 1:
				at = i
			}
		}
		if at < 0 {
			return fmt.Errorf("nobody does")
		}
		return nil
	})
	return at
}

// settled waits until one leads, and all know all models, backends and frontends.
func (g *group) settled() int {
	g.t.Helper()
	at := g.leader()
	eventually(g.t, 20*time.Second, "all know all", func() error {
		for i := range g.members {
			for name, want := range map[string]int{"symphony_scheduler_models": g.models, "symphony_scheduler_members": g.others} {
				v, err := readMetric(g.ports[i], name)
				if err != nil {
					return err
				}
				if int(v) < want {
					return fmt.Errorf("scheduler %d: %s is %g, want %d", i, name, v, want)
				}
			}
		}
		return nil
	})
	return at
}

// gap is the longest time without an answer between two instants.
func (f *traffic) gap(from, to time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	var at []time.Time
	for _, o := range f.answers {
		if end := o.Intended.Std().Add(o.Latency.Std()); end.After(from) && end.Before(to) && o.Answer.Reason == "" {
			at = append(at, end)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	longest := time.Duration(0)
	for i := 1; i < len(at); i++ {
		longest = max(longest, at[i].Sub(at[i-1]))
	}
	return longest
}

// TestSpareSchedulers: kill -9 of the scheduler that leads, again and again under load: a spare takes
// over, each request has one answer, and hardly any is late. The one that was killed comes back as a
// spare.
func TestSpareSchedulers(t *testing.T) {
	beside(t)
	kills, rate, slo := 4, 500.0, "250ms"
	if full() {
		kills, rate, slo = 100, 5000, "50ms"
	}
	g := newGroup(t, 3, 2, 4, emulated{"m", 0.2, 2, slo}, emulated{"n", 0.2, 2, slo})
	f := g.trafficOf(rate, "m", "n")
	time.Sleep(2 * time.Second)
	machine := watch(t)
	began := time.Now()
	var gaps, pauses []time.Duration
	bad, worst := 0.0, 0.0
	for range kills {
		at := g.settled()
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		killed := time.Now()
		g.members[at].kill()
		time.Sleep(time.Second)
		share, _, _ := f.share(killed.Add(-500*time.Millisecond), killed.Add(500*time.Millisecond))
		bad, worst = bad+share/float64(kills), max(worst, share)
		from, to := killed.Add(-10*time.Millisecond), killed.Add(900*time.Millisecond)
		gaps = append(gaps, f.gap(from, to))
		pauses = append(pauses, machine.longest(from, to))
		g.launch(at)
	}
	g.settled()
	end := time.Now()
	f.stop(t)
	slices.Sort(gaps)
	slices.Sort(pauses)
	all, count, reasons := f.share(began, end)
	t.Logf("%d kills of the leader under %g r/s: longest gap in answers p50 %v, p99 %v, most %v; bad in the second around a kill: mean %.4f, worst %.4f; of %d requests %.5f: %v",
		kills, rate, gaps[len(gaps)/2], gaps[max(1, len(gaps)*99/100)-1], gaps[len(gaps)-1], bad, worst, count, all, reasons)
	t.Logf("the longest: %v", gaps[max(0, len(gaps)-12):])
	t.Logf("of a thread beside them that only sleeps, in the same spans, the longest pause: p50 %v, p99 %v; the longest: %v",
		pauses[len(pauses)/2], pauses[max(1, len(pauses)*99/100)-1], pauses[max(0, len(pauses)-12):])
	if most := 0.02 + machine.pardon(t, 250*time.Millisecond); bad > most {
		t.Errorf("%.4f are bad in the seconds around kills, at most %.4f may", bad, most)
	}
	if n := reasons["unavailable"] + reasons["unknown_model"] + reasons["cancelled"]; n > 0 {
		t.Errorf("%d requests were given up: %v", n, reasons)
	}
}

// TestIdleSpares: a spare of a group that nobody asks anything uses about 1 % of a core, most of it for the
// links to backends and clients, as any scheduler.
func TestIdleSpares(t *testing.T) {
	beside(t)
	g := newGroup(t, 3, 2, 4, emulated{"m", 1, 5, "50ms"})
	time.Sleep(3 * time.Second) // heartbeats become rare a second after the last request
	leader, total := g.leader(), span(5*time.Second, 20*time.Second)
	cpu := func(i int) float64 { return metric(t, g.ports[i], "process_cpu_seconds_total") }
	var before [3]float64
	for i := range before {
		before[i] = cpu(i)
	}
	time.Sleep(total)
	for i := range before {
		used := cpu(i) - before[i]
		t.Logf("scheduler %d (%d leads): %.2f %% of a core", i, leader, 100*used/total.Seconds())
		if i != leader && used > tolerance(0.05, 0.01)*total.Seconds() {
			t.Errorf("an idle spare used %.3f s of CPU in %v", used, total)
		}
	}
}
