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
//  1. All systems of a configuration have the same seeds and settings, and the
//     other searches begin at Symphony's goodput: a draw comes out as 1.
//  2. The best baseline is the best of eager with both drop policies and of five
//     timeouts with both. That is a choice made for each configuration with
//     hindsight, which no operator has.
//  3. Algorithm 1 with either drop policy is a version of Symphony and no
//     baseline. Symphony is held to both, in claims of their own.
//  4. Configurations below 0.99 of the best are measured again, four times
//     longer, with three seeds and all timeouts; the worst ones first when there
//     are more than the limit. As many of the others, drawn by chance, are
//     measured again as well: what noise lifts over the line is as much an error
//     as what it pushes below. Claims are judged by the corrected results and
//     show the first beside them (fig7_again.go).
//
// In full this is about three hours on two processors: a configuration takes one
// of them 2 s, and one that is measured again 24 s.
func fig7(s *Session) error {
	k := Pick(s, settings7{30_000, 1, 3, 0.01}, settings7{50_000, 2, 6, 0.005})
	const seed = 1
	usual := &set7{name: "5,880", points: sample7(points7(), Pick(s, 150, all7), seed)}
	tight := &set7{name: "tight", points: sample7(tight7(), Pick(s, 45, all7), seed)}
	for _, set := range []*set7{usual, tight} {
		if err := s.measure7(k, set, seed); err != nil {
			return err
		}
	}
	if err := s.measureAgain7(k, usual, Pick(s, 6, 120), seed); err != nil {
		return err
	}
	if err := s.measureAgain7(k, tight, Pick(s, 2, 30), seed); err != nil {
		return err
	}
	s.notes7(k, usual, tight)
	if err := s.tables7(usual, tight); err != nil {
		return err
	}
	s.claims7(usual)
	s.tightClaims7(tight)
	return s.plots7(usual)
}

// all7 is more than there are.
const all7 = 1 << 20

// measure7 measures a set's points once.
func (s *Session) measure7(k settings7, set *set7, seed uint64) error {
	jobs := make([]Job[result7], len(set.points))
	for i, p := range set.points {
		m, err := k.plan(p, []uint64{seed}, 1)
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
	s.Setting("%d of the %d configurations, seed 1 for the choice and for all arrivals; %d of the %d tight ones beside them", len(usual.points), len(points7()), len(tight.points), len(tight7()))
	s.Setting("goodput: about %g requests counted near the bound and at least %g s, %g times that for the mix; tolerance %.2g %%; models alike are judged together", k.requests, k.least, k.mixed, 100*k.tolerance)
	s.Note("The paper does not say which configurations of Table 1 its 5,880 are; the full product of its columns is 7,560 without the mix. Read here: a model goes with an SLO of at least 2 l(2), 23 of the 30 pairs, with 6 counts, 7 ratios and 6 shapes (5,796); and the mix of the 35 models of the 1080Ti zoo with 7 ratios, 6 shapes, and SLOs once and twice the zoo's (84). The seven tight pairs that the reading leaves out (1,764 configurations) are measured too and reported apart: what the reading leaves out it does not hide.")
	s.Note("Baselines: eager and timeouts of 10, 20, 30, 40 and 50 %% of the SLO, each with Symphony's drop policy (\"target\") and with one that drops only what cannot make it alone. A timeout that misses its SLO at the rate of the best baseline so far is not searched. Algorithm 1 (exec is frontrun) with either drop policy is a version of Symphony and not among the baselines; it has claims of its own.")
	for _, set := range []*set7{usual, tight} {
		s.Note("%s", set.correction())
	}
}
