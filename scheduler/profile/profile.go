// Package profile answers how long a batch takes and how large a batch fits.
//
// A latency profile l(b) is a line, alpha*b + beta (Symphony, section 2.1), or
// a table of measured latencies where it is not one. Times are integer
// nanoseconds, so that the same question has the same answer on each machine
// and no rounding re-arms a timer for ever.
//
// A Profile is immutable and monotone: a larger batch never takes less time.
package profile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// ErrInvalid is the cause of every refused profile.
var ErrInvalid = errors.New("invalid latency profile")

const (
	// BatchMax is the largest batch that a profile may allow.
	BatchMax = 1024
	// latencyMax keeps sums far away from overflow.
	latencyMax = 3600 * mono.Second
)

// Profile is l(b) for 1 <= b <= MaxBatch.
type Profile struct {
	alpha, beta mono.Dur
	table       []mono.Dur // [i] is l(i+1); nil for a line
	maxBatch    int
}

// Linear is l(b) = alpha*b + beta.
func Linear(alpha, beta mono.Dur, maxBatch int) (*Profile, error) {
	switch {
	case maxBatch < 1 || maxBatch > BatchMax:
		return nil, fmt.Errorf("%w: max batch %d, must be 1 to %d", ErrInvalid, maxBatch, BatchMax)
	case alpha < 0 || beta < 0 || alpha+beta <= 0:
		return nil, fmt.Errorf("%w: alpha %v and beta %v must not be negative, nor both 0", ErrInvalid, alpha, beta)
	case alpha > latencyMax/mono.Dur(maxBatch) || beta > latencyMax:
		return nil, fmt.Errorf("%w: alpha %v, beta %v: a batch of %d would take over %v", ErrInvalid, alpha, beta, maxBatch, latencyMax)
	}
	return &Profile{alpha: alpha, beta: beta, maxBatch: maxBatch}, nil
}

// Table takes l(1), l(2), ... as measured. Where a larger batch was measured
// faster, the larger of both counts: the plan must hold.
func Table(latencies []mono.Dur) (*Profile, error) {
	if len(latencies) == 0 || len(latencies) > BatchMax {
		return nil, fmt.Errorf("%w: table of %d batch sizes, must be 1 to %d", ErrInvalid, len(latencies), BatchMax)
	}
	table := make([]mono.Dur, len(latencies))
	least := mono.Dur(0)
	for i, l := range latencies {
		if l <= 0 || l > latencyMax {
			return nil, fmt.Errorf("%w: l(%d) = %v, must be above 0 and at most %v", ErrInvalid, i+1, l, latencyMax)
		}
		least = max(least, l)
		table[i] = least
	}
	return &Profile{table: table, maxBatch: len(table)}, nil
}

// Sample is one measured latency.
type Sample struct {
	Batch   int
	Latency mono.Dur
}

// Interpolate makes a table from samples of some batch sizes, in ascending
// order of size; between two samples the latency is on the line that joins
// them, before the first it is the first's.
func Interpolate(samples []Sample) (*Profile, error) {
	var table []mono.Dur
	for i, s := range samples {
		if s.Batch <= len(table) || s.Batch > BatchMax {
			return nil, fmt.Errorf("%w: batch sizes must rise and be 1 to %d; got %d after %d", ErrInvalid, BatchMax, s.Batch, len(table))
		}
		from, span := len(table), s.Batch-len(table)
		for b := from + 1; b <= s.Batch; b++ {
			l := s.Latency
			if i > 0 {
				before := samples[i-1].Latency
				l = before + (s.Latency-before)*mono.Dur(b-from)/mono.Dur(span)
			}
			table = append(table, l)
		}
	}
	return Table(table)
}

