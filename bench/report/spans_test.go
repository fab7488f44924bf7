package report

import (
	"math"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Percentiles are right to three digits, ends are exact, and merged spans are as those
// that one counted.
func TestSpans(t *testing.T) {
	for _, unit := range []mono.Dur{mono.Nanosecond, mono.Microsecond} {
		one, odd, even := NewSpans(unit), NewSpans(unit), NewSpans(unit)
		for i := range 10_000 {
			d := mono.Dur(i+1) * 100 * mono.Microsecond
			one.Add(d)
			if i%2 == 0 {
				even.Add(d)
			} else {
				odd.Add(d)
			}
		}
		merged := NewSpans(unit)
		for _, s := range []*Spans{odd, NewSpans(unit), even} {
			merged.Merge(s)
		}
		for _, s := range []*Spans{one, merged} {
			if s.Count() != 10_000 || s.Min() != 100*mono.Microsecond || s.Max() != mono.Second {
				t.Errorf("%d spans, %v to %v", s.Count(), s.Min(), s.Max())
			}
			for percent, want := range map[float64]mono.Dur{50: mono.Second / 2, 99: 990 * mono.Millisecond, 99.9: 999 * mono.Millisecond, 100: mono.Second} {
				if got := s.Percentile(percent); math.Abs(float64(got-want)) > float64(want)/1000 || got > s.Max() {
					t.Errorf("p%g is %v, want %v", percent, got, want)
				}
			}
			if got, want := s.Mean(), mono.Second/2; math.Abs(float64(got-want)) > float64(want)/1000 {
				t.Errorf("mean %v", got)
			}
		}
	}
}

// None have no percentiles, and what is beyond the range counts as its end.
func TestSpansBeyond(t *testing.T) {
	s := NewSpans(mono.Microsecond)
	if s.Percentile(99) != 0 || s.Max() != 0 || s.Mean() != 0 {
		t.Errorf("of none: p99 %v, max %v, mean %v", s.Percentile(99), s.Max(), s.Mean())
	}
	s.Add(0)
	s.Add(2 * SpanMax)
	if s.Count() != 2 || s.Min() != 0 || s.Max() != 2*SpanMax {
		t.Errorf("%d spans, %v to %v", s.Count(), s.Min(), s.Max())
	}
}
