package fleet

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/sim/fleet"
	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/transport/mono"
)

// write makes data, plot and report.
func (r *Result) write(o Options) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	table, err := r.csv()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{filepath.Join("data", "day.json"): append(text, '\n'), filepath.Join("data", "day.csv"): table, "REPORT.md": r.report()} {
		if err := os.WriteFile(filepath.Join(o.Out, name), content, 0o644); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	return plot.Write(filepath.Join(o.Out, "plots", "day"), plot.Size{W: 9, H: 8}, r.picture())
}

// csv is the ticks.
func (r *Result) csv() ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	rows := [][]string{{"at_s", "requests_per_s", "fluid_bound_gpus", "wanted_gpus", "planned_gpus", "serving_gpus", "alive_gpus", "short_sub_clusters"}}
	for _, t := range r.Ticks {
		rows = append(rows, []string{number(mono.Dur(t.At).Seconds(), 0), number(t.Rate, 1), number(t.Need, 3), number(t.Wants, 0), strconv.Itoa(t.Planned), strconv.Itoa(t.Serving), strconv.Itoa(t.Alive), strconv.Itoa(t.Short)})
	}
	err := w.WriteAll(rows)
	return b.Bytes(), err
}

func number(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

// sums are the windows by kind.
type sums struct {
	regular, rolling, still    fleet.WindowResult
	regulars, rollings, stills int
	worst                      float64 // bad rate of a regular one
}

func (r *Result) sums() (s sums) {
	for _, w := range r.Results {
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

// ratio is the GPUs of the plan to the fluid bound: on average over the day, and at the tick
// with the highest need.
func (r *Result) ratio() (mean, peak float64) {
	planned, need, most := 0.0, 0.0, 0.0
	for _, t := range r.Ticks {
		planned, need = planned+float64(t.Planned), need+t.Need
		if t.Need > most {
			most, peak = t.Need, float64(t.Planned)/t.Need
		}
	}
	return planned / max(1, need), peak
}

// report is REPORT.md.
func (r *Result) report() []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	s := r.sums()
	mean, peak := r.ratio()
	line("# A day of %d GPUs, %d models, %d sub-clusters\n", r.Size.GPUs, r.Size.Models, r.Size.SubClusters)
	line("Made by `%s`, Symphony %s, simulator %d, seed %d. The workload is synthetic; README.md says how it is made, what is", r.Command, r.Version, r.Core, r.Size.Seed)
	line("simulated step by step or request by request, and what is reckoned.\n")
	line("![GPUs, moves and bad rate through the day](plots/day.svg)\n")
	line("| | |\n|---|---|")
	line("| requests/s, least to most | %s to %s |", number(r.least(), 0), number(r.most(), 0))
	line("| fluid bound of one undivided cluster, least to most | %s to %s GPUs |", number(r.leastNeed(), 0), number(r.mostNeed(), 0))
	line("| GPUs of the plans to the fluid bound | %s on average, %s at the peak |", number(mean, 3), number(peak, 3))
	line("| goodput in %d windows of %s s of the whole cluster | %s %% of %d requests; the worst window %s %% |", s.regulars, number(r.Size.Stretch, 1), number(100-100*s.regular.BadRate(), 3), s.regular.Arrived, number(100-100*s.worst, 3))
	line("| bad rate in %d windows of roll-outs; the same arrivals with no step taken | %s %%; %s %% |", s.rollings, number(100*s.rolling.BadRate(), 3), number(100*s.still.BadRate(), 3))
	line("| in them: models routed elsewhere, GPUs drained, GPUs seated, GPUs that died | %d, %d, %d, %d |", s.rolling.Routes, s.rolling.Drains, s.rolling.Seats, s.rolling.Died)
	line("| requests that waited when their model moved; of them late or dropped | %d; %d |", s.rolling.Moved+s.regular.Moved, s.rolling.MovedBad+s.regular.MovedBad)
	line("| requests lost to moves (without any answer, or refused for a model that had moved) | %d |", s.rolling.Lost+s.regular.Lost+s.still.Lost)
	line("| ticks of %d x %d sub-clusters with fewer GPUs than the need | %d |", len(r.Ticks), r.Size.SubClusters, r.short())
	r.control(line)
	return b.Bytes()
}

// control is what the control plane did.
func (r *Result) control(line func(string, ...any)) {
	t := r.Totals
	moved, most, loads, marked := 0, 0, 0, 0
	why := map[plan.Why]int{}
	for _, e := range r.Epochs {
		moved, most, loads = moved+e.Moved, max(most, e.Moved), loads+e.Loads
		why[e.Why]++
		if e.Problems > 0 {
			marked++
		}
	}
	n := max(1, len(r.Epochs))
	line("| plans rolled out: regular, catalogue, GPUs, short, drift | %d: %d, %d, %d, %d, %d |", len(r.Epochs), why[plan.Regular], why[plan.Catalogue], why[plan.GPUs], why[plan.Short], why[plan.Drift])
	line("| plans whose moves were not worth it | %d |", t.Futile)
	line("| models moved by an epoch, mean and most; loads of an epoch, mean | %s, %d; %s |", number(float64(moved)/float64(n), 2), most, number(float64(loads)/float64(n), 0))
	line("| plans not as planned when the next one came (overtaken, GPUs missing) | %d |", marked)
	line("| steps: loads, unloads, routes, drains, seats, measures | %d: %d, %d, %d, %d, %d, %d |", t.Steps, t.Loads, t.Unloads, t.Routes, t.Drains, t.Seats, t.Measures)
	line("| loads that failed; of which nobody heard again | %d; %d |", t.Failed, t.Lost)
	line("| steps that took a sub-cluster below its need, for lack of GPUs | %d |", t.Why)
	line("| GPUs that died; controllers killed; changes of the catalogue | %d; %d; %d |", t.GPUsDied, t.Restarts, t.Catalogue)
	wait := 0.0
	if t.Served > 0 {
		wait = t.Unserved.Seconds() / float64(t.Served)
	}
	line("| new models: from `add` to the first request served, mean | %s s |", number(wait, 1))
}

func (r *Result) short() (n int) {
	for _, t := range r.Ticks {
		n += t.Short
	}
	return n
}

func (r *Result) least() float64 { return r.extreme(func(t fleet.Tick) float64 { return t.Rate }, -1) }
func (r *Result) most() float64  { return r.extreme(func(t fleet.Tick) float64 { return t.Rate }, 1) }
func (r *Result) leastNeed() float64 {
	return r.extreme(func(t fleet.Tick) float64 { return t.Need }, -1)
}
func (r *Result) mostNeed() float64 {
	return r.extreme(func(t fleet.Tick) float64 { return t.Need }, 1)
}

// extreme is the largest (sign 1) or the smallest (-1) of a value of the ticks.
func (r *Result) extreme(value func(fleet.Tick) float64, sign float64) float64 {
	best := 0.0
	for i, t := range r.Ticks {
		if v := value(t); i == 0 || sign*v > sign*best {
			best = v
		}
	}
	return best
}

// picture is GPUs, moves and bad rate against the hour.
func (r *Result) picture() plot.Picture {
	hour := func(at mono.Time) float64 { return mono.Dur(at).Seconds() / 3600 }
	x := plot.Axis{Label: "hour of the day"}
	gpus := plot.Lines{Title: "GPUs", X: x, Y: plot.Axis{Label: "GPUs"}}
	planned, fluid, alive := plot.Series{Name: "planned"}, plot.Series{Name: "fluid bound of one undivided cluster", Dashed: true}, plot.Series{Name: "alive"}
	for i, t := range r.Ticks {
		if i%10 == 0 {
			for _, s := range []struct {
				of *plot.Series
				v  float64
			}{{&planned, float64(t.Planned)}, {&fluid, t.Need}, {&alive, float64(t.Alive)}} {
				s.of.X, s.of.Y = append(s.of.X, hour(t.At)), append(s.of.Y, s.v)
			}
		}
	}
	gpus.Series = []plot.Series{planned, fluid, alive}
	moves := plot.Lines{Title: "Models moved by an epoch", X: x, Y: plot.Axis{Label: "models"}, Markers: true}
	moved := plot.Series{Name: "moved", Points: true}
	for _, e := range r.Epochs {
		moved.X, moved.Y = append(moved.X, hour(e.At)), append(moved.Y, float64(e.Moved))
	}
	moves.Series = []plot.Series{moved}
	bad := plot.Lines{Title: "Bad rate by window", X: x, Y: plot.Axis{Label: "%"}, Markers: true}
	regular, rolling, still := plot.Series{Name: "whole cluster"}, plot.Series{Name: "roll-outs", Points: true}, plot.Series{Name: "the same, no step taken", Points: true}
	for _, w := range r.Results {
		s := &regular
		if w.Epoch >= 0 && w.Still {
			s = &still
		} else if w.Epoch >= 0 {
			s = &rolling
		}
		s.X, s.Y = append(s.X, w.From/3600), append(s.Y, 100*w.Result.BadRate())
	}
	for _, s := range []plot.Series{regular, rolling, still} {
		if len(s.X) > 0 {
			bad.Series = append(bad.Series, s)
		}
	}
	return plot.Grid{Cols: 1, Panels: []plot.Picture{gpus, moves, bad}}
}
