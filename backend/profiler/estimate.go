package profiler

import (
	"github.com/symphony-serving/symphony/transport/mono"
)

// Which sizes are measured where there is no time for all: first those of about twice the one
// before, then the largest, then the others, smallest first. So what is estimated lies between
// measured sizes as far as possible, and beyond them the step is small.

// visits are the indices of sizes in that order.
func visits(sizes []int) []int {
	var order, others []int
	last := len(sizes) - 1
	for i, next := 0, 0; i <= last; i++ {
		if i == last || sizes[i] >= next {
			order = append(order, i)
			next = 2 * sizes[i]
		} else {
			others = append(others, i)
		}
	}
	return append(order, others...)
}

// expected is how long a size may take, by what has been measured: see estimated.
func (m *measurement) expected(i int) mono.Dur { return estimated(m.points, i) }

// estimated is the latency of a size that was not measured. Between two sizes that were it is on
// the line through them. Beyond the largest it grows as steeply as between any two measured
// sizes, or in proportion to the size where only one was measured: a latency grows no steeper than that where
// items take as long as in smaller batches. It is never less than a smaller size's.
func estimated(points []Point, i int) mono.Dur {
	below, above := -1, -1
	steepest := 0.0 // ns an item
	for k := range points {
		if points[k].Runs == 0 || k == i {
			continue
		}
		if k > i {
			above = k
			break
		}
		if below >= 0 {
			steepest = max(steepest, slope(&points[below], &points[k]))
		}
		below = k
	}
	b := points[i].Batch
	switch {
	case below < 0 && above < 0:
		return 0
	case below < 0: // a larger one takes no less
		return points[above].High
	}
	from := &points[below]
	proportion := float64(from.High) / float64(from.Batch)
	grows := proportion
	switch {
	case above >= 0:
		grows = max(0, slope(from, &points[above]))
	case steepest > 0:
		grows = min(proportion, steepest)
	}
	return from.High + mono.Dur(grows*float64(b-from.Batch))
}

func slope(a, b *Point) float64 { return float64(b.High-a.High) / float64(b.Batch-a.Batch) }

// estimate fills in the sizes that were not measured.
func (r *Result) estimate() {
	for i := range r.Points {
		p := &r.Points[i]
		if p.Runs > 0 {
			continue
		}
		p.High = estimated(r.Points, i)
		p.Median = p.High
		r.Estimated = append(r.Estimated, p.Batch)
	}
}
