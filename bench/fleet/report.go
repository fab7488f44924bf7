package fleet

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/bench/sim/fleet"
	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/transport/mono"
)

// write makes data, plot and report.
func (r *Result) write(o Options) error {
	to := report.Folder(o.Out)
	if err := to.Write("day", r, r.rows(), r.report()); err != nil {
		return err
	}
	return plot.Write(to.Plot("day"), plot.Size{W: 9, H: 8}, r.picture())
}

// rows are the ticks.
func (r *Result) rows() [][]string {
	rows := [][]string{{"planner", "at_s", "requests_per_s", "fluid_bound_gpus", "wanted_gpus", "planned_gpus", "serving_gpus", "alive_gpus", "short_sub_clusters"}}
	for _, d := range r.Days {
		for _, t := range d.Ticks {
			rows = append(rows, []string{d.Planner, number(mono.Dur(t.At).Seconds(), 0), number(t.Rate, 1), number(t.Need, 3), number(t.Wants, 0), strconv.Itoa(t.Planned), strconv.Itoa(t.Serving), strconv.Itoa(t.Alive), strconv.Itoa(t.Short)})
		}
	}
	return rows
}

func number(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

// sums are the windows by kind.
type sums struct {
	regular, rolling, still    fleet.WindowResult
	regulars, rollings, stills int
	worst                      float64 // bad rate of a regular one
}

func (d *Day) sums() (s sums) {
	for _, w := range d.Windows {
		switch {
		case w.Epoch < 0:
			s.regular.Add(w.Result)
			s.regulars++
			s.worst = max(s.worst, w.Result.BadRate())
		case w.Still:
			s.still.Add(w.Result)
			s.stills++
		default:
			s.rolling.Add(w.Result)
			s.rollings++
		}
	}
	return s
}

// all of the windows in which time goes on.
func (s *sums) all() fleet.WindowResult {
	all := s.regular
	all.Add(s.rolling)
	return all
}

// ratio is the GPUs of the plan to the fluid bound: on average over the day, and at the tick
// with the highest need.
func (d *Day) ratio() (mean, peak float64) {
	planned, need, most := 0.0, 0.0, 0.0
	for _, t := range d.Ticks {
		planned, need = planned+float64(t.Planned), need+t.Need
		if t.Need > most {
			most, peak = t.Need, float64(t.Planned)/t.Need
		}
	}
	return planned / max(1, need), peak
}

// row of the report's table.
type row struct {
	label string
	value func(d *Day, s *sums) string
}

// report is REPORT.md.
func (r *Result) report() []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# A day of %d GPUs, %d models, %d sub-clusters\n", r.Size.GPUs, r.Size.Models, r.Size.SubClusters)
	line("Made by `%s`, Symphony %s, simulator %d, seed %d. The workload is synthetic. [README.md](README.md) says how it is made,", r.Command, r.Version, r.Core, r.Size.Seed)
	line("what is simulated step by step or request by request, and what is reckoned.\n")
	line("![GPUs, moves and bad rate through the day](plots/day.svg)\n")
	head, rule := "| planner |", "|---|"
	for i := range r.Days {
		head, rule = head+" "+r.Days[i].Planner+" |", rule+"---|"
	}
	line("%s\n%s", head, rule)
	for _, part := range [][]row{r.requestRows(), controlRows()} {
		for _, row := range part {
			text := "| " + row.label + " |"
			for i := range r.Days {
				s := r.Days[i].sums()
				text += " " + row.value(&r.Days[i], &s) + " |"
			}
			line("%s", text)
		}
	}
	return b.Bytes()
}

