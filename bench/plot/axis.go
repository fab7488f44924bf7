package plot

import (
	"fmt"
	"math"
)

// Axis of a picture. Min and Max both 0: the range is that of the data; a
// linear y axis then begins at 0 unless the data lie far from it.
type Axis struct {
	Label    string // with the unit: "offered load (requests/s)"
	Log      bool
	Min, Max float64
}

// span is a range that grows with what it is shown. The zero span is empty.
type span struct {
	lo, hi float64
	any    bool
}

func (s *span) add(v float64) {
	if !s.any {
		s.lo, s.hi, s.any = v, v, true
		return
	}
	s.lo, s.hi = min(s.lo, v), max(s.hi, v)
}

// scale places values along an axis of a chart.
type scale struct {
	label  string
	log    bool
	lo, hi float64
	ticks  []tick
	named  bool // the ticks are names that the picture gave; none are chosen
	bare   bool // no grid lines
}

// fixed tells whether the axis' range is given.
func (a Axis) fixed() bool { return a.Min != 0 || a.Max != 0 }

func (a Axis) check(which string) error {
	if !a.fixed() {
		return nil
	}
	if !finite(a.Min) || !finite(a.Max) || a.Min >= a.Max {
		return fmt.Errorf("%w: %s axis from %g to %g", ErrInvalid, which, a.Min, a.Max)
	}
	if a.Log && a.Min <= 0 {
		return fmt.Errorf("%w: %s axis is logarithmic and begins at %g", ErrInvalid, which, a.Min)
	}
	return nil
}

// scaleX follows the data exactly, or leaves room for markers at the ends.
func (a Axis) scaleX(data span, markers bool) scale {
	s := scale{label: a.Label, log: a.Log, lo: a.Min, hi: a.Max}
	if a.fixed() {
		return s
	}
	s.lo, s.hi = widen(data, a.Log)
	if markers {
		s.pad(0.02, 0.02)
	}
	return s
}

// scaleY leaves room above the data and below, or begins at 0.
func (a Axis) scaleY(data span) scale {
	s := scale{label: a.Label, log: a.Log, lo: a.Min, hi: a.Max}
	if a.fixed() {
		return s
	}
	if !a.Log && data.lo >= 0 && data.lo < data.hi/2 {
		data.lo = 0
		s.lo, s.hi = widen(data, false)
		s.pad(0, 0.05)
		return s
	}
	s.lo, s.hi = widen(data, a.Log)
	s.pad(0.05, 0.05)
	return s
}

// widen makes a range of a single value, and of values so close that a
// float64 does not tell the places between them.
func widen(d span, log bool) (lo, hi float64) {
	switch {
	case d.hi-d.lo > 1e-12*max(math.Abs(d.lo), math.Abs(d.hi)):
		return d.lo, d.hi
	case log:
		return d.lo / 2, d.hi * 2
	case d.lo == 0:
		return 0, 1
	}
	room := math.Abs(d.lo) / 2
	return d.lo - room, d.hi + room
}

func (s *scale) pad(below, above float64) {
	if s.log {
		r := math.Log(s.hi / s.lo)
		s.lo, s.hi = s.lo*math.Exp(-below*r), s.hi*math.Exp(above*r)
		return
	}
	r := s.hi - s.lo
	s.lo, s.hi = s.lo-below*r, s.hi+above*r
}

// at is where v lies: 0 at the axis' beginning, 1 at its end.
func (s *scale) at(v float64) float64 {
	if s.log {
		return math.Log(v/s.lo) / math.Log(s.hi/s.lo)
	}
	return (v - s.lo) / (s.hi - s.lo)
}

// finite refuses NaN, infinity, and what would overflow when ranges are added.
func finite(v float64) bool { return math.Abs(v) <= 1e100 }
