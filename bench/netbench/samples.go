package netbench

import (
	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/transport/mono"
)

// samples are spans, of which percentiles are told in microseconds.
type samples struct{ *report.Spans }

func newSamples() samples { return samples{report.NewSpans(mono.Nanosecond)} }

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
func (s samples) at(mille int64) float64 {
	if !supported(s.Count(), mille) {
		return 0
	}
	return micros(s.Percentile(float64(mille) / 1000))
}

func micros(d mono.Dur) float64 { return float64(d) / 1e3 }

// spread sums up.
func (s samples) spread() Spread {
	if s.Count() == 0 {
		return Spread{}
	}
	d := Spread{Samples: s.Count(), Min: micros(s.Min()), Mean: micros(s.Mean()), Max: micros(s.Max()),
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
