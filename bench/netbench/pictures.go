package netbench

import (
	"fmt"
	"strings"

	"github.com/symphony-serving/symphony/bench/plot"
)

// Tail is a picture like the paper's Figure 17: how long the READs of the incast
// take, by each way. caveat is its headline; "": none.
func (r *Result) Tail(caveat string) plot.Picture {
	each := fmt.Sprintf("Each of %d x %d READs of %s", r.Config.Servers, r.Config.Objects, sizeText(r.Config.Size))
	return plot.Grid{
		Title: heading("Incast over "+r.names(), caveat),
		Cols:  2,
		Panels: []plot.Picture{
			r.distribution(each, func(w *WayResult) *Spread { return &w.Incast.Read }),
			r.beyond("The slowest of these READs", func(w *WayResult) *Spread { return &w.Incast.Read }),
			r.distribution("Whole rounds", func(w *WayResult) *Spread { return &w.Incast.Round }),
			r.beyond("The slowest rounds", func(w *WayResult) *Spread { return &w.Incast.Round }),
		},
		Shared: len(r.Ways) > 1,
	}
}

// TailSize and LatencySize are the pictures' sizes.
func TailSize() plot.Size    { return plot.Size{W: 7.5, H: 6} }
func LatencySize() plot.Size { return plot.Size{W: 7.5, H: 3.8} }

// names are the ways', for titles: a picture of one has no legend.
func (r *Result) names() string {
	var all []string
	for _, w := range r.Ways {
		all = append(all, w.Name)
	}
	return strings.Join(all, " and ")
}

// heading is one line; the caveat is in it, for a picture may be seen without its text.
func heading(title, caveat string) string {
	if caveat == "" {
		return title
	}
	return title + " (" + caveat + ")"
}

// distribution draws the shares of samples up to the 99th percentile and beyond.
func (r *Result) distribution(title string, of func(*WayResult) *Spread) plot.Picture {
	p := plot.Lines{Title: title, X: plot.Axis{Label: "time (us)", Log: true}, Y: plot.Axis{Label: "share that took at most so long", Min: 0, Max: 1.02}}
	for i := range r.Ways {
		s := plot.Series{Name: r.Ways[i].Name}
		for _, at := range of(&r.Ways[i]).Curve {
			s.X, s.Y = append(s.X, at.Micros), append(s.Y, float64(at.Mille)/whole)
		}
		p.Series = withData(p.Series, s)
	}
	return p
}

// beyond draws how slow one sample in so many is, from the median on: the tail,
// decade by decade.
func (r *Result) beyond(title string, of func(*WayResult) *Spread) plot.Picture {
	p := plot.Lines{Title: title, X: plot.Axis{Label: "one in so many takes longer (2: median, 100: p99)", Log: true}, Y: plot.Axis{Label: "time (us)", Log: true}}
	for i := range r.Ways {
		s := plot.Series{Name: r.Ways[i].Name}
		for _, at := range of(&r.Ways[i]).Curve {
			if at.Mille >= whole/2 { // the faster half has the panel beside
				s.X, s.Y = append(s.X, whole/float64(whole-at.Mille)), append(s.Y, at.Micros)
			}
		}
		p.Series = withData(p.Series, s)
	}
	return p
}

// Latency is the picture of round trips by size of message; false: none was measured.
func (r *Result) Latency(caveat string) (plot.Picture, bool) {
	g := plot.Grid{Title: heading("Round trips over "+r.names(), caveat), Cols: 2, Shared: len(r.Ways) > 1}
	for _, p := range []plot.Lines{
		r.bySize("Median", func(d *Spread) float64 { return d.P50 }),
		r.bySize("99th percentile", func(d *Spread) float64 { return d.P99 }),
	} {
		if len(p.Series) > 0 {
			g.Panels = append(g.Panels, p)
		}
	}
	return g, len(g.Panels) > 0
}

// bySize draws frames and payloads as one line: where both were measured, what the
// system does, which is frames below payloadFrom.
func (r *Result) bySize(title string, of func(*Spread) float64) plot.Lines {
	p := plot.Lines{Title: title, X: plot.Axis{Label: "size of each message (bytes)", Log: true}, Y: plot.Axis{Label: "round trip (us)", Log: true},
		Markers: true, VLines: []plot.Ref{{At: payloadFrom, Label: "from here: payload"}}}
	for i := range r.Ways {
		s := plot.Series{Name: r.Ways[i].Name}
		for k := range r.Ways[i].Echo {
			e := &r.Ways[i].Echo[k]
			if v := of(&e.Spread); v > 0 && e.Payload == (e.Bytes >= payloadFrom) {
				s.X, s.Y = append(s.X, float64(e.Bytes)), append(s.Y, v)
			}
		}
		p.Series = withData(p.Series, s)
	}
	return p
}

// withData leaves out what an interrupted run did not come to.
func withData(all []plot.Series, s plot.Series) []plot.Series {
	if len(s.X) == 0 {
		return all
	}
	return append(all, s)
}

// payloadFrom is the size from which pictures show messages with payload.
const payloadFrom = 8 << 10
