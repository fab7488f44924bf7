package cold

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/symphony-serving/symphony/bench/report"
)

// Print writes the report as text.
func (r *Result) Print(to io.Writer) {
	c, l := &r.Config, &r.Live
	fmt.Fprintf(to, "%d models (resnet50_v1) on %d emulated V100 of %d pages, SLO %g ms, %.0f s; seed %d\n", c.Models, c.GPUs, c.Pages, c.SLO.Millis(), l.To, c.Seed)
	if c.Share > 0 {
		fmt.Fprintf(to, "one model is asked %g times a second; the others, one more each %.0f ms, as often as fits into %g of the GPUs' and the links' time\n\n", steadyRate, c.gap().Millis(), c.Share)
	} else {
		fmt.Fprintf(to, "one model is asked %g times a second; the others, one more each %.0f ms, %g times together, which does not fit: see \"could\"\n\n", steadyRate, c.gap().Millis(), othersRate)
	}
	r.printSpans(to)
	fmt.Fprintln(to)
	r.printWhole(to)
	fmt.Fprintln(to)
	printClaims(to, r.Claims)
}

// printSpans tells the run by parts.
func (r *Result) printSpans(to io.Writer) {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "until s\tothers\toffered r/s\tcould\tin time\tsimulated\trefused\tcold\thit share\tloads/s\tsimulated\tPCIe busy\tGPU busy\tp99 ms\tmissed\tsilent ms\tstalled ms\tCPU wait\t")
	for i := range r.Spans {
		s, b := &r.Spans[i], &r.SpansBound[i]
		per := func(n int64) float64 { return float64(n) / (s.To - s.From) }
		goodput, loads := "-", "-"
		if i < len(r.SpansSimulated) {
			goodput, loads = fmt.Sprintf("%.1f", r.SpansSimulated[i].Goodput()), fmt.Sprintf("%.1f", r.SpansSimulated[i].LoadsPerSecond())
		}
		fmt.Fprintf(t, "%.0f\t%d\t%.1f\t%.1f\t%.1f\t%s\t%.1f\t%.1f\t%.4f\t%.1f\t%s\t%.4f\t%.4f\t%.2f\t%d\t%.0f\t%.0f\t%.3f\t\n", s.To, s.Models, per(s.Offered), b.All, s.Goodput(), goodput,
			per(s.Offered-s.Outputs()), per(s.Cold), s.Hit(), s.LoadsPerSecond(), loads, s.Links, s.GPUs, s.P99, s.Missed(), s.Silent, s.Stalled, s.Waited)
	}
	t.Flush()
}

// printWhole tells the run as a whole, and the simulation.
func (r *Result) printWhole(to io.Writer) {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	row := func(what string, of func(*Counts) string) {
		simulated := "-"
		if r.Simulated != nil {
			simulated = of(r.Simulated)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", what, of(&r.Live), simulated)
	}
	percent := func(share float64) string { return fmt.Sprintf("%.3f %%", 100*share) }
	reasons := func(c *Counts, list ...string) (n int64) {
		for _, of := range list {
			n += c.Refused[of]
		}
		return n
	}
	fmt.Fprintln(t, "\tlive\tsimulated")
	row("offered", func(c *Counts) string {
		return fmt.Sprintf("%d, %.1f r/s", c.Offered, float64(c.Offered)/max(1e-9, c.To-c.From))
	})
	row("in time", func(c *Counts) string {
		return fmt.Sprintf("%d, %.1f r/s, %s", c.InTime, c.Goodput(), percent(c.Share(c.InTime)))
	})
	row("  of what could be, by the fluid bound", func(c *Counts) string {
		return fmt.Sprintf("%.4f of %.1f r/s (links %.1f, GPUs %.1f)", c.Goodput()/max(1e-9, r.Bound.All), r.Bound.All, r.Bound.Links, r.Bound.GPUs)
	})
	row("refused: the link to the host is full (cold)", func(c *Counts) string { return percent(c.Share(reasons(c, "cold"))) })
	row("refused: the GPU is full, or their load came too late (deadline, shed)", func(c *Counts) string { return percent(c.Share(reasons(c, "deadline", "shed"))) })
	row("refused: for another reason", func(c *Counts) string {
		return percent(c.Share(c.Offered - c.InTime - c.Missed() - reasons(c, "cold", "deadline", "shed")))
	})
	row("missed: an output after the SLO, none by then (expired), or never sent, for it was too late (generator_late)", func(c *Counts) string { return fmt.Sprintf("%d, %s", c.Missed(), percent(c.Share(c.Missed()))) })
	row("by reason", func(c *Counts) string { return report.Counts(c.Refused) })
	row("of the outputs: cold", func(c *Counts) string { return percent(1 - c.Hit()) })
	row("  hits", func(c *Counts) string { return percent(c.Hit()) })
	row("latency p50, p99, greatest", func(c *Counts) string { return fmt.Sprintf("%.2f, %.2f, %.2f ms", c.P50, c.P99, c.Max) })
	row("loads/s", func(c *Counts) string { return fmt.Sprintf("%.1f", c.LoadsPerSecond()) })
	fmt.Fprintf(t, "evictions\t%d, %.1f/s\t\n", r.Live.Unloads, float64(r.Live.Unloads)/r.Live.To)
	row("PCIe busy", func(c *Counts) string { return fmt.Sprintf("%.4f", c.Links) })
	row("GPU busy", func(c *Counts) string { return fmt.Sprintf("%.4f", c.GPUs) })
	if r.Simulated != nil {
		fmt.Fprintf(t, "goodput, live to simulated\t%.4f\t\n", r.Ratio())
	}
	fmt.Fprintf(t, "loads that failed, batches given back\t%d, %d\t\n", r.LoadsFailed, r.BatchesReturned)
	for _, p := range []struct {
		what string
		of   *Prediction
	}{{"INFER, length: longer than planned, shorter", &r.Infer}, {"INFER, end: later, sooner", &r.InferEnd}, {"LOAD, length: longer than planned, shorter", &r.Load}, {"LOAD, end: later, sooner", &r.LoadEnd}} {
		fmt.Fprintf(t, "%s\tp50 %.3f, %.3f ms; p99 %.3f, %.3f ms; greatest %.3f, %.3f ms (%d)\t\n", p.what, p.of.OverP50, p.of.UnderP50, p.of.OverP99, p.of.UnderP99, p.of.OverMax, p.of.UnderMax, p.of.N)
	}
	fmt.Fprintf(t, "longest without an answer; a goroutine woke late by at most\t%.1f ms; %.1f ms\t\n", r.Live.Silent, r.Live.Stalled)
	fmt.Fprintf(t, "threads waited for a processor\t%.3f s/s\t\n", r.Live.Waited)
	fmt.Fprintf(t, "sent late by\t%.2f ms on average, %.2f ms at most\t\n", r.LagMean, r.LagMax)
	t.Flush()
}
