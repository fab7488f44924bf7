package paper

import (
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/scheduler/control/autoscale"
)

const (
	fig15GPUs   = 512
	fig15Models = 24
	fig15Epochs = 120
)

// fig15: 24 models whose rates change, on 512 GPUs that are all there all the
// time. What the autoscaler advises is shown and not followed, as in the
// paper's figure. Symphony runs twice: with headroom 0, as the paper's does, and
// as it is by default, spending idle GPUs on latency.
func fig15(s *Session) error {
	j, bound, err := changingWorkload(Pick(s, 60.0, 600.0))
	if err != nil {
		return err
	}
	spends := j
	spends.System = Symphony
	all, err := Each(s, []Job[epochs]{{Kind: "changing", About: j, Run: j.run}, {Kind: "changing", About: spends, Run: spends.run}})
	if err != nil {
		return err
	}
	s.Setting("%g s simulated, %d epochs of %g s, seed %d", j.Seconds, fig15Epochs, j.Epoch, j.Seed)
	v, other := view(&j, &all[0]), view(&spends, &all[1])
	if err := s.PlotSized("fig15", plot.Size{W: 8, H: 9}, v.picture(other)); err != nil {
		return err
	}
	v.claim(s)
	v.claimSame(s, other)
	s.Note("The paper's rates come from 150 hours of video, which are not public. Here: two days, in each of which rates swing between 0.5 and 1.5 of their mean; every model has a swing of its own on top and a burst of 2.5 times its rate at a time of its own; and twice all models rise by 70 %%, beyond what the cluster carries. Time is compressed: %g s stand for 150 hours (%.0f times as fast) and an epoch of %g s for %.0f minutes. Rates are not scaled: a second holds as many requests as 512 GPUs serve. The mean load is half of the fluid bound, %s r/s.",
		j.Seconds, 150*3600/j.Seconds, j.Epoch, 150*60/float64(fig15Epochs), Rate(bound))
	s.Note("%d models of the A100 zoo, from the strongest batching to the weakest; popularity zipf:0.9 in a fixed mixed order. \"GPUs used\" are those that ran anything within the epoch, \"busy\" is the mean number that ran at a time. \"Need\" is what deferral alone would keep busy with what arrives, reckoned %d times an epoch, the highest of them. Advice of package autoscale, with its defaults. The table is of headroom 0, but for the two columns that say so.", fig15Models, needsEpoch)
	return s.Table("fig15", []string{"time s", "offered r/s", "served r/s", "bad rate", "GPUs used", "GPUs busy", "need", "advice", "why", "GPUs busy, headroom all", "bad rate, headroom all", "advice, headroom all"}, v.table(other))
}

// changingWorkload makes the rates; bound is what 512 GPUs carry at most.
func changingWorkload(seconds float64) (changingJob, float64, error) {
	w := Workload{GPUs: fig15GPUs, Popularity: "zipf:0.9"}
	models := ModelsOf(zoo.A100())
	for i := range fig15Models {
		place := i * 7 % fig15Models // so that popular ones are not those that batch best
		w.Models = append(w.Models, models[place*len(models)/fig15Models])
	}
	bound, err := w.Fluid()
	if err != nil {
		return changingJob{}, 0, err
	}
	parts, err := w.parts()
	if err != nil {
		return changingJob{}, 0, err
	}
	j := changingJob{System: SymphonyNone, GPUs: fig15GPUs, Seconds: seconds, Epoch: seconds / fig15Epochs, Seed: seedFirst}
	for i, p := range parts {
		at := func(share float64) string { return fmt.Sprintf("%.3fs", share*seconds) }
		own := 0.05 + 0.9*float64(i)/fig15Models // begin of the model's burst
		profile := fmt.Sprintf("diurnal:period=%s,depth=0.5*diurnal:period=%s,depth=0.2", at(0.5), at(1/float64(3+i%5)))
		profile += fmt.Sprintf("*step:%s=2.5,%s=1", at(own), at(own+0.02))
		profile += fmt.Sprintf("*step:%s=1.7,%s=1,%s=1.7,%s=1", at(0.22), at(0.26), at(0.74), at(0.78))
		j.Models = append(j.Models, changingModel{Model: w.Models[p.model], Rate: 0.5 * bound * p.share, Profile: profile})
	}
	return j, bound, nil
}

// fig15View is the run as curves over time.
type fig15View struct {
	job     *changingJob
	data    *epochs
	at      []float64 // s, middle of each epoch
	offered []float64 // r/s
	served  []float64
	bad     []float64 // rate
	advice  []float64 // GPUs to add; below 0: to remove
	why     []string
}

func view(j *changingJob, data *epochs) *fig15View {
	v := &fig15View{job: j, data: data}
	scaler := autoscale.New(autoscale.Config{})
	for k := range data.Arrived {
		var arrived, served int64
		for m := range data.Arrived[k] {
			arrived, served = arrived+data.Arrived[k][m], served+data.Served[k][m]
		}
		bad := 0.0
		if arrived > 0 {
			bad = 1 - float64(served)/float64(arrived)
		}
		advice := scaler.Close(autoscale.Epoch{GPUs: j.GPUs, Answered: arrived, Bad: arrived - served, Need: data.Need[k]})
		v.at = append(v.at, (float64(k)+0.5)*j.Epoch)
		v.offered, v.served = append(v.offered, float64(arrived)/j.Epoch), append(v.served, float64(served)/j.Epoch)
		v.bad, v.advice = append(v.bad, bad), append(v.advice, float64(advice.Add-advice.Remove))
		v.why = append(v.why, advice.Why.String())
	}
	return v
}

