package paper

import (
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/bench/plot"
)

// fig6a: how much deferring gains, by the strength of batching. Ten models
// with alpha 1 ms and beta from 1 to 15 ms, SLO 2*l(8), on 32 GPUs (section
// 3.4.1).
//
// The paper does not say which requests its eager scheduler drops. So it runs
// with Symphony's drop policy, which leaves the instant of dispatch as the only
// difference, and with its own; the better one is the rival.
func fig6a(s *Session) error {
	betas := Pick(s, []float64{1, 2, 3, 5, 8, 11, 15}, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	systems := []string{Symphony, Eager, EagerTarget}
	var jobs []GoodputJob
	for _, beta := range betas {
		for _, system := range systems {
			jobs = append(jobs, GoodputJob{System: system, Workload: synthetic(beta), Grouped: true,
				Seeds: s.seeds(3), Seconds: Pick(s, 4.0, 15.0), Tolerance: Pick(s, 0.01, 0.002)})
		}
	}
	found, err := s.Goodputs(jobs)
	if err != nil {
		return err
	}
	same := plot.Series{Name: "eager, Symphony's drop policy", X: betas}
	best := plot.Series{Name: "eager, the better drop policy", X: betas, Dashed: true}
	var rows [][]string
	for i, beta := range betas {
		ours, head, target := found[3*i].Rate, found[3*i+1].Rate, found[3*i+2].Rate
		same.Y = append(same.Y, 100*target/ours)
		best.Y = append(best.Y, 100*max(head, target)/ours)
		w := synthetic(beta)
		fluid, err := w.Fluid()
		if err != nil {
			return err
		}
		rows = append(rows, []string{Number(beta, 0), Number(w.Models[0].SLO, 0), Rate(ours), Rate(head), Rate(target), Rate(fluid)})
	}
	if err := s.Table("fig6a", []string{"beta / alpha", "SLO (ms)", "Symphony (r/s)", "eager (r/s)", "eager target (r/s)", "fluid bound (r/s)"}, rows); err != nil {
		return err
	}
	s.fig6aClaims(found)
	return s.Plot("fig6a", plot.Lines{Title: "10 models on 32 GPUs, SLO 2 l(8)", X: plot.Axis{Label: "beta / alpha"},
		Y:      plot.Axis{Label: "goodput relative to Symphony (%)", Max: math.Ceil(highest(same.Y, best.Y)/10)*10 + 10},
		Series: []plot.Series{same, best}, HLines: []plot.Ref{{At: 100, Label: "Symphony"}}, Markers: true})
}

func synthetic(beta float64) Workload {
	return Workload{GPUs: 32, Models: []Model{{Name: "synthetic", Alpha: 1, Beta: beta, SLO: 2 * (8 + beta), Count: 10}}}
}

// fig6aClaims: found are Symphony, eager and eager target for each beta, from 1
// to 15.
func (s *Session) fig6aClaims(found []GoodputResult) {
	same := func(i int) interval { return ratios(found[i+2].Rates, found[i].Rates) }
	first, last := same(0), same(len(found)-3)
	s.Claim(Claim{What: "eager relative to deferred at beta/alpha = 1", Paper: "nearly the same", Ours: Percent(first.mean),
		Holds: first.mean >= 0.9, Why: "nearly: within 10 %"})
	c := Claim{What: "stronger batching, greater advantage", Paper: "bigger advantage", Ours: Percent(first.mean) + " at 1, " + Percent(last.mean) + " at 15"}
	v := first.against(last)
	c.Why = drawn(v, "")
	c.judge(v)
	s.Claim(c)
	var verdicts []Verdict
	most, draws := 0.0, 0
	for i := 0; i < len(found); i += 3 {
		rival, _ := best([]interval{found[i+1].interval(), found[i+2].interval()})
		v := found[i].interval().against(rival)
		most = max(most, rival.mean/found[i].Rate)
		if verdicts = append(verdicts, v); v == Draw {
			draws++
		}
	}
	c = Claim{What: "the better eager scheduler is below Symphony at every beta", Paper: "not compared",
		Ours: fmt.Sprintf("%s at most; draws at %d of %d", Percent(most), draws, len(verdicts))}
	c.judge(worst(verdicts...))
	c.Why = drawn(c.Short, "")
	s.Claim(c)
}

// highest of all lists.
func highest(lists ...[]float64) float64 {
	top := math.Inf(-1)
	for _, l := range lists {
		for _, v := range l {
			top = max(top, v)
		}
	}
	return top
}
