package paper

// fig7: Symphony against eager scheduling and timeouts over the synthetic
// workloads of Table 1 (section 3.4.2).
//
//	points7 --measure7--> result7 --some below, some above 0.99--> measured again
//	                         |                                          |
//	                         +---------------> table, claims, plots <---+
//
// Rules:
//
//  1. All systems of a configuration have the same seeds and settings. A search
//     may stop at a rate that fails by chance below one that passes, so each side
//     is tried at what the other one carried: with each seed the searches of the
//     baselines begin at Symphony's goodput, and Symphony is searched again from
//     the best of theirs if that is higher on the whole. So a draw mostly comes
//     out as 1. Symphony has the last look; the baselines have twelve.
//  2. The best baseline is the best of eager with both drop policies and of five
//     timeouts with both. That is a choice made for each configuration with
//     hindsight, which no operator has.
//  3. Algorithm 1 with either drop policy is a version of Symphony and no
//     baseline. Symphony is held to both, in claims of their own, on a part of
//     the configurations drawn by chance, measured once, and without that last
//     look.
//  4. Configurations below 0.99 of the best are measured again, four times
//     longer and with three other seeds; the worst ones first when there are more
//     than the limit. Some of the others, drawn by chance, are measured
//     again as well: what noise lifts over the line is as much an error
//     as what it pushes below. Claims are judged by the corrected results and
//     show the first beside them (fig7_again.go).
//
// In full this is about 50 minutes on two processors: a configuration takes one of
// them 0.7 s, and one that is measured again 4 s.
func fig7(s *Session) error {
	k := Pick(s, settings7{30_000, 1, 3, 0.01}, settings7{40_000, 1, 6, 0.005})
	usual := newSet7("5,880", points7(), Pick(s, 150, all7), Pick(s, 150, 1000))
	tight := newSet7("tight", tight7(), Pick(s, 45, 600), 0)
	for _, set := range []*set7{usual, tight} {
		if err := s.measure7(k, set); err != nil {
			return err
		}
	}
	if err := s.measureAgain7(k, usual, Pick(s, 6, 200), Pick(s, 6, 200)); err != nil {
		return err
	}
	if err := s.measureAgain7(k, tight, Pick(s, 2, 30), Pick(s, 2, 40)); err != nil {
		return err
	}
	s.notes7(k, usual, tight)
	if err := s.tables7(usual, tight); err != nil {
		return err
	}
	if err := s.worstOnes7(k, usual, tight); err != nil {
		return err
	}
	s.claims7(usual)
	s.tightClaims7(tight)
	return s.plots7(usual)
}

// all7 is more than there are.
const all7 = 1 << 20

// measure7 measures a set's points once.
func (s *Session) measure7(k settings7, set *set7) error {
	jobs := make([]Job[result7], len(set.points))
	for i := range set.points {
		var versions []string
		if i < set.versions {
			versions = versions7()
		}
		m, err := k.plan(set.points[i], versions, seedsFrom(seedFirst, 1), 1)
		if err != nil {
			return err
		}
		jobs[i] = m.job()
	}
	var err error
	set.first, err = Each(s, jobs)
	return err
}

func (s *Session) notes7(k settings7, usual, tight *set7) {
	s.Setting("%d of the %d configurations, seed %d for their order and for the arrivals, others where it is said; %d of the %d tight ones beside them", len(usual.points), len(points7()), seedFirst, len(tight.points), len(tight7()))
	s.Setting("goodput: about %g requests counted near the bound and at least %g s, %g times that for the mix; tolerance %.2g %%; models alike are judged together", k.requests, k.least, k.mixed, 100*k.tolerance)
	s.Note("The paper does not say which configurations of Table 1 its 5,880 are; the full product of its columns is 7,560 without the mix. Read here: a model goes with an SLO of at least 2 l(2), 23 of the 30 pairs, with 6 counts, 7 ratios and 6 shapes (5,796); and the mix of the 35 models of the 1080Ti zoo with 7 ratios, 6 shapes, and SLOs once and twice the zoo's (84). The seven tight pairs that the reading leaves out (1,764 configurations) are measured too and reported apart: what the reading leaves out it does not hide.")
	s.Note("Baselines: eager and timeouts of 10, 20, 30, 40 and 50 %% of the SLO, each with Symphony's drop policy (\"target\") and with one that drops only what cannot make it alone. A timeout that misses its SLO at the rate of the best baseline so far is not searched. Algorithm 1 (exec is frontrun) with either drop policy is a version of Symphony and not among the baselines; it has claims of its own.")
	for _, set := range []*set7{usual, tight} {
		s.Note("%s", set.correction())
	}
}
