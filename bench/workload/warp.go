package workload

import (
	"math"

	"github.com/symphony-serving/symphony/transport/mono"
)

// warp turns the time of a process of constant rate into the time in which the
// rate follows a profile: it inverts the integral of the multiplier. Gaps keep
// their distribution, seen at the rate of the moment; a bursty process stays as
// bursty (Gerhardt and Nelson, Transforming Renewal Processes for Simulation of
// Nonstationary Arrival Processes, 2009).
//
// The profile is walked line by line. Within a line from height a on, of slope
// b, the integral over x is a*x + b*x*x/2 = mass, so that
// x = 2*mass / (a + sqrt(a*a + 2*b*mass)), which loses no digits to
// cancellation and holds for b = 0 too. One step for each line and each
// arrival: O(1) amortised when lines are not much shorter than gaps.
//
// Rejected: thinning a Poisson process of the highest rate. It makes Gamma
// gaps nearly exponential. Also rejected: scaling each gap by the rate at its
// begin. A gap that begins in the quiet then reaches far into the burst.
type warp struct {
	profile *Profile // nil: 1 for ever
	at      []cursor // one for each part

	start         mono.Time // of the line
	length        float64   // ns
	height, slope float64   // at its start; per ns
	whole         float64   // mass of the line
	mass          float64   // ns of multiplier 1 from start to the last arrival
	last          mono.Time
}

func newWarp(p *Profile) warp {
	w := warp{profile: p, length: math.MaxFloat64, height: 1, whole: math.MaxFloat64}
	if p != nil {
		w.at = make([]cursor, len(p.parts))
		w.line()
	}
	return w
}

// advance is the instant that lies that mass (ns at multiplier 1) after the
// last one; Never if there is none.
func (w *warp) advance(mass float64) mono.Time {
	w.mass += mass
	for w.mass >= w.whole {
		if w.profile == nil || !w.next() {
			return mono.Never
		}
	}
	x := w.mass
	if w.profile != nil {
		x = min(w.inverse(), w.length)
	}
	if x >= float64(mono.Never-w.start) {
		return mono.Never
	}
	w.last = max(w.last, w.start+mono.Time(x)) // rounding cannot go back
	return w.last
}

func (w *warp) inverse() float64 {
	if w.slope == 0 {
		return w.mass / w.height
	}
	root := math.Sqrt(max(0, float64(w.height*w.height)+float64(2*float64(w.slope*w.mass))))
	if w.mass <= 0 {
		return 0
	}
	return float64(2*w.mass) / (w.height + root)
}

// next goes to the next line; false when the current one never ends.
func (w *warp) next() bool {
	end := w.end()
	if end == mono.Never {
		return false
	}
	w.mass -= w.whole
	for i := range w.at {
		p := &w.profile.parts[i]
		if w.at[i].end(p) < end {
			w.at[i].seek(p, end) // behind a span of 0
		} else if w.at[i].end(p) == end {
			w.at[i].step(p)
		}
	}
	w.start = end
	w.line()
	return true
}

// end is where the first part has a point; while a part that does not repeat is
// 0, what the others do meanwhile is passed over. That and the invariant of
// part bound the number of lines without mass.
func (w *warp) end() mono.Time {
	end, zero := mono.Never, mono.Past
	for i := range w.at {
		p := &w.profile.parts[i]
		end = min(end, w.at[i].end(p))
		if w.at[i].zero(p) {
			zero = max(zero, w.at[i].end(p))
		}
	}
	return max(end, zero)
}

// line computes the line from start to the next point of any part.
func (w *warp) line() {
	end := w.end()
	from, to := 1.0, 1.0
	for i := range w.at {
		p := &w.profile.parts[i]
		from = float64(from * w.at[i].value(p, w.start))
		if w.at[i].zero(p) {
			to = 0
		} else if end != mono.Never {
			to = float64(to * w.at[i].value(p, end))
		}
	}
	w.height, w.slope = from, 0
	if end == mono.Never {
		w.length, w.whole = math.MaxFloat64, math.MaxFloat64
		if from == 0 {
			w.whole = 0
		}
		return
	}
	w.length = float64(end - w.start)
	w.whole = float64(float64(from+to) / 2 * w.length)
	w.slope = (to - from) / w.length
}
