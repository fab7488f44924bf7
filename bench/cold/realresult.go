package cold

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/symphony-serving/symphony/bench/report"
)

// RealResult is what a run with real sessions found.
type RealResult struct {
	Config          RealConfig
	Interrupted     bool    `json:",omitzero"`
	Weights         int64   // of a copy, bytes: what its session was measured to take
	LoadTime        float64 // of a copy, ms, likewise
	HotRate         float64 // requests/s of the often asked copies together
	SeldomRate      float64 // of the others
	Hot             int     // copies that are often asked
	Sent            int64
	Lost            int64 // without any answer
	Duplicates      int64 // answers beyond the first
	NotSent         int64 // too many were open
	LagMean, LagMax float64
	Idle            int64 // the process in memory before the first load, with all copies' files, bytes; 0: unknown
	With, Without   Side
	Claims          []Claim
}

// Budget is how much memory sessions may take, bytes.
func (c *RealConfig) Budget() int64 { return c.Page * int64(c.Pages) }

// What is to be shown.
const (
	warmMost   = 1.2  // p99 with loads, to without
	memoryMost = 1.15 // of what the process may take
)

// end judges.
func (r *realRun) end(interrupted bool) *RealResult {
	k := r.result
	k.Interrupted, k.Hot, k.With, k.Without = interrupted, r.hot, r.with.end(), r.without.end()
	k.Sent, k.Lost, k.Duplicates, k.NotSent = r.sent.Sent.Load(), r.sent.Lost(), r.sent.Duplicates.Load(), r.sent.NotSent.Load()
	k.LagMean, k.LagMax = r.sent.LagMean().Millis(), float64(r.sent.LagMax.Load())/1e6
	k.judge()
	return k
}

// most is that of the process in memory, bytes.
func (r *RealResult) most() float64 { return float64(max(r.With.Resident, r.Without.Resident)) }

// Memory is the most of the process in memory, to what it may take: what it takes without sessions, and their budget; NaN: unknown.
func (r *RealResult) Memory() float64 {
	if r.Idle == 0 || r.most() == 0 {
		return math.NaN()
	}
	return r.most() / float64(r.Idle+r.Config.Budget())
}

// Slower is what loads cost the often asked copies: p99 of latencies, and of their batches' runs; NaN: not measured.
func (r *RealResult) Slower() (latency, runs float64) {
	over := func(with, without *Percentiles) float64 {
		if with.N == 0 || without.N == 0 {
			return math.NaN()
		}
		return with.P99 / without.P99
	}
	return over(&r.With.Warm, &r.Without.Warm), over(&r.With.WarmRuns, &r.Without.WarmRuns)
}

func (r *RealResult) claim(what, want, found string, holds bool) {
	r.Claims = append(r.Claims, Claim{what, want, found, holds})
}

func (r *RealResult) judge() {
	c, w := &r.Config, &r.With
	r.claim("answers of each request", "one", fmt.Sprintf("%d without, %d too many", r.Lost, r.Duplicates), r.Lost == 0 && r.Duplicates == 0)
	r.claim("the load was offered", fmt.Sprintf("sent <= %g ms late on average, all of it", lagMost), fmt.Sprintf("%.2f ms, %d not sent", r.LagMean, r.NotSent), r.LagMean <= lagMost && r.NotSent == 0)
	r.claim("sessions came and went, with loads only", "> 0 and 0", fmt.Sprintf("%d loads, %d unloads; without: %d", w.Loaded.Loads, w.Loaded.Unloads, r.Without.Loaded.Loads),
		w.Loaded.Loads > 0 && w.Loaded.Unloads > 0 && r.Without.Loaded.Loads == 0)
	offered, inTime := w.Offered+r.Without.Offered, w.InTime+r.Without.InTime
	r.claim(fmt.Sprintf("answered within %g ms", c.SLO.Millis()), "all", fmt.Sprintf("%d of %d; the slowest %.1f ms", inTime, offered, max(w.Slowest, r.Without.Slowest)), inTime == offered && offered > 0)
	latency, _ := r.Slower()
	r.claim("latency p99 of warm requests, with loads to without", fmt.Sprintf("<= %g", warmMost), fmt.Sprintf("%.3f (%.2f and %.2f ms, of %d and %d)", latency, w.Warm.P99, r.Without.Warm.P99, w.Warm.N, r.Without.Warm.N), latency <= warmMost)
	r.claim("process in memory, to idle with all files, and the sessions' budget", fmt.Sprintf("<= %g", memoryMost), fmt.Sprintf("%.3f (%.1f of %.1f MB)", r.Memory(), r.most()/1e6, float64(r.Idle+c.Budget())/1e6), r.Memory() <= memoryMost)
}

