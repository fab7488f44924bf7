package schedbench

import (
	"fmt"
	"io"
	"math/bits"
	"strings"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/transport/histogram"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Spread is a distribution in microseconds. A percentile that too few samples
// support is 0 and left out of JSON.
type Spread struct {
	Samples uint64
	P50     float64 `json:",omitzero"`
	P99     float64 `json:",omitzero"`
	P999    float64 `json:",omitzero"`
	P9999   float64 `json:",omitzero"`
	Max     float64 `json:",omitzero"`
	Bars    []Bar   `json:",omitempty"`
}

// Bar is the samples above the bar before and up to Micros.
type Bar struct {
	Micros float64
	Count  uint64
}

// spreadOf sums up, with a bar for each power of two. Percentiles are the upper ends
// of buckets that are an eighth wide: too large by so much at most.
func spreadOf(h *histogram.Counts) Spread {
	s := Spread{Samples: h.Count}
	for _, p := range []struct {
		to   *float64
		part float64
		need uint64
	}{{&s.P50, 0.5, 1}, {&s.P99, 0.99, 100}, {&s.P999, 0.999, 1000}, {&s.P9999, 0.9999, 10_000}, {&s.Max, 1, 1}} {
		if h.Count >= p.need {
			*p.to = micros(h.Quantile(p.part))
		}
	}
	const finest = 10 // all below 1.02 us are one bar
	var sums [64]uint64
	most := finest - 1
	h.Each(func(_, to mono.Dur, n uint64) {
		power := max(finest, bits.Len64(uint64(to-1)))
		sums[power] += n
		most = max(most, power)
	})
	for power := finest; power <= most; power++ {
		s.Bars = append(s.Bars, Bar{micros(mono.Dur(1) << power), sums[power]})
	}
	return s
}

func micros(d mono.Dur) float64 { return float64(d) / 1e3 }

// Print draws the bars as text.
func (s *Spread) Print(to io.Writer) {
	const width = 50
	most := uint64(1)
	for _, b := range s.Bars {
		most = max(most, b.Count)
	}
	for _, b := range s.Bars {
		n := int(b.Count * width / most)
		if b.Count > 0 {
			n = max(n, 1)
		}
		fmt.Fprintf(to, "  <= %9s us %10d  %s\n", report.Micros(b.Micros), b.Count, strings.Repeat("#", n))
	}
}
