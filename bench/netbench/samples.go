package netbench

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/symphony-serving/symphony/transport/mono"
)

// samples are spans, kept to three digits in bounded memory.
type samples struct {
	h        *hdrhistogram.Histogram
	min, max mono.Dur
}

// spanMax is the longest that is told from longer ones.
const spanMax = 60 * mono.Second

func newSamples() *samples {
	return &samples{h: hdrhistogram.New(1, int64(spanMax), 3)}
}

func (s *samples) add(d mono.Dur) {
	if s.h.TotalCount() == 0 || d < s.min {
		s.min = d
	}
	s.max = max(s.max, d)
	_ = s.h.RecordValue(min(max(int64(d), 1), int64(spanMax))) // within its range
}

// Spread is a distribution of spans in microseconds. A percentile is 0, and left out
// of JSON, where there are too few samples for it.
type Spread struct {
	Samples int64
	Min     float64
	Mean    float64
	P50     float64 `json:",omitzero"`
	P99     float64 `json:",omitzero"`
	P999    float64 `json:",omitzero"`
	P9999   float64 `json:",omitzero"`
	Max     float64
	Curve   []Point `json:",omitempty"`
}

// Point is one place of the distribution: so many thousandths of a percent of the
// samples took at most Micros.
type Point struct {
	Mille  int64
	Micros float64
}

// whole is all of the samples in a Point's measure.
const whole = 100_000

// supported reports whether one sample at least lies beyond the percentile: 10,000
// make a 99.99th, 100 a 99th.
func supported(n, mille int64) bool { return n*(whole-mille) >= whole }

// at is a percentile in microseconds; 0: not supported.
func (s *samples) at(mille int64) float64 {
	if !supported(s.h.TotalCount(), mille) {
		return 0
	}
	return micros(mono.Dur(min(s.h.ValueAtQuantile(float64(mille)/1000), int64(s.max))))
}

func micros(d mono.Dur) float64 { return float64(d) / 1e3 }

// spread sums up.
func (s *samples) spread() Spread {
	if s.h.TotalCount() == 0 {
		return Spread{}
	}
	d := Spread{Samples: s.h.TotalCount(), Min: micros(s.min), Mean: s.h.Mean() / 1e3, Max: micros(s.max),
		P50: s.at(50_000), P99: s.at(99_000), P999: s.at(99_900), P9999: s.at(99_990)}
	d.Curve = append(d.Curve, Point{0, d.Min})
	for _, mille := range []int64{1000, 2000, 5000, 10_000, 15_000, 20_000, 25_000, 30_000, 35_000, 40_000, 45_000, 50_000, 55_000, 60_000, 65_000,
		70_000, 75_000, 80_000, 85_000, 90_000, 92_000, 94_000, 95_000, 96_000, 97_000, 98_000, 99_000, 99_500, 99_800, 99_900, 99_950, 99_980, 99_990, 99_995, 99_998, 99_999} {
		if v := s.at(mille); v > 0 {
			d.Curve = append(d.Curve, Point{mille, v})
		}
	}
	return d
}