// Steps makes a table from samples of the batch sizes that a device runs, in ascending
// order: what lies between two of them is run as the larger.
func Steps(samples []Sample) (*Profile, error) {
	var table []mono.Dur
	for _, s := range samples {
		if s.Batch <= len(table) || s.Batch > BatchMax {
			return nil, fmt.Errorf("%w: batch sizes must rise and be 1 to %d; got %d after %d", ErrInvalid, BatchMax, s.Batch, len(table))
		}
		for len(table) < s.Batch {
			table = append(table, s.Latency)
		}
	}
	return Table(table)
}

// FromDoc reads a profile from the control plane's document; maxBatch bounds
// it further.
func FromDoc(d catalog.Profile, maxBatch int) (*Profile, error) {
	if len(d.Table) == 0 {
		return Linear(d.Alpha, d.Beta, maxBatch)
	}
	if maxBatch < 1 {
		return nil, fmt.Errorf("%w: max batch %d", ErrInvalid, maxBatch)
	}
	return Table(d.Table[:min(maxBatch, len(d.Table))])
}

// Doc is the profile as a document: FromDoc of it, with the same MaxBatch, is
// an equal profile. The caller may keep and change it.
func (p *Profile) Doc() catalog.Profile {
	return catalog.Profile{Alpha: p.alpha, Beta: p.beta, Table: slices.Clone(p.table)}
}

// Slowest is the profile that is no faster than either, for each batch that both allow.
func Slowest(a, b *Profile) *Profile {
	n := min(a.maxBatch, b.maxBatch)
	first, second := true, true // is it a throughout? is it b?
	for i := 1; i <= n; i++ {
		x, y := a.Latency(i), b.Latency(i)
		first, second = first && x >= y, second && y >= x
	}
	switch {
	case first:
		return a.upTo(n)
	case second:
		return b.upTo(n)
	}
	table := make([]mono.Dur, n)
	for i := range table {
		table[i] = max(a.Latency(i+1), b.Latency(i+1))
	}
	return &Profile{table: table, maxBatch: n}
}

// upTo is the profile of batches up to n.
func (p *Profile) upTo(n int) *Profile {
	if n == p.maxBatch {
		return p
	}
	cut := *p
	cut.maxBatch = n
	if p.table != nil {
		cut.table = p.table[:n]
	}
	return &cut
}

// Alike reports whether both take the same for each batch, and allow the same ones.
func (p *Profile) Alike(q *Profile) bool {
	if p.maxBatch != q.maxBatch {
		return false
	}
	for b := 1; b <= p.maxBatch; b++ {
		if p.Latency(b) != q.Latency(b) {
			return false
		}
	}
	return true
}

// MaxBatch is the largest batch.
func (p *Profile) MaxBatch() int { return p.maxBatch }

// Latency is l(b), for 0 <= b <= MaxBatch; l(0) is 0.
func (p *Profile) Latency(b int) mono.Dur {
	switch {
	case b <= 0:
		return 0
	case p.table != nil:
		return p.table[b-1]
	}
	return p.alpha*mono.Dur(b) + p.beta
}

// Largest is the largest b <= MaxBatch with l(b) + perItem*b <= budget; 0 when
// not even one request fits. O(1) for a line, O(log MaxBatch) for a table.
func (p *Profile) Largest(budget, perItem mono.Dur) int {
	if budget < p.Latency(1)+perItem {
		return 0
	}
	if p.table == nil {
		slope := p.alpha + perItem
		if slope == 0 {
			return p.maxBatch
		}
		return int(min(mono.Dur(p.maxBatch), (budget-p.beta)/slope))
	}
	low, high := 1, p.maxBatch // low fits; what is above high does not
	for low < high {
		mid := (low + high + 1) / 2
		if p.table[mid-1]+perItem*mono.Dur(mid) <= budget {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// Staggered is the batch size of the staggered execution on n GPUs, the
// largest b with (1 + 1/n)*l(b) <= slo (section 3.3, equation 1); at least 1.
func (p *Profile) Staggered(slo mono.Dur, n int) int {
	return max(1, p.Largest(slo*mono.Dur(n)/mono.Dur(n+1), 0))
}
