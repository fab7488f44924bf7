package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/partition"
)

// partitionView is a result as people and programs see it.
type partitionView struct {
	p      *partition.Problem
	r      *partition.Result
	from   planBefore
	before []partition.Load // of the plan before, with today's rates; nil: there is none
	gpus   []int
}

func newPartitionView(p *partition.Problem, r *partition.Result, from planBefore, gpus int) *partitionView {
	v := &partitionView{p: p, r: r, from: from}
	if gpus == 0 {
		gpus = partition.WholeGPUs(r.Loads)
	}
	v.gpus = partition.Deal(partition.Wants(r.Loads), gpus)
	if from.names != nil {
		was := *p
		was.SubClusters = max(p.SubClusters, len(from.names))
		v.before = make([]partition.Load, was.SubClusters)
		for j := range v.before {
			var only partition.Problem // of the models that were in j
			for i, from := range p.From {
				if from == j {
					only.Models = append(only.Models, p.Models[i])
				}
			}
			only.SubClusters = 1
			v.before[j] = only.Loads(make([]int, len(only.Models)))[0]
		}
	}
	return v
}

// planDoc is the JSON that --from and symphony plan apply read (controlcmd.ParsePlan).
type planDoc struct {
	Objective   string      `json:"objective"`
	SubClusters []planPart  `json:"sub_clusters"`
	Rate        float64     `json:"imbalance_rate"`   // (max - min) / mean
	Static      float64     `json:"imbalance_static"` // of static memory
	Value       float64     `json:"value"`            // of the objective: requests/s, or GPUs
	Bound       float64     `json:"bound"`            // no assignment is below
	Gap         float64     `json:"gap"`              // as a share
	Cost        float64     `json:"cost"`             // of the changes
	Found       string      `json:"found_by"`
	Moved       []planMoved `json:"moved"`
}

type planPart struct {
	api.PlanPart
	Rate    float64 `json:"rate"`
	Static  int64   `json:"static_bytes"`
	Dynamic int64   `json:"dynamic_bytes"`
	Paged   string  `json:"paged,omitempty"` // why its weights come and go; empty: all models are on all of its GPUs
}

type planMoved struct {
	Model string `json:"model"`
	From  string `json:"from"`
	To    string `json:"to"`
}

func (v *partitionView) doc() planDoc {
	d := planDoc{Objective: v.p.Objective.String(), Value: v.r.Value, Bound: v.r.Bound, Gap: v.r.Gap(v.p), Cost: v.r.Cost, Found: v.r.Found.String(), Moved: []planMoved{}}
	d.Rate, d.Static = partition.Imbalance(v.r.Loads)
	for j := range v.r.Loads {
		l := &v.r.Loads[j]
		d.SubClusters = append(d.SubClusters, planPart{api.PlanPart{Name: v.from.name(j), DeviceType: v.from.deviceType, Scheduler: v.from.scheduler, GPUs: v.gpus[j], Need: l.Need, Models: []string{}}, l.Rate, l.Static, l.Dynamic, v.from.paged})
	}
	for i, j := range v.r.Of {
		d.SubClusters[j].Models = append(d.SubClusters[j].Models, v.p.Models[i].Name)
	}
	for _, i := range v.r.Moved {
		d.Moved = append(d.Moved, planMoved{v.p.Models[i].Name, v.from.name(v.p.From[i]), v.from.name(v.r.Of[i])})
	}
	for _, o := range v.from.others {
		d.SubClusters = append(d.SubClusters, planPart{PlanPart: o})
	}
	return d
}

