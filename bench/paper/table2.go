package paper

import (
	"fmt"
	"math"
	"strconv"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/transport/mono"
)

// table2: bounds and goodputs of one model on 8 GPUs. Algorithm 1 to the letter
// stands beside ours; it is no rival.
func table2(s *Session) error {
	list := singles()
	systems := []string{Symphony, Algorithm1, Clockwork, Nexus1FE, Nexus8FE, Shepherd, Eager, EagerTarget}
	var workloads []Workload
	for _, k := range list {
		workloads = append(workloads, k.workload)
	}
	var jobs []GoodputJob
	for _, w := range workloads {
		for _, name := range systems {
			jobs = append(jobs, GoodputJob{System: name, Workload: w, Seeds: s.seeds(5),
				Seconds: Pick(s, 10.0, 180.0), Tolerance: Pick(s, 0.01, 0.001)})
		}
	}
	found, err := s.Goodputs(jobs)
	if err != nil {
		return err
	}
	var rows [][]string
	for i, k := range list {
		more, err := boundsOf(&k.workload)
		if err != nil {
			return err
		}
		var rates []interval
		for n, name := range systems {
			r := &found[i*len(systems)+n]
			rates = append(rates, r.interval())
			rows = append(rows, append([]string{k.name(), name, Number(r.Rate, 0), spread(r.Rates), published(k.goodput[name]), strconv.Itoa(r.Measures.BatchP50)}, more...))
			claimGoodput(s, &k, name, rates[n])
		}
		rival, at := best(rates[2:])
		claimAgainst(s, k.name()+": Symphony has the highest goodput", "yes", rates[0], rival, systems[2+at])
		claimAgainst(s, k.name()+": Symphony above the paper's algorithm", "not compared: a version of ours", rates[0], rates[1], Algorithm1)
	}
	header := append([]string{"model", "system", "goodput r/s", "by seed", "paper r/s", "median batch", "no coordination: batch", "r/s", "staggered: batch"}, BoundHeader()...)
	if err := s.Table("table2", header, rows); err != nil {
		return err
	}
	return clockworkVariants(s, workloads)
}

// boundsOf: the analytical columns, and the fluid bound.
func boundsOf(w *Workload) ([]string, error) {
	p, err := w.Models[0].profileOf()
	if err != nil {
		return nil, err
	}
	alone, rate := report.Uncoordinated(p, mono.FromMillis(w.Models[0].SLO), w.GPUs)
	staggered, _, err := w.Staggered()
	if err != nil {
		return nil, err
	}
	bounds, err := BoundCells(w)
	return append([]string{strconv.Itoa(alone), Number(rate, 0), strconv.Itoa(staggered)}, bounds...), err
}

func published(v float64) string {
	if v == 0 {
		return "-"
	}
	return Number(v, 0)
}

func spread(rates []float64) string {
	low, high := math.Inf(1), 0.0
	for _, r := range rates {
		low, high = min(low, r), max(high, r)
	}
	return fmt.Sprintf("%.0f-%.0f", low, high)
}

// claimAgainst is that ours is above another's, told by the intervals.
func claimAgainst(s *Session, what, paper string, ours, other interval, name string) {
	c := Claim{What: what, Paper: paper, Ours: fmt.Sprintf("%s r/s; %s: %s", ours.rate(), name, other.rate()), Ratio: ours.mean / other.mean}
	c.judge(ours.against(other))
	c.Why = drawn(c.Short, "")
	s.Claim(c)
}

// claimGoodput: ours may be higher than the paper's, a baseline should be near
// it: a baseline that is weaker here than there would flatter us.
func claimGoodput(s *Session, k *single, name string, rate interval) {
	want, ok := k.goodput[name]
	if !ok {
		return
	}
	c := Claim{What: k.name() + ": goodput of " + name, Paper: Rate(want) + " r/s", Ours: rate.rate() + " r/s", Ratio: rate.mean / want}
	switch {
	case name != Symphony:
		c.Holds = math.Abs(c.Ratio-1) <= 0.15
	case rate.mean >= want:
		c.Holds = true
	case rate.mean+rate.half >= want:
		c.Short, c.Why = Draw, "the 95 % interval has the paper's number in it"
	}
	switch {
	case c.Holds || name == Symphony:
	case name == Clockwork:
		c.Why = "the paper's figure is what Clockwork serves beyond its goodput: see below"
	case c.Ratio > 1:
		c.Why = "the baseline is stronger here than the paper found it"
	}
	s.Claim(c)
}
