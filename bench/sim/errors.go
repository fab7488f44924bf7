package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Errors is a distribution of how far a length is off what its profile says, to either
// side, by its quantiles: a draw lies on the line between the two quantiles around a
// uniform number. The zero Errors is none.
type Errors struct{ points [9]mono.Dur }

// errorAt are the quantiles of Errors.points, in hundred-millionths.
func errorAt(i int) uint64 {
	return [9]uint64{0, 1_000_000, 10_000_000, 50_000_000, 90_000_000, 99_000_000, 99_990_000, 99_999_900, 100_000_000}[i]
}

// ErrorQuantiles is a distribution by its least value, p1, p10, median, p90, p99, p99.99,
// p99.9999 and greatest value.
func ErrorQuantiles(points [9]mono.Dur) Errors { return Errors{points} }

// InferLike has what Clockwork's section 6.5 tells of its INFER actions (Figure 9): 250 us
// off at the 99th percentile to either side, one-off extremes of 20 ms. What lies between,
// nobody tells: most are within 30 us, for section 2 has executions within 0.03 % of their
// median.
func InferLike() Errors {
	us := mono.Microsecond
	return Errors{[9]mono.Dur{-1000 * us, -250 * us, -30 * us, 0, 30 * us, 250 * us, 1000 * us, 5000 * us, 20_000 * us}}
}

// LoadLike is the same for LOAD actions: 338 us shorter and 240 us longer.
func LoadLike() Errors {
	us := mono.Microsecond
	return Errors{[9]mono.Dur{-1000 * us, -338 * us, -40 * us, 0, 40 * us, 240 * us, 1000 * us, 5000 * us, 20_000 * us}}
}

func (e Errors) none() bool { return e == Errors{} }

func (e Errors) check() error {
	for i := 1; i < len(e.points); i++ {
		if e.points[i] < e.points[i-1] {
			return fmt.Errorf("%w: errors must rise with their quantile", ErrInvalid)
		}
	}
	return nil
}

// length is that of something planned to take d, at least half of it.
func (e Errors) length(d mono.Dur, r *rand.Rand) mono.Dur {
	if e.none() {
		return d
	}
	u := r.Uint64N(errorAt(len(e.points) - 1))
	i := 0
	for u >= errorAt(i+1) {
		i++
	}
	low, high := errorAt(i), errorAt(i+1)
	off := e.points[i] + (e.points[i+1]-e.points[i])*mono.Dur(u-low)/mono.Dur(high-low)
	return max(d/2, d+off)
}