// Failed is why the run shows not what it should; "": it does.
func (r *RealResult) Failed() string { return failed(r.Interrupted, r.Claims) }

// Print writes the report as text.
func (r *RealResult) Print(to io.Writer) {
	c := &r.Config
	fmt.Fprintf(to, "%d copies, each a session of %.1f MB that is made in %.0f ms; room for %d: %.1f MB\n", c.Copies, float64(r.Weights)/1e6, r.LoadTime, c.Room, float64(c.Budget())/1e6)
	fmt.Fprintf(to, "%d copies are asked %.1f times a second together, the others %.2f times; SLO %g ms. With loads: as they come.\n", r.Hot, r.HotRate, r.SeldomRate, c.SLO.Millis())
	fmt.Fprintf(to, "Without: the same requests, the seldom ones to those %d copies that fit, too. %d turns of both, seed %d\n\n", c.Room-r.Hot, c.Rounds, c.Seed)
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	row := func(what string, of func(*Side) string) {
		fmt.Fprintf(t, "%s\t%s\t%s\n", what, of(&r.With), of(&r.Without))
	}
	fmt.Fprintln(t, "\twith loads\twithout")
	row("offered", func(s *Side) string { return fmt.Sprintf("%d in %.1f s", s.Offered, s.Seconds) })
	row("in time", func(s *Side) string { return fmt.Sprintf("%d, the slowest %.1f ms", s.InTime, s.Slowest) })
	row("late; refused", func(s *Side) string { return fmt.Sprintf("%d; %s", s.Late, report.Counts(s.Refused)) })
	row("loads, unloads, failed", func(s *Side) string {
		return fmt.Sprintf("%d, %d, %d", s.Loaded.Loads, s.Loaded.Unloads, s.Loaded.Failed)
	})
	row("  a load, on average; loader busy", func(s *Side) string {
		return fmt.Sprintf("%.1f ms; %.3f", s.Loaded.Mean(), s.Loaded.Busy.Seconds()/max(1e-9, s.Seconds))
	})
	for _, p := range []struct {
		what string
		of   func(*Side) Percentiles
	}{{"cold: latency", func(s *Side) Percentiles { return s.ColdOnes }}, {"often asked, warm: latency", func(s *Side) Percentiles { return s.Warm }}, {"  their batches' length", func(s *Side) Percentiles { return s.WarmRuns }}} {
		row(p.what+" p50, p90, p99, greatest", func(s *Side) string {
			k := p.of(s)
			return fmt.Sprintf("%.2f, %.2f, %.2f, %.2f ms (%d)", k.P50, k.P90, k.P99, k.Max, k.N)
		})
	}
	latency, runs := r.Slower()
	fmt.Fprintf(t, "  p99 with loads, to without\tlatency %.3f, length %.3f\t\n", latency, runs)
	row("process in memory, at most", func(s *Side) string { return fmt.Sprintf("%.1f MB", float64(s.Resident)/1e6) })
	fmt.Fprintf(t, "  idle, with all files\t%.1f MB\t\n", float64(r.Idle)/1e6)
	row("  beyond it, to the sessions' budget", func(s *Side) string { return fmt.Sprintf("%.3f", float64(s.Resident-r.Idle)/float64(c.Budget())) })
	fmt.Fprintf(t, "sent late by\t%.2f ms on average, %.2f ms at most\t\n", r.LagMean, r.LagMax)
	t.Flush()
	fmt.Fprintln(to)
	printClaims(to, r.Claims)
}
