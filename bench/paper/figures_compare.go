package paper

import (
	"fmt"
	"math"
	"slices"

	"github.com/symphony-serving/symphony/bench/sim/scenario"
)

// Verdict is what became of a claim.
type Verdict string

const (
	// Weaker is in the paper's direction, but not as far as its number.
	Weaker Verdict = "weaker"
	// Draw is neither way: the intervals overlap.
	Draw Verdict = "draw"

	yes Verdict = "yes"
	no  Verdict = "no"
)

func (c *Claim) verdict() Verdict {
	switch {
	case c.Holds:
		return yes
	case c.Short != "":
		return c.Short
	}
	return no
}

// judge fills in a verdict that was found by comparing.
func (c *Claim) judge(v Verdict) {
	c.Holds, c.Short = v == yes, ""
	if v == Weaker || v == Draw {
		c.Short = v
	}
}

// interval is a mean over the seeds with the half width of its 95 % confidence
// interval (Student's t).
//
// One seed tells no interval. Up to 1 % is a draw then: searches end within
// their tolerance, and arrivals by chance move them by as much again. Only
// quick runs have one seed, and large clusters in figure 13.
type interval struct {
	mean, half float64
	seeds      int
}

const oneSeedHalf = 0.005 // of the mean

func intervalOf(values []float64) interval {
	mean, half := scenario.Mean(values)
	if len(values) < 2 {
		half = oneSeedHalf * mean
	}
	return interval{mean, half, len(values)}
}

// ratios is a over b, seed by seed: both ran the same arrivals.
func ratios(a, b []float64) interval {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] / max(1, b[i])
	}
	return intervalOf(out)
}

// interval of a goodput. Searches of all seeds try the same rates, so equal
// results do not tell of a spread below the tolerance.
func (r *GoodputResult) interval() interval {
	i := intervalOf(r.Rates)
	i.half = max(i.half, r.Tolerance/2*i.mean)
	return i
}

// above is whether all of i lies above all of k.
func (i interval) above(k interval) bool { return i.mean-i.half > k.mean+k.half }

// against is yes where i is above k, no where it is below, else a draw.
func (i interval) against(k interval) Verdict {
	switch {
	case i.above(k):
		return yes
	case k.above(i):
		return no
	}
	return Draw
}

// times says whether i is at least factor times k, the paper's number; Weaker
// where it is only above k. The means are held to the number, the intervals
// tell a draw.
func (i interval) times(factor float64, k interval) Verdict {
	v := i.against(k)
	if v != yes || i.mean >= factor*k.mean {
		return v
	}
	return Weaker
}

// rate writes the interval as requests/s.
func (i interval) rate() string {
	if i.seeds < 2 {
		return Rate(i.mean)
	}
	return fmt.Sprintf("%s +- %s", Rate(i.mean), Rate(math.Ceil(i.half)))
}

// best is the interval with the highest mean, and its place.
func best(list []interval) (interval, int) {
	at := 0
	for n := range list {
		if list[n].mean > list[at].mean {
			at = n
		}
	}
	return list[at], at
}

// worst is the least of the verdicts: no, draw, weaker, yes; yes of none.
func worst(list ...Verdict) Verdict {
	for _, v := range []Verdict{no, Draw, Weaker} {
		if slices.Contains(list, v) {
			return v
		}
	}
	return yes
}

// overlap is the reason of a draw.
const overlap = "the 95 % intervals overlap, or one seed is within 1 %: a draw"

// drawn is the reason where v is a draw, else why.
func drawn(v Verdict, why string) string {
	if v == Draw {
		return overlap
	}
	return why
}
