package schedbench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/bench/report"
)

// Print writes a point for people.
func (p *Point) Print(to io.Writer) {
	verdict := "held"
	if !p.Holds() {
		verdict = "NOT held"
	}
	arrivals := p.Process
	if p.Shape != 0 {
		arrivals += fmt.Sprintf(" %g", p.Shape)
	}
	fmt.Fprintf(to, "%d model loop(s), %d GPUs, %d models, %s arrivals, l(b) = %.3f b + %.3f ms, SLO %.0f ms, %.1f s\n",
		p.Loops, p.GPUs, p.Models, arrivals, p.Alpha, p.Beta, p.SLO, p.Seconds)
	fmt.Fprintf(to, "  offered %.0f requests/s, in time %.0f, bad rate %.4f %% (late %d, dropped %d%s): %s\n",
		p.OfferedRate, p.Goodput, 100*p.BadRate, p.Late, p.Dropped, dropText(p.Drops), verdict)
	if p.Unanswered != 0 {
		fmt.Fprintf(to, "  BUG: %d requests had no outcome\n", p.Unanswered)
	}
	fmt.Fprintf(to, "  loops: %s\n", p.Placement)
	fmt.Fprintf(to, "  %.0f batches/s of %.1f, GPUs busy %.0f %%\n", p.BatchRate, p.MeanBatch, 100*p.GPUBusy)
	if p.Tuned != nil {
		p.Tuned.Print(to)
	}
	w := report.Table(to)
	fmt.Fprintln(w, "\tCPU ns/request\tof a core\tbusy\tturns\twake-ups\tfull\twaiting max\tburst max\t")
	models := LoopUse{}
	for _, l := range p.ModelLoops {
		models.Turns += l.Turns
		models.Wakes += l.Wakes
		models.Full += l.Full
		models.BurstMax = max(models.BurstMax, l.BurstMax)
		models.WaitingMax = max(models.WaitingMax, l.WaitingMax)
		models.Busy += l.Busy
	}
	row := func(name string, c Cost, l LoopUse) {
		fmt.Fprintf(w, "%s\t%.0f\t%.1f %%\t%.1f %%\t%d\t%d\t%d\t%d\t%d\t\n", name, c.PerRequest, 100*c.Busy, 100*l.Busy, l.Turns, l.Wakes, l.Full, l.WaitingMax, l.BurstMax)
	}
	row("model loops", p.ModelCPU, models)
	row("rank loop", p.RankCPU, p.RankLoop)
	fmt.Fprintf(w, "world\t%.0f\t%.1f %%\t\t\t\t\t\t\t\n", p.WorldCPU.PerRequest, 100*p.WorldCPU.Busy)
	fmt.Fprintf(w, "other threads\t%.0f\t%.1f %%\t\t\t\t\t\t\t\n", p.OtherCPU.PerRequest, 100*p.OtherCPU.Busy)
	w.Flush()
	w = report.Table(to)
	fmt.Fprintln(w, "us\tsamples\tp50\tp99\tp99.9\tp99.99\tmax\t")
	spread := func(name string, s *Spread) {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t\n", name, s.Samples, report.Micros(s.P50), report.Micros(s.P99), report.Micros(s.P999), report.Micros(s.P9999), report.Micros(s.Max))
	}
	spread("grant: due by its exec until it left the rank loop", &p.Grants)
	spread("order: due by its last request until it left the model loop", &p.Lateness)
	spread("request: arrival until in a candidate", &p.ToCandidate)
	spread("the world's own delay, oldest of a turn", &p.Lag)
	w.Flush()
}

func dropText(drops map[string]uint64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(drops)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, drops[name]))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}
