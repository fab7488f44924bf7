package watchcmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
)

func anyPaged(s *watch.State) bool {
	return slices.ContainsFunc(s.Pools, func(p *watch.PoolState) bool { return p != nil && p.Paged() })
}

const memoryRow = "  %-6s %7s %6s %6s %6s %6s %7s %7s %6s %6s"

// memoryLines are what the GPUs of a paged pool hold and load: the sum, and of some of them each; so many lines at most.
func memoryLines(s *watch.State, p *watch.PoolState, most int) []string {
	sum, rates, gpus := p.Memory(s.Now)
	if gpus == 0 {
		return []string{"  paged: what its GPUs hold is told in a second"}
	}
	out := []string{strings.TrimRight(fmt.Sprintf(memoryRow, "MEMORY", "PAGES", "FREE", "MODELS", "COLD/s", "COPY/s", "EVICT/s", "OTHER/s", "LOADER", "OLDEST"), " ")}
	line := func(name string, m *watch.MemoryInfo, r *watch.MemoryRates) {
		out = append(out, fmt.Sprintf(memoryRow, name, whole(m.Pages), whole(m.Free), whole(m.Held), perSecond(r.Cold), perSecond(r.Copies),
			perSecond(r.Room), perSecond(r.Removed+r.Stray), fmt.Sprintf("%.0f %%", 100*r.Busy), age(s.Now, m.Oldest)))
	}
	if gpus > 1 {
		line("all", &sum, &rates)
	}
	for i := range p.Rows {
		m := p.Rows[i].Memory
		if m == nil || !p.Rows[i].Present {
			continue
		}
		if len(out) >= max(3, most) {
			break
		}
		r := m.Rates(s.Now)
		line(fmt.Sprintf("GPU %d", i), &m.MemoryInfo, &r)
	}
	return out
}

func whole(n int) string { return fmt.Sprint(n) }

// perSecond is a rate in few signs; what is rare is told from what is not at all.
func perSecond(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 9.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// age is how long ago an instant was; that of no copy is none.
func age(now, at mono.Time) string {
	switch d := now.Sub(at).Seconds(); {
	case at == 0:
		return "-"
	case d < 0.05:
		return "0 s"
	case d < 9.95:
		return fmt.Sprintf("%.1f s", d)
	case d < 6000:
		return fmt.Sprintf("%.0f s", d)
	default:
		return fmt.Sprintf("%.0f h", d/3600)
	}
}

const pagedRow = "%-17s %7s %6s %6s %9s %4s %4s %5s %5s %6s"

// modelHead is the head of the models' table: where weights come and go it says where they are.
func modelHead(s *watch.State) string {
	if anyPaged(s) {
		return fmt.Sprintf(pagedRow, "MODEL", "OFFERED", "GOOD", "BAD %", "P99/SLO", "WAIT", "HELD", "HIT %", "LOADS", "UNMET")
	}
	return fmt.Sprintf("%-22s %7s %7s %6s %9s %8s %6s %7s", "MODEL", "OFFERED", "GOOD", "BAD %", "P99 ms", "SLO ms", "BATCH", "WAITING")
}

func (p *picture) pagedModelLine(m *watch.ModelState, p99 string, waiting int) string {
	came, good, bad := p.rates(m, perSecond)
	held, hits, loads, unmet := "all", "-", "-", "-"
	if pool := p.state.Pool(m.Pool); pool != nil && pool.Paged() {
		c := m.Counted()
		held, loads, unmet = whole(c.Held), fmt.Sprint(c.Loads), "0"
		if c.Unmet > 0 {
			unmet = fmt.Sprintf("%.0f ms", c.Unmet.Millis())
		}
		if share, ok := m.Hits(); ok {
			hits = fmt.Sprintf("%.0f", 100*share)
		}
	}
	return fmt.Sprintf(pagedRow, fit(m.Name, 17), came, good, bad, fmt.Sprintf("%s/%.0f", p99, m.SLO.Millis()), whole(waiting), held, hits, loads, unmet)
}
