package workload

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Shares is each model's part of all requests; the parts sum to 1. Popularity
// is "equal" (or nothing), or "zipf:S": model i is asked for in proportion to
// 1/(i+1)^S.
func Shares(popularity string, models int) ([]float64, error) {
	if models < 1 {
		return nil, fmt.Errorf("%w: no models", ErrInvalid)
	}
	exponent := 0.0
	if popularity != "" && popularity != "equal" {
		s, ok := strings.CutPrefix(popularity, "zipf:")
		v, err := strconv.ParseFloat(s, 64)
		if !ok || err != nil || !(v >= 0 && v <= 10) {
			return nil, fmt.Errorf("%w: popularity %q, must be equal or zipf:S with S from 0 to 10", ErrInvalid, popularity)
		}
		exponent = v
	}
	shares, sum := make([]float64, models), 0.0
	for i := range shares {
		shares[i] = exp(float64(-exponent * ln(float64(i+1))))
		sum += shares[i]
	}
	for i := range shares {
		shares[i] /= sum
	}
	return shares, nil
}

func checkShares(shares []float64) error {
	sum := 0.0
	for i, s := range shares {
		if !(s >= 0 && s <= rateMax) {
			return fmt.Errorf("%w: share %d is %g, must be 0 to %g", ErrInvalid, i, s, rateMax)
		}
		sum += s
	}
	if !(sum > 0) {
		return fmt.Errorf("%w: no model has a share", ErrInvalid)
	}
	return nil
}

// picker chooses among n places in proportion to their weights, in O(1):
// Walker's alias method. Place i keeps a random number below keep[i], and
// hands the others to alias[i].
//
// Rejected: a binary search in cumulative sums. It grows with the number of
// models, and the processor cannot foretell its branches.
type picker struct {
	keep  []uint64
	alias []int32
}

// newPicker takes weights as checkShares accepts them.
func newPicker(weights []float64) picker {
	n := len(weights)
	p := picker{make([]uint64, n), make([]int32, n)}
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	rest := make([]float64, n) // what is not placed yet; 1 is a place's fair part
	var small, large []int
	for i, w := range weights {
		rest[i] = float64(w*float64(n)) / sum
		p.alias[i] = int32(i)
		if rest[i] < 1 {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		p.keep[s], p.alias[s] = uint64(float64(rest[s]*0x1p53))<<11, int32(l)
		rest[l] -= 1 - rest[s]
		if rest[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	return p // who is left keeps all: its alias is itself
}

func (p *picker) pick(r *random) int {
	if len(p.keep) == 1 {
		return 0
	}
	place, rest := bits.Mul64(r.bits(), uint64(len(p.keep)))
	if rest < p.keep[place] {
		return int(place)
	}
	return int(p.alias[place])
}
