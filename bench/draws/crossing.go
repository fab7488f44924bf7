package draws

// crossing finds where, on a grid of rates, a policy turns from keeping every p99
// to not.
//
// A run is chaotic: of two rates that differ by half a percent the higher one may
// pass and the lower one fail. A bisection takes each verdict for certain, so
// where it ends depends on where it began: one that begins below the turn stops at
// the first rate that fails by chance, one that begins above it at the first that passes by
// chance. Here a bisection only says where to look. Then every place about
// the turn is tried, from settled places in a row that pass up to as many that
// fail. The result is the place up to which all would pass if the passes among them
// stood below the failures: the estimate of Spearman and Kärber, which is the
// middle of the turn, whatever its shape, where nothing fails below these
// places and nothing passes above.
//
// The grid, and place 0, where the search begins, are the same for all policies
// that are compared.
type crossing struct {
	try     func(place int) (pass bool, err error)
	settled int // places in a row, on either side
	least   int // the lowest place that is tried
	near    int // where two places up to it failed, and none above it passed, the turn is told roughly
}

// turn is what a crossing found.
type turn struct {
	place int // the goodput; below least if nothing passed
	low   int // the lowest place that failed
	high  int // the highest one that passed: above low where verdicts contradict each other
}

const (
	firstStep = 8       // places, while the turn is looked for
	beyond    = 1 << 30 // all places
)

// find finds the turn.
func (c *crossing) find() (turn, error) {
	s := searched{crossing: c, turn: turn{low: beyond, high: c.least - 1}, pass: map[int]bool{}}
	rough, err := s.bracket()
	if err == nil && !rough {
		err = s.settle()
	}
	s.place = s.high
	for place := s.low; !rough && place < s.high; place++ {
		if !s.pass[place] {
			s.place-- // a failure among the passes
		}
	}
	return s.turn, err
}

// searched is a crossing under way.
type searched struct {
	*crossing
	turn
	pass   map[int]bool // of what was tried
	failed int          // places up to near
}

// at is the verdict at a place.
func (s *searched) at(place int) (pass bool, err error) {
	if pass, tried := s.pass[place]; tried {
		return pass, nil
	}
	if pass, err = s.try(place); err != nil {
		return false, err
	}
	s.pass[place] = pass
	if pass {
		s.high = max(s.high, place)
		return true, nil
	}
	s.low = min(s.low, place)
	if place <= s.near {
		s.failed++
	}
	return false, nil
}

// bracket steps from place 0 up or down, further each time, until a place passes and one
// above it fails, and halves what is between them. It is rough, and over, where
// nothing passes, or only what is far from the best.
func (s *searched) bracket() (rough bool, err error) {
	below, above := s.least-1, beyond
	for place, step := 0, firstStep; above-below > 1; {
		pass, err := s.at(place)
		if err != nil {
			return false, err
		}
		if pass {
			below = place
		} else {
			above = place
		}
		switch {
		case above == beyond:
			place += step
			step += step / 4
		case below < min(0, s.least): // nothing has passed
			place = max(place-step, s.least)
			step += step / 4
		case s.failed >= 2 && s.high <= s.near:
			return true, nil
		default:
			place = below + (above-below)/2
		}
	}
	return below < s.least, nil
}

// settle tries what has not been tried from settled places below the lowest failure up to
// settled places above the highest pass; what it finds may move both.
func (s *searched) settle() error {
	for low, high := beyond, s.least-1; low != s.low || high != s.high; {
		low, high = s.low, s.high
		for place := max(s.least, low-s.settled); place <= high+s.settled; place++ {
			if _, err := s.at(place); err != nil {
				return err
			}
		}
	}
	return nil
}