// table has a row for each epoch; other is the run with headroom all.
func (v *fig15View) table(other *fig15View) [][]string {
	var rows [][]string
	for k := range v.at {
		rows = append(rows, []string{Number(v.at[k], 2), Number(v.offered[k], 0), Number(v.served[k], 0), Number(v.bad[k], 4),
			fmt.Sprint(v.data.Used[k]), Number(v.data.Busy[k], 1), Number(v.data.Need[k], 1), Number(v.advice[k], 0), v.why[k],
			Number(other.data.Busy[k], 1), Number(other.bad[k], 4), Number(other.advice[k], 0)})
	}
	return rows
}

// picture is the paper's four subplots; other is the run with headroom all.
func (v *fig15View) picture(other *fig15View) plot.Grid {
	goodput := plot.Stack{Y: plot.Axis{Label: "goodput by model (requests/s)"}, At: v.at}
	for m := range v.job.Models {
		area := plot.Area{Name: v.job.Models[m].Name}
		for k := range v.at {
			area.Height = append(area.Height, float64(v.data.Served[k][m])/v.job.Epoch)
		}
		goodput.Areas = append(goodput.Areas, area)
	}
	goodput.Over = []plot.Series{{Name: "offered", X: v.at, Y: v.offered}}
	used := make([]float64, len(v.at))
	for k, n := range v.data.Used {
		used[k] = float64(n)
	}
	gpus := plot.Lines{Y: plot.Axis{Label: "GPUs", Min: 0, Max: 760}, HLines: []plot.Ref{{At: fig15GPUs, Label: "all"}}, Legend: plot.LegendRight,
		Series: []plot.Series{{Name: "used", X: v.at, Y: used}, {Name: "busy", X: v.at, Y: v.data.Busy}, {Name: "need", X: v.at, Y: v.data.Need}, {Name: "busy, headroom all", X: v.at, Y: other.data.Busy}}}
	advice := plot.Lines{Y: plot.Axis{Label: "advice (GPUs)"}, HLines: []plot.Ref{{At: 0}}, Series: []plot.Series{{Name: v.job.System, X: v.at, Y: v.advice}}}
	percent := func(rates []float64) []float64 {
		out := make([]float64, len(rates))
		for k, b := range rates {
			out[k] = 100 * b
		}
		return out
	}
	bad := plot.Lines{X: plot.Axis{Label: "time (s)"}, Y: plot.Axis{Label: "bad rate (%)"}, HLines: []plot.Ref{{At: 1, Label: "1 %"}}, Legend: plot.LegendRight,
		Series: []plot.Series{{Name: "headroom 0", X: v.at, Y: percent(v.bad)}, {Name: "headroom all", X: v.at, Y: percent(other.bad)}}}
	return plot.Grid{Panels: []plot.Picture{goodput, gpus, advice, bad}}
}

// busyFull is the busy share from which on the cluster is overloaded.
const busyFull = 0.98

func (v *fig15View) claim(s *Session) {
	var calm, calmLow, calmArrived, calmBad, over, overAdds, wrong int
	quiet := 0
	for k := range v.at {
		if v.data.Busy[k] < v.data.Busy[quiet] && k > 0 {
			quiet = k
		}
		if v.data.Busy[k] >= busyFull*fig15GPUs {
			over++
			if v.advice[k] > 0 || v.bad[k] <= 0.01 {
				overAdds++
			}
			continue
		}
		calm++
		calmArrived += int(v.offered[k])
		calmBad += int(v.offered[k] - v.served[k])
		if v.bad[k] <= 0.01 {
			calmLow++
		}
		if v.advice[k] > 0 {
			wrong++
		}
	}
	share := float64(calmBad) / float64(max(1, calmArrived))
	s.Claim(Claim{What: "bad rate while the cluster is not overloaded", Paper: "low", Ours: fmt.Sprintf("%s of all; at most 1 %% in %d of %d epochs", Percent(share), calmLow, calm), Holds: share <= 0.01 && calmLow >= calm*95/100})
	load := v.offered[quiet]
	s.Claim(Claim{What: "GPU use is consolidated when the load is low", Paper: "yes", Ours: fmt.Sprintf("%d of %d GPUs used (%.0f busy) at %s r/s", v.data.Used[quiet], fig15GPUs, v.data.Busy[quiet], Rate(load)),
		Holds: float64(v.data.Used[quiet]) <= 1.3*v.data.Busy[quiet]+20})
	s.Claim(Claim{What: "advice to add GPUs when overloaded", Paper: "yes", Ours: fmt.Sprintf("in %d of %d epochs in which all GPUs were busy (or the bad rate was at most 1 %% all the same)", overAdds, over), Holds: over > 0 && overAdds == over})
	removes := 0
	for _, a := range v.advice {
		if a < 0 {
			removes++
		}
	}
	s.Claim(Claim{What: "advice to remove GPUs when underloaded", Paper: "yes", Ours: fmt.Sprintf("in %d epochs; advice to add in %d of %d epochs with idle GPUs", removes, wrong, calm), Holds: removes > 0 && wrong <= calm/20})
}

// claimSame compares the advice of the run with headroom all.
func (v *fig15View) claimSame(s *Session, other *fig15View) {
	most, differ, busier := 0.0, 0, 0.0
	for k := range v.advice {
		apart := math.Abs(v.advice[k] - other.advice[k])
		if most = max(most, apart); apart > 0 {
			differ++
		}
		busier = max(busier, other.data.Busy[k]-v.data.Busy[k])
	}
	s.Claim(Claim{What: "advice with headroom 0 and all differs by at most 1 GPU in any epoch", Paper: "not compared: a version of ours",
		Ours: fmt.Sprintf("by at most %.0f GPUs, in %d of %d epochs at all, where up to %.0f GPUs more are busy", most, differ, len(v.advice), busier), Holds: most <= 1})
}
