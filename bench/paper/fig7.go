package paper

import (
	"cmp"
	"slices"
)

// fig7: Symphony against eager scheduling and timeouts over the synthetic
// workloads of Table 1 (section 3.4.2).
//
//	points7 --measure7--> result7 --below 0.99 of the best--> measured again
//	                         |                                     |
//	                         +---------------> table, claims, plots
//
// Rules:
//
//  1. All systems of a configuration have the same seeds and settings, and the
//     baselines' searches begin at Symphony's goodput: a draw comes out as 1.
//  2. The best baseline is the best of eager with both drop policies and of five
//     timeouts. That is a choice made for each configuration with hindsight,
//     which no operator has.
//  3. A configuration below 0.99 of the best is measured again, four times
//     longer and with three seeds; the worst ones first when there are more than
//     the limit. What comes out then counts, better or worse. Those at or above
//     0.99 are not measured again: that the noise helped some of them over the
//     line is possible, and said in the report.
func fig7(s *Session) error {
	k := Pick(s, settings7{30_000, 1, 3, 0.01}, settings7{80_000, 2, 6, 0.005})
	points := points7()
	all := len(points)
	const seed = 1
	points = sample7(points, Pick(s, 300, all), seed)
	tight := sample7(tight7(), Pick(s, 90, len(tight7())), seed)
	both := append(slices.Clone(points), tight...)
	results, err := s.measure7(k, both, seed)
	if err != nil {
		return err
	}
	again, left, err := s.measureAgain7(k, both, results, Pick(s, 20, 300))
	if err != nil {
		return err
	}
	s.notes7(k, len(points), all, len(tight), len(again), left)
	if err := s.tables7(both, results, again, len(points)); err != nil {
		return err
	}
	s.claims7(points, results[:len(points)])
	s.tightClaims7(tight, results[len(points):])
	return s.plots7(points, results[:len(points)])
}

// measure7 measures the points once.
func (s *Session) measure7(k settings7, points []point7, seed uint64) ([]result7, error) {
	jobs := make([]Job[result7], len(points))
	for i, p := range points {
		m, err := k.plan(p, []uint64{seed}, 1)
		if err != nil {
			return nil, err
		}
		jobs[i] = m.job()
	}
	return Each(s, jobs)
}

// measureAgain7 replaces the results below 0.99 by longer measurements, most
// of them: at most limit. It says which, and how many it had to leave.
func (s *Session) measureAgain7(k settings7, points []point7, results []result7, limit int) (again map[int]bool, left int, err error) {
	var low []int
	for i := range results {
		if results[i].againstBest() < 0.99 {
			low = append(low, i)
		}
	}
	slices.SortStableFunc(low, func(a, b int) int { return cmp.Compare(results[a].againstBest(), results[b].againstBest()) })
	left = max(0, len(low)-limit)
	low = low[:len(low)-left]
	jobs := make([]Job[result7], len(low))
	for n, i := range low {
		m, err := k.plan(points[i], []uint64{1, 2, 3}, 4)
		if err != nil {
			return nil, 0, err
		}
		if m.Timeouts = nil; results[i].Timeout > 0 {
			m.Timeouts = []float64{results[i].TimeoutK}
		}
		jobs[n] = m.job()
	}
	longer, err := Each(s, jobs)
	if err != nil {
		return nil, 0, err
	}
	again = map[int]bool{}
	for n, i := range low {
		results[i], again[i] = longer[n], true
	}
	return again, left, nil
}

func (s *Session) notes7(k settings7, measured, all, tight, again, left int) {
	s.Setting("%d of the %d configurations, seed 1 for the choice and for all arrivals; %d of the %d tight ones beside them", measured, all, tight, len(tight7()))
	s.Setting("goodput: about %g requests counted near the bound and at least %g s, %g times that for the mix; tolerance %.2g %%; models alike are judged together", k.requests, k.least, k.mixed, 100*k.tolerance)
	s.Note("The paper does not say which configurations of Table 1 its 5,880 are; the full product of its columns is 7,560 without the mix. Read here: a model goes with an SLO of at least 2 l(2), 23 of the 30 pairs, with 6 counts, 7 ratios and 6 shapes (5,796); and the mix of the 35 models of the 1080Ti zoo with 7 ratios, 6 shapes, and SLOs once and twice the zoo's (84). The seven tight pairs that the reading leaves out (1,764 configurations) are measured too and reported apart: what the reading leaves out it does not hide.")
	s.Note("Baselines: eager with Symphony's drop policy (\"eager target\"), eager that drops only what cannot make it alone, and timeouts of 10, 20, 30, 40 and 50 %% of the SLO. A timeout that misses its SLO at the rate of the best baseline so far is not searched.")
	s.Note("%d configurations came out below 0.99 of the best baseline at first and were measured again, four times longer and with three seeds; these results count. %d more were not, for lack of time, and count as first measured. Configurations at or above 0.99 were not measured again.", again, left)
}