// requestRows are about GPUs and requests.
func (r *Result) requestRows() []row {
	rate := func(t fleet.Tick) float64 { return t.Rate }
	need := func(t fleet.Tick) float64 { return t.Need }
	return []row{
		{"requests/s, least to most", func(d *Day, _ *sums) string {
			return number(d.extreme(rate, -1), 0) + " to " + number(d.extreme(rate, 1), 0)
		}},
		{"fluid bound of one undivided cluster, GPUs, least to most", func(d *Day, _ *sums) string {
			return number(d.extreme(need, -1), 0) + " to " + number(d.extreme(need, 1), 0)
		}},
		{"GPUs of the plans to the fluid bound, mean of the day; at the peak", func(d *Day, _ *sums) string {
			mean, peak := d.ratio()
			return number(mean, 3) + "; " + number(peak, 3)
		}},
		{fmt.Sprintf("goodput in windows of %s s of the whole cluster, share of the requests", number(r.Size.Stretch, 1)), func(_ *Day, s *sums) string { return number(100-100*s.regular.BadRate(), 3) + " %" }},
		{"windows; their requests; goodput of the worst", func(_ *Day, s *sums) string {
			return fmt.Sprintf("%d; %d; %s %%", s.regulars, s.regular.Arrived, number(100-100*s.worst, 3))
		}},
		{"bad rate in windows of roll-outs; with the same arrivals and no step taken", func(_ *Day, s *sums) string {
			return fmt.Sprintf("%s %%; %s %%", number(100*s.rolling.BadRate(), 3), number(100*s.still.BadRate(), 3))
		}},
		{"windows; in them routes, drains, seats, GPUs that died", func(_ *Day, s *sums) string {
			return fmt.Sprintf("%d; %d, %d, %d, %d", s.rollings, s.rolling.Routes, s.rolling.Drains, s.rolling.Seats, s.rolling.Died)
		}},
		{"requests that waited when their model moved; of them late or dropped", func(_ *Day, s *sums) string { all := s.all(); return fmt.Sprintf("%d; %d", all.Moved, all.MovedBad) }},
		{"requests lost to moves (without any answer, or refused for a model that had moved)", func(_ *Day, s *sums) string { all := s.all(); return strconv.FormatInt(all.Lost, 10) }},
		{"sub-clusters with fewer GPUs than their need, of all at all ticks", func(d *Day, _ *sums) string {
			n := 0
			for _, t := range d.Ticks {
				n += t.Short
			}
			return fmt.Sprintf("%d of %d", n, len(d.Ticks)*r.Size.SubClusters)
		}},
	}
}

// controlRows are about what the control plane did.
func controlRows() []row {
	return []row{
		{"plans: regular, catalogue, GPUs, short, drift", func(d *Day, _ *sums) string {
			var n [plan.Regular + 1]int
			for _, e := range d.Epochs {
				n[e.Why]++
			}
			return fmt.Sprintf("%d: %d, %d, %d, %d, %d", len(d.Epochs), n[plan.Regular], n[plan.Catalogue], n[plan.GPUs], n[plan.Short], n[plan.Drift])
		}},
		{"plans whose moves were not worth it", func(d *Day, _ *sums) string { return strconv.Itoa(d.Totals.Futile) }},
		{"plans overtaken under way; ended with something left undone", func(d *Day, _ *sums) string {
			var n [plan.Marked + 1]int
			for _, e := range d.Epochs {
				n[e.Phase]++
			}
			return fmt.Sprintf("%d; %d", n[plan.Running], n[plan.Marked])
		}},
		{"models moved by an epoch, mean and most; loads of an epoch, mean", func(d *Day, _ *sums) string {
			moved, most, loads := 0, 0, 0
			for _, e := range d.Epochs {
				moved, most, loads = moved+e.Moved, max(most, e.Moved), loads+e.Loads
			}
			n := float64(max(1, len(d.Epochs)))
			return fmt.Sprintf("%s, %d; %s", number(float64(moved)/n, 2), most, number(float64(loads)/n, 0))
		}},
		{"steps: loads, unloads, routes, drains, seats, measures", func(d *Day, _ *sums) string {
			t := d.Totals
			return fmt.Sprintf("%d: %d, %d, %d, %d, %d, %d", t.Steps, t.Loads, t.Unloads, t.Routes, t.Drains, t.Seats, t.Measures)
		}},
		{"loads that failed; of which nobody heard again", func(d *Day, _ *sums) string { return fmt.Sprintf("%d; %d", d.Totals.Failed, d.Totals.Lost) }},
		{"steps that took a sub-cluster below its need, for lack of GPUs", func(d *Day, _ *sums) string { return strconv.Itoa(d.Totals.Why) }},
		{"GPUs that died; controllers killed; changes of the catalogue", func(d *Day, _ *sums) string {
			return fmt.Sprintf("%d; %d; %d", d.Totals.GPUsDied, d.Totals.Restarts, d.Totals.Catalogue)
		}},
		{"new models: from the catalogue to their first request, mean", func(d *Day, _ *sums) string {
			return number(d.Totals.Unserved.Seconds()/float64(max(1, d.Totals.Served)), 1) + " s"
		}},
	}
}

// extreme is the largest (sign 1) or the smallest (-1) of a value of the ticks.
func (d *Day) extreme(value func(fleet.Tick) float64, sign float64) float64 {
	best := 0.0
	for i, t := range d.Ticks {
		if v := value(t); i == 0 || sign*v > sign*best {
			best = v
		}
	}
	return best
}
