package workload

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Stream is a renewal process in the time of its profile.
type Stream struct {
	Process Process
	Shape   float64  // of Gamma, 0.01 to 100; the papers use 0.05 to 1
	Rate    float64  // requests/s; below 1e-9 (one in 31 years): none ever
	Profile *Profile // multiplies Rate; nil: 1
}

const (
	rateMin, rateMax = 1e-9, 1e9
	// repeatsPerGapMax bounds the work of one arrival: a stream whose profile
	// repeats more often between two arrivals is refused.
	repeatsPerGapMax = 1e6
)

func (s Stream) check() error {
	if !(s.Rate >= 0 && s.Rate <= rateMax) {
		return fmt.Errorf("%w: rate %g, must be 0 to %g requests/s", ErrInvalid, s.Rate, rateMax)
	}
	return s.Process.check(s.Shape)
}

// flow is one stream for one or more models.
type flow struct {
	draw   draw
	tape   *recorded // nil: gaps are drawn
	gaps   int       // so far
	mean   float64   // gap in ns
	warp   warp
	models []int32
	pick   picker
}

// newFlow takes a checked stream of rate rateMin or more, its models, and
// their weights.
func newFlow(s Stream, models []int32, weights []float64, r random) (flow, error) {
	if s.Profile != nil && float64(s.Rate*s.Profile.thin()) < 1e9/repeatsPerGapMax {
		return flow{}, fmt.Errorf("%w: rate %g requests/s is too low for profile %q, which repeats a million times between two arrivals", ErrInvalid, s.Rate, s.Profile)
	}
	return flow{
		draw:   newDraw(s.Process, s.Shape, r),
		mean:   1e9 / s.Rate,
		warp:   newWarp(s.Profile),
		models: models,
		pick:   newPicker(weights),
	}, nil
}

// gap is the next gap, in means; the first one is the span to the first
// arrival.
func (f *flow) gap() float64 {
	f.gaps++
	switch {
	case f.tape != nil:
		return f.tape.gap(f.gaps - 1)
	case f.gaps == 1:
		return f.draw.first()
	}
	return f.draw.gap()
}

// after is the instant that many mean gaps after the last; Never if there is
// none.
func (f *flow) after(gaps float64) mono.Time { return f.warp.advance(float64(f.mean * gaps)) }

// model is the model of an arrival.
func (f *flow) model() int { return int(f.models[f.pick.pick(&f.draw.random)]) }