// print is the table.
func (v *partitionView) print(w io.Writer, movedMost int) {
	r, p := v.r, v.p
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "sub-cluster\tmodels\trequests/s\tof mean\tstatic\tof mean\tdynamic\tneed\tGPUs\t")
	rate, static := 0.0, 0.0
	for j := range r.Loads {
		rate, static = rate+r.Loads[j].Rate, static+float64(r.Loads[j].Static)
	}
	n, need, gpus := float64(len(r.Loads)), 0.0, 0
	for j := range r.Loads {
		l := &r.Loads[j]
		need, gpus = need+l.Need, gpus+v.gpus[j]
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%s\t%s\t%s\t%s\t%.2f\t%d\t\n", v.from.name(j), l.Models, l.Rate, ofMean(l.Rate, rate/n), gibs(l.Static), ofMean(float64(l.Static), static/n), gibs(l.Dynamic), l.Need, v.gpus[j])
	}
	fmt.Fprintf(t, "all\t%d\t%.1f\t\t%s\t\t\t%.2f\t%d\t\n", len(p.Models), rate, gibs(int64(static)), need, gpus)
	t.Flush()
	if v.from.paged != "" {
		fmt.Fprintf(w, "\npaged: weights come to the GPUs and go as requests need them: %s. Static is what stays there: resident models.\nGive the pools paged (backend.pools[].paged), or leave it out beside a memory that is too small: those whose own models do not fit become paged by themselves.\n", v.from.paged)
	}
	dR, dS := partition.Imbalance(r.Loads)
	fmt.Fprintf(w, "\nimbalance, (max - min) / mean: requests/s %s, static memory %s\n", percent(dR), percent(dS))
	if v.before != nil {
		bR, bS := partition.Imbalance(v.before)
		fmt.Fprintf(w, "before, with these rates:      requests/s %s, static memory %s\n", percent(bR), percent(bS))
	}
	unit := "requests/s: largest distances from the means"
	if p.Objective == partition.GPUs {
		unit = "GPUs"
	}
	fmt.Fprintf(w, "objective (%s): %.6g (%s); no assignment is below %.6g: at most %s to gain; found by %s\n", p.Objective, r.Value, unit, r.Bound, percent(r.Gap(p)), r.Found)
	if p.From != nil {
		v.printMoved(w, movedMost)
	}
}

func (v *partitionView) printMoved(w io.Writer, most int) {
	r, p := v.r, v.p
	fresh := 0
	for _, j := range p.From {
		if j < 0 {
			fresh++
		}
	}
	fmt.Fprintf(w, "%d of %d models move, %d are new; the changes cost %.6g", len(r.Moved), len(p.Models), fresh, r.Cost)
	if p.CostMax < 1e300 {
		fmt.Fprintf(w, " of at most %.6g", p.CostMax)
	}
	fmt.Fprintln(w)
	for k, i := range r.Moved {
		if k == most {
			fmt.Fprintf(w, "  and %d more (--moved, --json)\n", len(r.Moved)-most)
			break
		}
		fmt.Fprintf(w, "  %s: %s -> %s\n", p.Models[i].Name, v.from.name(p.From[i]), v.from.name(r.Of[i]))
	}
}

func ofMean(v, mean float64) string {
	if mean <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f %%", 100*v/mean)
}

func gibs(n int64) string { return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30)) }

func percent(share float64) string { return fmt.Sprintf("%.4g %%", 100*share) }

// checkPicture tries the files of --picture before the search.
func (c partitionCmd) checkPicture() error {
	if c.Picture == "" {
		return nil
	}
	base, err := pictureBase(c.Picture)
	if err != nil {
		return err
	}
	return errors.Join(cli.CheckWritable("picture", base+".svg"), cli.CheckWritable("picture", base+".png"))
}

func pictureBase(path string) (string, error) {
	base, ok := strings.CutSuffix(path, ".svg")
	if !ok {
		base, ok = strings.CutSuffix(path, ".png")
	}
	if !ok || filepath.Base(base) == "." || base == "" {
		return "", fmt.Errorf("--picture: %q, its name must end in .svg or .png", path)
	}
	return base, nil
}

// draw shows requests/s, memory and need by sub-cluster, before and after.
func (v *partitionView) draw(path string) error {
	base, err := pictureBase(path)
	if err != nil {
		return err
	}
	panel := func(label string, of func(*partition.Load) float64) plot.Picture {
		lines := plot.Lines{X: plot.Axis{Label: "sub-cluster"}, Y: plot.Axis{Label: label}}
		for _, k := range []struct {
			name  string
			loads []partition.Load
		}{{"before", v.before}, {"after", v.r.Loads}} {
			s := plot.Series{Name: k.name, Points: true}
			for j := range k.loads {
				s.X, s.Y = append(s.X, float64(j)), append(s.Y, of(&k.loads[j]))
			}
			if k.loads != nil {
				lines.Series = append(lines.Series, s)
			}
		}
		return lines
	}
	grid := plot.Grid{Panels: []plot.Picture{
		panel("requests/s", func(l *partition.Load) float64 { return l.Rate }),
		panel("memory (GiB)", func(l *partition.Load) float64 { return float64(l.Memory()) / (1 << 30) }),
		panel("need (GPUs)", func(l *partition.Load) float64 { return l.Need }),
	}}
	return plot.Write(base, plot.Size{W: 8, H: 9}, grid)
}
