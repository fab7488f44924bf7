package watchcmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
)

// lines are the picture: so many lines at most, each of so many columns at most.
func (p *picture) lines(width, height int) []string {
	s := p.state
	out := []string{p.first(width)}
	if p.trouble != "" {
		out = append(out, p.trouble)
	}
	for i, pool := range s.Pools {
		if pool != nil && len(out) < height/2 {
			out = append(out, poolLine(s, pool))
			out = append(out, gpuLines(s, pool, width, max(1, min(4, (height/2-len(out))/max(1, len(s.Pools)-i))))...)
			if pool.Paged() {
				out = append(out, memoryLines(s, pool, height/2-len(out))...)
			}
		}
	}
	out = append(out, "", modelHead(s))
	lost := watch.Lost(p.history, 3)
	room := height - len(out)
	if len(lost) > 0 {
		room -= len(lost) + 1
	}
	out = append(out, p.modelLines(room)...)
	if len(lost) > 0 {
		out = append(out, "LAST LOST (symphony explain ID)")
		for _, l := range lost {
			what := "dropped, " + l.Reason.String()
			if l.Outcome == watch.Late {
				what = fmt.Sprintf("late by %.1f ms", l.Late.Millis())
			}
			out = append(out, fmt.Sprintf("%6.1f s ago  %-20s %-22s %s", s.Now.Sub(l.At).Seconds(), l.Key, s.Name(l.Model), what))
		}
	}
	for i := range out {
		out[i] = fit(out[i], width)
	}
	return out[:min(len(out), height)]
}

// fit cuts a line to so many columns.
func fit(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width-1]) + "…"
}

// first is the whole in one line.
func (p *picture) first(width int) string {
	var all watch.Rates
	for _, m := range p.state.Models {
		if m != nil {
			r := m.RateAt(p.state.Now)
			all.Came += r.Came
			all.Served += r.Served
			all.Late += r.Late
			all.Dropped += r.Dropped
		}
	}
	came, good := fmt.Sprintf("%.0f", all.Came), fmt.Sprintf("%.0f", all.Served)
	bad := badOf(&all, came)
	if p.trouble != "" { // what is known is of before
		came, good, bad = "-", "-", "-"
	}
	line := fmt.Sprintf("symphony top  %s  %s requests/s  %s good  %s %% bad", p.title, came, good, bad)
	if p.state.Missed > 0 {
		line += fmt.Sprintf("  %d events missed", p.state.Missed)
	}
	return fit(line, width)
}

// badOf is the share that was bad, in percent; of none, as far as is shown, it is none: a few requests are counted as
// they come, and as bad a moment later, when none comes.
func badOf(r *watch.Rates, came string) string {
	if came == "0" {
		return "-"
	}
	return fmt.Sprintf("%.2f", 100*r.Bad())
}

func poolLine(s *watch.State, p *watch.PoolState) string {
	present, busy := 0, 0
	for i := range p.Rows {
		if p.Rows[i].Present {
			present++
			if p.Rows[i].Busy(s.Now) > 0.005 {
				busy++
			}
		}
	}
	line := fmt.Sprintf("%s  %s, %d at work, %.1f needed", p.Name, cli.Count(present, "GPU"), busy, p.Need)
	if p.Kept > 0 && p.Kept < present {
		line += fmt.Sprintf(", %d kept", p.Kept)
	}
	line += fmt.Sprintf("  deferral %.0f %%", 100*p.Spent)
	if p.Ctrl > 0 {
		line += fmt.Sprintf("  network %.1f ms", p.Ctrl.Millis())
	}
	if p.Every > 1 {
		line += fmt.Sprintf("  1 batch in %d", p.Every)
	}
	return line
}

// gpuLines are a sign for each GPU, so many lines at most.
func gpuLines(s *watch.State, p *watch.PoolState, width, most int) (out []string) {
	levels := []rune("▁▂▃▄▅▆▇█")
	perLine := max(1, width-4)
	var line []rune
	for i := range p.Rows {
		g := &p.Rows[i]
		sign := ' '
		if b := g.Busy(s.Now); g.Present {
			if sign = '·'; b > 0.005 {
				sign = levels[min(len(levels)-1, int(b*float64(len(levels))))]
			}
		}
		if line = append(line, sign); len(line) == perLine {
			out, line = append(out, "  "+string(line)), nil
			if len(out) == most {
				return append(out[:most-1], fmt.Sprintf("  and %d more GPUs", len(p.Rows)-(most-1)*perLine))
			}
		}
	}
	if len(line) > 0 {
		out = append(out, "  "+string(line))
	}
	return out
}

// rates are a model's as shown; dashes while what is known is of before.
func (p *picture) rates(m *watch.ModelState, show func(float64) string) (came, good, bad string) {
	if p.trouble != "" {
		return "-", "-", "-"
	}
	r := m.RateAt(p.state.Now)
	came, good = show(r.Came), show(r.Served)
	return came, good, badOf(&r, came)
}

func (p *picture) modelLines(most int) (out []string) {
	s := p.state
	var all []*watch.ModelState
	for _, m := range s.Models {
		if m != nil {
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b *watch.ModelState) int {
		return cmp.Compare(b.RateAt(s.Now).Came, a.RateAt(s.Now).Came)
	})
	for i, m := range all {
		if i == most-1 && len(all) > most {
			return append(out, fmt.Sprintf("and %d more models", len(all)-i))
		}
		if i >= most {
			break
		}
		p99, batch := "-", "-"
		if latency, size, ok := m.Recent(0.99); ok {
			p99, batch = fmt.Sprintf("%.1f", latency.Millis()), fmt.Sprintf("%.1f", size)
		}
		waiting := 0
		if s.Now.Sub(m.Queue.At) < mono.Second {
			waiting = int(m.Queue.Queued)
		}
		if anyPaged(s) {
			out = append(out, p.pagedModelLine(m, p99, waiting))
			continue
		}
		came, good, bad := p.rates(m, func(v float64) string { return fmt.Sprintf("%.0f", v) })
		out = append(out, strings.TrimRight(fmt.Sprintf("%-22s %7s %7s %6s %9s %8.0f %6s %7d", fit(m.Name, 22), came, good, bad, p99, m.SLO.Millis(), batch, waiting), " "))
	}
	return out
}
