package overhead

import (
	"fmt"
	"io"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/report"
)

// Print writes the tables for people.
func (r *Result) Print(to io.Writer) {
	if r.Interrupted {
		fmt.Fprint(to, "INTERRUPTED: this is what had been measured by then.\n\n")
	}
	fmt.Fprintf(to, "Floors: the same bytes (%d of input) over bare connections, one exchange at a time, before and after each load, beside the idle system.\n", r.Payload)
	w := report.Table(to)
	fmt.Fprintln(w, "us\tsamples\tp50\tp99\tp99.9\t")
	row(w, "five hops, one request", r.Floor.Hops)
	row(w, fmt.Sprintf("five hops, batch of %d", r.FloorBatch), r.Floor.Batch)
	row(w, "TCP round trip", r.Floor.PingPong)
	row(w, "fasthttp round trip", r.Floor.HTTP)
	w.Flush()
	fmt.Fprintln(to, "Five hops are a request's way: record, order, READ, reply, output, each one write to a reader that sleeps in a read of its own connection.\n"+
		"One request: each hop has the bytes of one alone. Batch: the order, READs, replies and outputs are those of a whole batch, as ours are at load; nothing handles them.")
	for i := range r.Ways {
		r.Ways[i].print(to)
	}
	fmt.Fprintln(to, "\nStages:")
	for s := range Own {
		fmt.Fprintf(to, "  %-10s %s\n", s.Name(), s.what())
	}
	fmt.Fprintln(to, "-: too few samples for this percentile.")
}

func (w *WayResult) print(to io.Writer) {
	if w.Given {
		fmt.Fprintf(to, "\nLinks over %s: loads are shares of %.0f requests/s, as asked for.\n", w.Name, w.Highest)
	} else {
		fmt.Fprintf(to, "\nLinks over %s: the highest rate found is %.0f requests/s, %.2f %% bad, in batches of %.1f.\n", w.Name, w.Highest, 100*w.Bad, w.Batch)
	}
	if len(w.Loads) == 0 {
		fmt.Fprintln(to, "No load was measured.")
		return
	}
	t := report.Table(to)
	fmt.Fprint(t, "us\t")
	for i := range w.Loads {
		l := &w.Loads[i]
		fmt.Fprintf(t, "%d %%: p50\tp99\tp99.9\t", l.Percent)
	}
	fmt.Fprintln(t)
	for s := range stages {
		fmt.Fprintf(t, "%s\t", s.Name())
		for i := range w.Loads {
			d := w.Loads[i].stage(s)
			fmt.Fprintf(t, "%s\t%s\t%s\t", report.Micros(d.P50), report.Micros(d.P99), report.Micros(d.P999))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	for i := range w.Loads {
		l, f := &w.Loads[i], &w.Loads[i].Floor
		sum := l.sum()
		fmt.Fprintf(to, "At %d %% (%.0f requests/s, %.2f %% bad, batches of %.1f) the stages' medians sum to %.0f us. Of that moment's floors: %s that of five bare hops of one request (%.1f us), %s that of a batch's (%.1f us), %s that of a TCP and %s that of a fasthttp round trip.\n",
			l.Percent, l.Offered, 100*l.Bad, l.Batch, sum, times(sum, f.Hops.P50), f.Hops.P50, times(sum, f.Batch.P50), f.Batch.P50, times(sum, f.PingPong.P50), times(sum, f.HTTP.P50))
		fmt.Fprintf(to, "  The median of the requests' own sums is %.0f us, %s that of five bare hops.\n", l.stage(Own).P50, times(l.stage(Own).P50, f.Hops.P50))
		fmt.Fprintf(to, "  Requests were sent %s us after their instant at p50, %s at p99: of no stage.\n", report.Micros(l.Lag.P50), report.Micros(l.Lag.P99))
		if l.Invalid {
			fmt.Fprintln(to, "  INVALID: the generator could not offer this load beside the system; its requests were late before they were sent.")
		}
	}
}

func row(w io.Writer, name string, d Spread) {
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t\n", name, d.Samples, report.Micros(d.P50), report.Micros(d.P99), report.Micros(d.P999))
}

func times(v, floor float64) string {
	if floor == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f times", v/floor)
}

// Picture shows the stages' medians on top of each other, by way and load.
func (r *Result) Picture() plot.Picture {
	p := plot.StackedBars{Title: "Where a request's time goes besides waiting by design and execution", Y: plot.Axis{Label: "median (us)"}}
	for s := range Own {
		p.Series = append(p.Series, plot.BarSeries{Name: s.Name()})
	}
	for i := range r.Ways {
		for k := range r.Ways[i].Loads {
			l := &r.Ways[i].Loads[k]
			p.Groups = append(p.Groups, fmt.Sprintf("%s %d %%", r.Ways[i].Name, l.Percent))
			for s := range Own {
				p.Series[s].Bars = append(p.Series[s].Bars, plot.Bar{Value: l.stage(s).P50})
			}
		}
	}
	p.Groups = append(p.Groups, "five bare hops")
	for s := range Own {
		p.Series[s].Bars = append(p.Series[s].Bars, plot.Bar{})
	}
	p.Series = append(p.Series, plot.BarSeries{Name: "bare TCP", Bars: make([]plot.Bar, len(p.Groups))})
	p.Series[Own].Bars[len(p.Groups)-1].Value = r.Floor.Hops.P50
	return p
}
