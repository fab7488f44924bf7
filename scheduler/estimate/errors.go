package estimate

import (
	"math"
	"math/bits"

	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	octave     = 8 // buckets between a span and its double
	buckets    = 24 * octave
	resolution = mono.Microsecond // of spans below an octave of these, a bucket each
	remembered = 4096             // errors, after which all count for half
)

// Errors are two histograms of how far off estimates were: by how much durations were over them,
// and by how much under. They forget: at every 4,096th error all that came before count for
// half. The zero Errors are empty.
type Errors struct {
	over, under   [buckets]uint32
	overN, underN uint32 // sums of the above
	n             uint32 // with those that were exact
}

// Add takes an error: the duration less its estimate.
func (e *Errors) Add(d mono.Dur) {
	if e.n >= remembered {
		exact := e.n - e.overN - e.underN
		e.overN, e.underN = halve(&e.over), halve(&e.under)
		e.n = e.overN + e.underN + exact/2
	}
	e.n++
	switch {
	case d > 0:
		e.over[bucketOf(d)]++
		e.overN++
	case d < 0:
		e.under[bucketOf(-d)]++
		e.underN++
	}
}

// halve halves all counts; it is their sum then.
func halve(counts *[buckets]uint32) (sum uint32) {
	for i := range counts {
		counts[i] /= 2
		sum += counts[i]
	}
	return sum
}

// Len is how many errors count.
func (e *Errors) Len() int { return int(e.n) }

// Over is the q-quantile, q from 0 to 1, of by how much durations were over their estimates; those that
// were not count as 0. It is no less than it was, and more by an eighth or a microsecond at most.
func (e *Errors) Over(q float64) mono.Dur { return e.quantile(&e.over, e.overN, q) }

// Under is the same of by how much they were under.
func (e *Errors) Under(q float64) mono.Dur { return e.quantile(&e.under, e.underN, q) }

func (e *Errors) quantile(counts *[buckets]uint32, sum uint32, q float64) mono.Dur {
	rank := uint32(math.Ceil(q * float64(e.n))) // of this many the largest is asked for
	seen := e.n - sum
	if rank <= seen {
		return 0
	}
	for i, c := range counts {
		if seen += c; seen >= rank {
			return edge(i)
		}
	}
	return edge(buckets - 1)
}

// bucketOf is the bucket of a span above 0: by microsecond up to an octave of them, then each octave
// in eighths.
func bucketOf(d mono.Dur) int {
	v := uint64((d - 1) / resolution) // so that edges belong to what lies below them
	if v < octave {
		return int(v)
	}
	shift := bits.Len64(v) - bits.Len64(octave)
	return min(shift*octave+int(v>>shift), buckets-1)
}

// edge is the longest span of a bucket.
func edge(i int) mono.Dur {
	if i < octave {
		return mono.Dur(i+1) * resolution
	}
	shift := i/octave - 1
	return mono.Dur(i-shift*octave+1) << shift * resolution
}
