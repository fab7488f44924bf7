package netbench

import (
	"fmt"
	"io"

	"github.com/symphony-serving/symphony/bench/report"
)

// Caveat is what must stand beside figures of a device in software.
const Caveat = "soft-RoCE under emulation: shape, not speed"

// String is the shape in words.
func (s Shape) String() string {
	if s.Payload {
		return sizeText(s.Bytes) + " payload"
	}
	return sizeText(s.Bytes)
}

// sizeText writes bytes with their unit where they are whole KiB or MiB.
func sizeText(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	case n >= 1000 && n%1000 == 0:
		return fmt.Sprintf("%d KB", n/1000)
	}
	return fmt.Sprintf("%d B", n)
}

// Print writes the tables for people.
func (r *Result) Print(to io.Writer) {
	if r.Interrupted {
		fmt.Fprint(to, "INTERRUPTED: this is what had been measured by then.\n\n")
	}
	lacks := r.printIncast(to)
	lacks = r.printEchoes(to) || lacks
	r.printFloods(to)
	if lacks {
		fmt.Fprintln(to, "\n-: too few samples for this percentile; p99.99 takes 10,000, p99.9 takes 1,000, p99 takes 100.")
	}
}

func (r *Result) printIncast(to io.Writer) (lacks bool) {
	fmt.Fprintf(to, "Incast: %d servers, %d objects of %s each, all READ at once, round after round.\n", r.Config.Servers, r.Config.Objects, sizeText(r.Config.Size))
	w := report.Table(to)
	fmt.Fprintln(w, "us\t\tsamples\tmin\tp50\tp99\tp99.9\tp99.99\tmax\t")
	rows := []struct {
		what string
		of   func(*WayResult) *Spread
	}{
		{"whole round", func(w *WayResult) *Spread { return &w.Incast.Round }},
		{"each READ of a round", func(w *WayResult) *Spread { return &w.Incast.Read }},
		{"one READ alone", func(w *WayResult) *Spread { return &w.Alone }},
	}
	for _, row := range rows {
		for i := range r.Ways {
			d := row.of(&r.Ways[i])
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", row.what, r.Ways[i].Name, d.Samples, report.Micros(d.Min), report.Micros(d.P50), report.Micros(d.P99), report.Micros(d.P999), report.Micros(d.P9999), report.Micros(d.Max))
			lacks = lacks || d.P9999 == 0
		}
	}
	w.Flush()
	fmt.Fprintln(to)
	w = report.Table(to)
	fmt.Fprintln(w, "\tGB/s in rounds\tclient CPU ns/B\tservers CPU ns/B\tmachine CPU ns/B\t")
	for i := range r.Ways {
		in := &r.Ways[i].Incast
		fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%.3f\t%s\t\n", r.Ways[i].Name, in.Rate, in.Client, in.Servers, ratio(in.Machine))
	}
	w.Flush()
	return lacks
}

func (r *Result) printEchoes(to io.Writer) (lacks bool) {
	if len(r.Ways[0].Echo) == 0 {
		return false
	}
	fmt.Fprintln(to, "\nMessages: round trip with an answer of the same size.")
	w := report.Table(to)
	fmt.Fprintln(w, "us\tby\t\tsamples\tmin\tp50\tp99\tp99.9\tp99.99\tmax\t")
	for _, s := range echoShapes() {
		for i := range r.Ways {
			d := r.Ways[i].echo(s)
			if d == nil {
				continue
			}
			by := "Send"
			if s.Payload {
				by = "SendPayload"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", sizeText(s.Bytes), by, r.Ways[i].Name, d.Samples, report.Micros(d.Min), report.Micros(d.P50), report.Micros(d.P99), report.Micros(d.P999), report.Micros(d.P9999), report.Micros(d.Max))
			lacks = lacks || d.P9999 == 0
		}
	}
	w.Flush()
	return lacks
}

// echo finds a shape; nil: not measured.
func (w *WayResult) echo(s Shape) *Spread {
	for i := range w.Echo {
		if w.Echo[i].Shape == s {
			return &w.Echo[i].Spread
		}
	}
	return nil
}

func (r *Result) printFloods(to io.Writer) {
	if len(r.Ways[0].Flood) == 0 {
		return
	}
	fmt.Fprintln(to, "\nMessages one way, one Send each, from one goroutine:")
	w := report.Table(to)
	fmt.Fprintln(w, "\t\tmessages/s\t")
	for _, n := range floodSizes() {
		for i := range r.Ways {
			for _, f := range r.Ways[i].Flood {
				if f.Bytes == n {
					fmt.Fprintf(w, "%s\t%s\t%.0f\t\n", sizeText(n), r.Ways[i].Name, f.PerSec)
				}
			}
		}
	}
	w.Flush()
}

func ratio(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", v)
}
