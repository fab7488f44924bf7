package clockwork

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/paper"
	"github.com/symphony-serving/symphony/bench/workload"
)

// table65: the same trace at 6,174 r/s for an hour on 20 GPUs, without errors.
func (o Options) table65(s *paper.Session) error {
	const rate = 6174.0
	var jobs []paper.Job[found8]
	slos := []float64{100, 25}
	warmup, count := o.span8(s, 60, 3600)
	for _, sys := range systems() {
		for _, slo := range slos {
			j := job8{System: sys.key, GPUs: 20, Mapping: workload.Striped, Rate: rate, SLO: slo, Warmup: warmup, Count: count, Seed: seedFirst}
			jobs = append(jobs, paper.Job[found8]{Kind: kind("fig8"), About: j, Run: j.run})
		}
	}
	found, err := paper.Each(s, jobs)
	if err != nil {
		return err
	}
	s.Setting("20 GPUs, 4,026 models, a synthetic trace of %g r/s, striped; %g s counted after %g s (the paper: 1 h); seed %d; lengths as in the profiles", rate, count, warmup, seedFirst)
	var rows [][]string
	for k := range found {
		sys, i := systems()[k/len(slos)], k%len(slos)
		slo := slos[i]
		_, _, b16, fluid, err := bounds8(20, workload.Striped, slo)
		if err != nil {
			return err
		}
		w := &found[k].All
		want := []float64{0.999, 0.982}[i]
		s.Claim(paper.Claim{What: fmt.Sprintf("%s: goodput at an SLO of %g ms", sys.name, slo), Paper: fmt.Sprintf(">= %g of what is offered (%s r/s of 6,174)", want, []string{"6,174", "6,060"}[i]),
			Ours: fmt.Sprintf("%.5f: %.0f of %.0f r/s", w.satisfied(), w.Served, w.Offered), Holds: w.satisfied() >= want})
		s.Claim(paper.Claim{What: fmt.Sprintf("%s: late at an SLO of %g ms", sys.name, slo), Paper: fmt.Sprintf("0 (%d)", []int{0, 361}[i]), Ours: fmt.Sprint(w.Late), Holds: w.Late == 0})
		rows = append(rows, []string{sys.name, paper.Number(slo, 0), paper.Number(w.Served, 0), paper.Number(w.Offered, 0), fmt.Sprint(w.Late), paper.Number(w.P50, 2), []string{"6.28", "5.77"}[i],
			paper.Number(w.P9999, 2), []string{"49.92", "21.60"}[i], paper.Number(w.Max, 2), paper.Number(w.Busy, 3), paper.Number(w.Copying, 3), paper.Number(float64(w.Cold)/float64(max(1, w.Arrived)), 4), paper.Number(b16, 0), paper.Number(fluid, 0)})
	}
	return s.Table("table65", []string{"system", "SLO ms", "goodput r/s", "offered r/s", "late", "p50 ms", "paper", "p99.99 ms", "paper", "max ms", "GPUs busy", "PCIe busy", "cold", "bound at b = 16", "fluid bound"}, rows)
}
