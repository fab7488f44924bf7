package paper

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/symphony-serving/symphony/bench/sim/blame"
)

// worst7 is how many of the configurations below 1 are explained.
const worst7 = 10

// below7 is a configuration in which a baseline has the higher goodput.
type below7 struct {
	set *set7
	i   int
	r   result7 // as measured last
}

func (b *below7) point() *point7 { return &b.set.points[b.i] }

// below are a set's configurations below 1, as measured last.
func (c *set7) below() []below7 {
	var out []below7
	for i, r := range c.results() {
		if r.againstBest() < 1 {
			out = append(out, below7{c, i, r})
		}
	}
	return out
}

// bestOf is who has the best baseline.
func (r *result7) bestOf() string {
	switch r.best() {
	case r.EagerTarget:
		return EagerTarget
	case r.Eager:
		return Eager
	}
	return r.TimeoutBy
}

// worstOnes7 tells how many configurations are below 1, and why the worst are.
func (s *Session) worstOnes7(k settings7, sets ...*set7) error {
	var all []below7
	for _, set := range sets {
		below := set.below()
		all = append(all, below...)
		if n := len(set.points); n > 0 {
			s.Note("%s", tellBelow7(set.name, below, n))
		}
	}
	slices.SortStableFunc(all, func(a, b below7) int { return cmp.Compare(a.r.againstBest(), b.r.againstBest()) })
	all = all[:min(worst7, len(all))]
	why, err := s.blame7(k, all)
	if err != nil || len(all) == 0 {
		return err
	}
	var rows [][]string
	for n, b := range all {
		rows = append(rows, []string{b.set.name, b.point().String(), Number(b.r.againstBest(), 4), Number(b.set.first[b.i].againstBest(), 4), Number(b.r.Symphony, 1), Number(b.r.best(), 1), b.r.bestOf(), why[n].String()})
	}
	return s.Table("fig7-worst", []string{"set", "configuration", "to the best", "at first", "Symphony (r/s)", "best baseline (r/s)", "which", "why: Symphony at the best baseline's rate"}, rows)
}

// tellBelow7 counts them.
func tellBelow7(name string, below []below7, of int) string {
	text := fmt.Sprintf("%s: in %d of %d configurations (%s) a baseline has the higher goodput", name, len(below), of, Percent(float64(len(below))/float64(of)))
	if len(below) == 0 {
		return text + "."
	}
	far, mean := 0, 0.0
	for i := range below {
		v := below[i].r.againstBest()
		mean += v / float64(len(below))
		if v < line7 {
			far++
		}
	}
	return fmt.Sprintf("%s, in %d of them by more than 1 %%; the mean of these ratios is %s. A search ends within its tolerance, so ratios just below 1 are draws. The worst are in the table fig7-worst: what Symphony does there at the best baseline's rate.", text, far, Number(mean, 4))
}

// blame7 describes a run that is to be explained.
type blame7 struct {
	Point   point7
	Rate    float64
	Seed    uint64
	Seconds float64
	Warmup  float64
}

// blame7 runs Symphony at the best baseline's rate, four times as long as a
// search's simulations.
func (s *Session) blame7(k settings7, worst []below7) ([]blame.Blame, error) {
	jobs := make([]Job[blame.Blame], len(worst))
	for n := range worst {
		m, err := k.plan(*worst[n].point(), nil, again7()[:1], 4)
		if err != nil {
			return nil, err
		}
		about := blame7{m.Point, math.Round(worst[n].r.best()), m.Seeds[0], m.Seconds, m.Warmup}
		jobs[n] = Job[blame.Blame]{Kind: "fig7-blame", About: about, Weight: about.Rate * (about.Seconds + about.Warmup), Run: about.run}
	}
	return Each(s, jobs)
}

func (b blame7) run(stop func() bool) (blame.Blame, error) {
	w, err := b.Point.workload()
	if err != nil {
		return blame.Blame{}, err
	}
	sys, err := SystemOf(Symphony)
	if err != nil {
		return blame.Blame{}, err
	}
	c, err := w.config(sys, b.Rate, b.Seed, b.Seconds, b.Warmup)
	if err != nil {
		return blame.Blame{}, err
	}
	return blame.Run(c, stop)
}
