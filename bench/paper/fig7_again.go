package paper

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// set7 is configurations, in an order drawn by chance, with their results.
type set7 struct {
	name     string
	points   []point7
	versions int             // so many of them, from the first on, with versions of Symphony
	first    []result7       // measured once
	again    map[int]result7 // measured longer
}

// newSet7 draws n of the configurations.
func newSet7(name string, all []point7, n, versions int) *set7 {
	points := sample7(all, n, seedFirst)
	return &set7{name: name, points: points, versions: min(versions, len(points))}
}

// once is the first n of the set, as first measured.
func (c *set7) once(n int) *set7 {
	return &set7{name: c.name, points: c.points[:n], versions: min(n, c.versions), first: c.first[:n]}
}

// line7 is the share of the best baseline at which a configuration counts as
// won or drawn; also the line between those of which the worst are measured
// again and those of which a sample is.
const line7 = 0.99

// sides are the configurations below the line at first, the worst first, and
// the others in their order.
func (c *set7) sides() (low, high []int) {
	for i := range c.first {
		if c.first[i].againstBest() < line7 {
			low = append(low, i)
		} else {
			high = append(high, i)
		}
	}
	slices.SortStableFunc(low, func(a, b int) int { return cmp.Compare(c.first[a].againstBest(), c.first[b].againstBest()) })
	return low, high
}

// again7 are the seeds of what is measured again.
func again7() []uint64 { return seedsFrom(seedFirst+1, 3) }

// measureAgain7 measures configurations again: of those below the line the
// worst, and of the others some drawn by chance.
func (s *Session) measureAgain7(k settings7, set *set7, worst, sample int) error {
	low, high := set.sides()
	which := append(low[:min(worst, len(low)):len(low)], sample7(high, sample, seedFirst)...)
	jobs := make([]Job[result7], len(which))
	for n, i := range which {
		m, err := k.plan(set.points[i], nil, again7(), 4)
		if err != nil {
			return err
		}
		jobs[n] = m.job()
	}
	longer, err := Each(s, jobs)
	if err != nil {
		return err
	}
	set.again = map[int]result7{}
	for n, i := range which {
		set.again[i] = longer[n]
	}
	return nil
}

// results are the longer measurements where there are some.
func (c *set7) results() []result7 {
	out := slices.Clone(c.first)
	for i, r := range c.again {
		out[i] = r
	}
	return out
}

// share is how many of the results hold, as first measured and corrected, and
// the corrected share's 95 % interval. What was below the line counts as
// measured last. What was not is represented by the sample of it that was
// measured again; its size is what makes the interval (Wilson's).
func (c *set7) share(holds func(*result7) bool) (first, corrected float64, within [2]float64) {
	all := float64(max(1, len(c.first)))
	low, high := c.sides()
	results := c.results()
	count := func(results []result7, which []int) (n float64) {
		for _, i := range which {
			if holds(&results[i]) {
				n++
			}
		}
		return n
	}
	first = (count(c.first, low) + count(c.first, high)) / all
	sampled := slices.DeleteFunc(slices.Clone(high), func(i int) bool { _, ok := c.again[i]; return !ok })
	below, above := count(results, low)/all, float64(len(high))/all
	if len(sampled) == 0 {
		corrected = below + count(c.first, high)/all
		return first, corrected, [2]float64{corrected, corrected}
	}
	n, k := float64(len(sampled)), count(results, sampled)
	least, most := wilson(k, n)
	return first, below + above*k/n, [2]float64{below + above*least, below + above*most}
}

// wilson is the 95 % score interval of a share of which k in n were seen.
func wilson(k, n float64) (least, most float64) {
	const z = 1.96
	p, q := k/n, z*z/n
	mid, half := p+q/2, z*math.Sqrt(p*(1-p)/n+q/(4*n))
	return max(0, (mid-half)/(1+q)), min(1, (mid+half)/(1+q))
}

// correction tells what measuring again did on both sides of the line.
func (c *set7) correction() string {
	low, high := c.sides()
	text := fmt.Sprintf("%s: %d of %d configurations came out below %g of the best baseline at first.", c.name, len(low), len(c.first), line7)
	for _, side := range []struct {
		of    []int
		name  string
		moved string
	}{{low, "below", "came up to it"}, {high, "not below", "fell below it"}} {
		n, moved, before, after := 0, 0, 0.0, 0.0
		for _, i := range side.of {
			r, ok := c.again[i]
			if !ok {
				continue
			}
			n++
			before, after = before+c.first[i].againstBest(), after+r.againstBest()
			if (r.againstBest() < line7) != (c.first[i].againstBest() < line7) {
				moved++
			}
		}
		if n > 0 {
			text += fmt.Sprintf(" Of those %s the line %d were measured again, four times longer and with %s: %d %s, and their mean went from %s to %s.",
				side.name, n, seedsText(again7()), moved, side.moved, Number(before/float64(n), 4), Number(after/float64(n), 4))
		}
		if side.name == "below" && len(low) > n {
			text += fmt.Sprintf(" %d more were not, for lack of time, and count as first measured.", len(low)-n)
		}
	}
	return text + " Claims are judged by the corrected results: of the configurations that were not below, the sample stands for all."
}
