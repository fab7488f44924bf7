package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Network delays control messages (a request's record, an order, a report, an
// answer) and the fetching of inputs. Bound is what the scheduler plans with.
type Network struct {
	Ctrl  Delays         // of one message
	Data  Delays         // of one input; a batch of b takes b times a draw
	Bound batching.Delay // Ctrl and Data that the scheduler reckons with
}

func (n *Network) none() bool { return n.Ctrl.none() && n.Data.none() }

func (n *Network) check() error {
	for _, d := range []Delays{n.Ctrl, n.Data} {
		for i, p := range d.points {
			if p < 0 || i > 0 && p < d.points[i-1] {
				return fmt.Errorf("%w: network delays must not be negative and must rise with their quantile", ErrInvalid)
			}
		}
	}
	if n.Bound.Ctrl < 0 || n.Bound.Data < 0 {
		return fmt.Errorf("%w: network bound %v + %v*b must not be negative", ErrInvalid, n.Bound.Ctrl, n.Bound.Data)
	}
	return nil
}

// Delays is a distribution of delays, by its quantiles: a draw lies on the
// line between the two quantiles around a uniform number. Integers only, so
// that every machine draws the same.
type Delays struct{ points [5]mono.Dur }

// quantiles of Delays.points, in millionths.
func quantileAt(i int) uint64 { return [5]uint64{0, 500_000, 990_000, 999_900, 1_000_000}[i] }

// Constant is always d.
func Constant(d mono.Dur) Delays { return Delays{[5]mono.Dur{d, d, d, d, d}} }

// Quantiles is a distribution by its least value, median, p99, p99.99 and
// greatest value.
func Quantiles(least, p50, p99, p9999, most mono.Dur) Delays {
	return Delays{[5]mono.Dur{least, p50, p99, p9999, most}}
}

// RDMALike has the shape of Figure 17 for RDMA: between 21.5 and 35 us,
// median 24 us, p99.99 33 us.
func RDMALike() Delays {
	us := mono.Microsecond
	return Quantiles(21*us+500, 24*us, 27*us, 33*us, 35*us)
}

// TCPLike has the shape of Figure 17 for TCP: median 3,034 us and a p99.99 of
// 12 times the median.
func TCPLike() Delays {
	us := mono.Microsecond
	return Quantiles(1500*us, 3034*us, 9000*us, 36408*us, 40000*us)
}

func (d Delays) none() bool { return d == Delays{} }

// P9999 is the 99.99th percentile: the bound that section 5.6 plans with.
func (d Delays) P9999() mono.Dur { return d.points[3] }

// draw is the next delay.
func (d Delays) draw(r *rand.Rand) mono.Dur {
	if d.points[0] == d.points[4] {
		return d.points[0]
	}
	u := r.Uint64N(1_000_000)
	i := 0
	for u >= quantileAt(i+1) {
		i++
	}
	low, high := quantileAt(i), quantileAt(i+1)
	return d.points[i] + (d.points[i+1]-d.points[i])*mono.Dur(u-low)/mono.Dur(high-low)
}

// Jitter makes executions longer than profiled, or longer and shorter.
type Jitter struct {
	// Share is the greatest lengthening, as a share of l(b); draws are even
	// between none and it.
	Share float64
	// Errors is added, to either side of what the profile says, whatever was planned.
	Errors Errors
}

func (j Jitter) check() error {
	if !(j.Share >= 0 && j.Share <= 1) {
		return fmt.Errorf("%w: jitter %g, must be a share of 0 to 1", ErrInvalid, j.Share)
	}
	return j.Errors.check()
}

// stretch is the length of a run that was planned to take d.
func (j Jitter) stretch(d mono.Dur, r *rand.Rand) mono.Dur {
	if j.Share == 0 {
		return d
	}
	most := uint64(float64(d) * j.Share)
	return d + mono.Dur(r.Uint64N(most+1))
}
