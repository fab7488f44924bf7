package fleet

import (
	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/transport/mono"
)

// pointEvery is how many ticks are one point of the picture: five minutes.
const pointEvery = 10

// picture is GPUs, moves and bad rate against the hour.
func (r *Result) picture() plot.Picture {
	x := plot.Axis{Label: "hour of the day"}
	hour := func(at mono.Time) float64 { return mono.Dur(at).Seconds() / 3600 }
	gpus := plot.Lines{Title: "GPUs", X: x, Y: plot.Axis{Label: "GPUs"}}
	moves := plot.Lines{Title: "Models moved by an epoch", X: x, Y: plot.Axis{Label: "models"}, Markers: true}
	bad := plot.Lines{Title: "Bad rate by window", X: x, Y: plot.Axis{Label: "%"}, Markers: true}
	fluid := plot.Series{Name: "fluid bound of one undivided cluster", Dashed: true}
	for k := range r.Days {
		d := &r.Days[k]
		planned, moved := plot.Series{Name: "planned, " + d.Planner}, plot.Series{Name: d.Planner, Points: true}
		for i, t := range d.Ticks {
			if i%pointEvery != 0 {
				continue
			}
			planned.X, planned.Y = append(planned.X, hour(t.At)), append(planned.Y, float64(t.Planned))
			if k == 0 {
				fluid.X, fluid.Y = append(fluid.X, hour(t.At)), append(fluid.Y, t.Need)
			}
		}
		for _, e := range d.Epochs {
			moved.X, moved.Y = append(moved.X, hour(e.At)), append(moved.Y, float64(e.Moved))
		}
		gpus.Series, moves.Series = append(gpus.Series, planned), append(moves.Series, moved)
		for _, s := range d.badRates() {
			if len(s.X) > 0 {
				bad.Series = append(bad.Series, s)
			}
		}
	}
	gpus.Series = append(gpus.Series, fluid)
	return plot.Grid{Cols: 1, Panels: []plot.Picture{gpus, moves, bad}}
}

// badRates are those of the windows of the whole cluster, and of roll-outs.
func (d *Day) badRates() []plot.Series {
	regular, rolling := plot.Series{Name: "whole cluster, " + d.Planner}, plot.Series{Name: "roll-outs, " + d.Planner, Points: true}
	for _, w := range d.Windows {
		s := &regular
		if w.Epoch >= 0 {
			s = &rolling
		}
		if !w.Still {
			s.X, s.Y = append(s.X, w.From/3600), append(s.Y, 100*w.Result.BadRate())
		}
	}
	return []plot.Series{regular, rolling}
}
