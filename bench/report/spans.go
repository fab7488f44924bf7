package report

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Spans are spans of time to three digits, in bounded memory: what benches tell percentiles
// from. (The system's own loops count with transport/histogram, to an eighth, which costs
// them less; who needs each sample keeps each.) Not safe for concurrent use.
type Spans struct {
	h           *hdrhistogram.Histogram
	unit        mono.Dur
	least, most mono.Dur // exact
}

// SpanMax is the longest span that is told from longer ones.
const SpanMax = 60 * mono.Second

const digits = 3

// NewSpans tells spans apart that differ by unit or more. A nanosecond takes 240 KiB, a
// microsecond half of that.
func NewSpans(unit mono.Dur) *Spans {
	return &Spans{h: hdrhistogram.New(1, int64(SpanMax/unit), digits), unit: unit}
}

// Add counts a span.
func (s *Spans) Add(d mono.Dur) {
	if s.Count() == 0 || d < s.least {
		s.least = d
	}
	s.most = max(s.most, d)
	_ = s.h.RecordValue(min(max(int64(d/s.unit), 1), int64(SpanMax/s.unit))) // within its range
}

// Merge adds the spans of others, of the same unit.
func (s *Spans) Merge(others *Spans) {
	if others.Count() == 0 {
		return
	}
	if s.Count() == 0 || others.least < s.least {
		s.least = others.least
	}
	s.most = max(s.most, others.most)
	s.h.Merge(others.h)
}

// Count is how many there are.
func (s *Spans) Count() int64 { return s.h.TotalCount() }

// Min and Max are exact; 0 where there are none.
func (s *Spans) Min() mono.Dur { return s.least }

// Max is the longest.
func (s *Spans) Max() mono.Dur { return s.most }

// Mean is 0 where there are none.
func (s *Spans) Mean() mono.Dur { return mono.Dur(s.h.Mean() * float64(s.unit)) }

// Percentile is the span that so many percent do not exceed; 0 where there are none.
func (s *Spans) Percentile(percent float64) mono.Dur {
	return min(mono.Dur(s.h.ValueAtQuantile(percent))*s.unit, s.most)
}
