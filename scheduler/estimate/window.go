package estimate

import (
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Size is how many durations a Window remembers: Clockwork's ten.
const Size = 10

// Window is the last Size durations of one key. The zero Window is empty.
type Window struct {
	samples [Size]mono.Dur
	n       int // added so far
	p99     mono.Dur
}

// Seeded is a Window that begins with one duration, which leaves it after Size others.
func Seeded(d mono.Dur) Window {
	var w Window
	w.Add(d)
	return w
}

// Add takes a duration; of more than Size the oldest is forgotten.
func (w *Window) Add(d mono.Dur) {
	w.samples[w.n%Size] = d
	w.n++
	first, second := mono.Dur(0), mono.Dur(0)
	for _, s := range w.samples[:w.Len()] {
		switch {
		case s > first:
			first, second = s, first
		case s > second:
			second = s
		}
	}
	// Position 0.99(n-1) of n <= 100 durations in rising order lies between the last two,
	// (101-n)/100 of the way: of ten, 0.91 of the longest and 0.09 of the second.
	w.p99 = first
	if n := mono.Dur(w.Len()); n > 1 {
		w.p99 = second + ((first-second)*(101-n)+50)/100
	}
}

// Least is the shortest duration; 0 of none.
func (w *Window) Least() mono.Dur {
	if w.n == 0 {
		return 0
	}
	return slices.Min(w.samples[:w.Len()])
}

// Len is how many durations count.
func (w *Window) Len() int { return min(w.n, Size) }

// Measured is how many durations count that were added after the first one, the seed.
func (w *Window) Measured() int { return min(max(0, w.n-1), Size) }

// P99 is the durations' 99th percentile, interpolated linearly at position 0.99(n-1) and rounded to
// the nanosecond; 0 of none.
func (w *Window) P99() mono.Dur { return w.p99 }
