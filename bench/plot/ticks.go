package plot

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg"
)

// tick is a labelled place of an axis; without a label it is only a mark.
type tick struct {
	at    float64
	label string
}

// ticksMax bounds the labelled ticks of an axis.
const ticksMax = 11

// choose sets the ticks of an axis of the given length: as many as leave the
// labels room. wide is the room that a label takes along the axis.
func (s *scale) choose(length vg.Length, wide func(label string) vg.Length) {
	if s.named {
		return
	}
	if s.log {
		s.ticks = s.logTicks(length, wide)
		if labelled(s.ticks) >= 2 {
			return
		}
	}
	s.ticks = s.linearTicks(length, wide)
}

func labelled(ticks []tick) int {
	n := 0
	for _, t := range ticks {
		if t.label != "" {
			n++
		}
	}
	return n
}

// roomy tells whether no two labels come close.
func (s *scale) roomy(ticks []tick, length vg.Length, wide func(string) vg.Length) bool {
	end := vg.Length(math.Inf(-1))
	for _, t := range ticks {
		if t.label == "" {
			continue
		}
		at, half := vg.Length(s.at(t.at))*length, wide(t.label)/2
		if at-half < end {
			return false
		}
		end = at + half
	}
	return true
}

// linearTicks takes the finest step of 1, 2 or 5 times a power of ten.
func (s *scale) linearTicks(length vg.Length, wide func(string) vg.Length) []tick {
	first := int(math.Floor(math.Log10((s.hi - s.lo) / 50)))
	for e := first; e < first+8; e++ {
		for _, m := range []float64{1, 2, 5} {
			ticks := s.steps(m, e)
			if len(ticks) <= ticksMax && s.roomy(ticks, length, wide) {
				return ticks
			}
		}
	}
	return nil
}

// steps lists the multiples of m * 10^e within the range.
func (s *scale) steps(m float64, e int) []tick {
	step := times10(m, e)
	slack := 1e-9 * (s.hi - s.lo)
	var out []tick
	for k := math.Ceil((s.lo - slack) / step); times10(k*m, e) <= s.hi+slack; k++ {
		v := times10(k*m, e) + 0 // + 0: no negative zero
		out = append(out, tick{v, short(v, e, max(math.Abs(s.lo), math.Abs(s.hi)))})
		if len(out) > ticksMax {
			break
		}
	}
	return out
}

// times10 is v * 10^e; division keeps 0.3 from becoming 0.30000000000000004.
func times10(v float64, e int) float64 {
	if e < 0 {
		return v / math.Pow(10, float64(-e))
	}
	return v * math.Pow(10, float64(e))
}

// short writes v, a multiple of 10^e, on an axis that reaches top: as 15k
// where thousands need at most one decimal, as it is otherwise.
func short(v float64, e int, top float64) string {
	switch {
	case v == 0:
		return "0"
	case top >= 1e9:
		return scientific(v, 6)
	case top >= 1e6 && 6-e <= 1:
		return strconv.FormatFloat(v/1e6, 'f', max(0, 6-e), 64) + "M"
	case top >= 1e4 && 3-e <= 1:
		return strconv.FormatFloat(v/1e3, 'f', max(0, 3-e), 64) + "k"
	case top < 1e-4:
		return scientific(v, 6)
	}
	return strconv.FormatFloat(v, 'f', max(0, -e), 64)
}

// scientific writes 1e-5 rather than 1e-05.
func scientific(v float64, digits int) string {
	s := strconv.FormatFloat(v, 'g', digits, 64)
	s = strings.Replace(s, "e-0", "e-", 1)
	return strings.Replace(strings.Replace(s, "e+0", "e", 1), "e+", "e", 1)
}

// logTicks labels decades; 2 and 5 too where the range holds few decades.
func (s *scale) logTicks(length vg.Length, wide func(string) vg.Length) []tick {
	lo, hi := int(math.Floor(math.Log10(s.lo))), int(math.Ceil(math.Log10(s.hi)))
	for every := 1; every <= hi-lo+1; every++ {
		for _, fine := range []bool{true, false} {
			if fine && (every > 1 || hi-lo > 3) {
				continue
			}
			if ticks := s.decades(lo, hi, every, fine); s.roomy(ticks, length, wide) {
				return ticks
			}
		}
	}
	return nil
}

func (s *scale) decades(lo, hi, every int, fine bool) []tick {
	var out []tick
	for e := lo; e <= hi; e++ {
		for m := 1; m <= 9; m++ {
			v := times10(float64(m), e)
			if v < s.lo*(1-1e-9) || v > s.hi*(1+1e-9) {
				continue
			}
			t := tick{at: v}
			if m == 1 && e%every == 0 || fine && (m == 2 || m == 5) {
				t.label = short(v, e, v)
			}
			if t.label != "" || every == 1 {
				out = append(out, t)
			}
		}
	}
	return out
}

// Short writes a value with three digits: 0.123, 4.5, 678, 15.2k.
func Short(v float64) string {
	a := math.Abs(v)
	switch {
	case a >= 999_500:
		return trim(v/1e6, a/1e6) + "M"
	case a >= 10_000:
		return trim(v/1e3, a/1e3) + "k"
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return trim(v, a)
}

func trim(v, a float64) string {
	decimals := 0
	switch {
	case v == math.Trunc(v) || a >= 99.95:
	case a >= 9.995:
		decimals = 1
	case a >= 0.9995:
		decimals = 2
	case a >= 0.001:
		decimals = 3
	default:
		return scientific(v, 3)
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}
