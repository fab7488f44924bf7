package workload

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	multiplierMax = 1e6
	periodMin     = mono.Millisecond
)

// ParseProfile reads the text form:
//
//	step:10s=2,20s=0.5           1 until 10 s, then 2, from 20 s on 0.5
//	ramp:0s=1,60s=3              a line between the points, level outside
//	diurnal:period=60s,depth=0.5 between 0.5 and 1.5, lowest at 0, mean 1
//	burst:period=60s,length=5s,height=4
//	                             4 for 5 s, then 1 for 55 s
//
// Parts joined by * multiply: "diurnal:period=1h,depth=0.3*step:90m=2". Spans
// are a number and ns, us, ms, s, m or h.
func ParseProfile(text string) (*Profile, error) {
	p := &Profile{text: text}
	for s := range strings.SplitSeq(text, "*") {
		part, err := parsePart(strings.TrimSpace(s))
		if err != nil {
			return nil, fmt.Errorf("%w: profile %q: part %q: %w", ErrInvalid, text, s, err)
		}
		p.parts = append(p.parts, part)
	}
	return p, nil
}

func parsePart(text string) (part, error) {
	name, args, _ := strings.Cut(text, ":")
	switch name {
	case "step", "ramp":
		points, err := parsePoints(args)
		if err != nil {
			return part{}, err
		}
		if name == "step" {
			return stepPart(points), nil
		}
		return rampPart(points), nil
	case "diurnal":
		v, err := parseOptions(args, "period", "depth")
		if err != nil {
			return part{}, err
		}
		return diurnalPart(v)
	case "burst":
		v, err := parseOptions(args, "period", "length", "height")
		if err != nil {
			return part{}, err
		}
		return burstPart(v)
	}
	return part{}, fmt.Errorf("%q is none of step, ramp, diurnal, burst", name)
}

// stepPart makes each value begin at its point; 1 goes before them.
func stepPart(points []point) part {
	out, v := []point{{0, 1, 1}}, 1.0
	for _, p := range points {
		if p.at == 0 {
			out = out[:0]
		}
		out = append(out, point{p.at, v, p.after})
		v = p.after
	}
	return part{points: out}
}

// rampPart holds the first value until its point.
func rampPart(points []point) part {
	if first := points[0]; first.at > 0 {
		first.at = 0
		points = append([]point{first}, points...)
	}
	return part{points: points}
}

// diurnalPart is a cosine, lowest at 0, given by its value at each hour of a
// day, with lines between: 24 points need square roots only, and their mean is
// 1.
func diurnalPart(v []float64) (part, error) {
	period, depth := mono.Dur(v[0]), v[1]
	if period < periodMin {
		return part{}, fmt.Errorf("period %s, must be at least %s", period, periodMin)
	}
	if depth > 1 {
		return part{}, fmt.Errorf("depth %g, must be 0 to 1", depth)
	}
	r2, r3, r6 := math.Sqrt(2), math.Sqrt(3), math.Sqrt(6)
	quarter := [7]float64{1, (r6 + r2) / 4, r3 / 2, r2 / 2, 0.5, (r6 - r2) / 4, 0} // cosines of 0, 15 .. 90 degrees
	out := make([]point, 0, 25)
	for hour := range 25 {
		fold := hour
		if hour > 12 {
			fold = 24 - hour
		}
		cosine := 0.0
		if fold <= 6 {
			cosine = quarter[fold]
		} else {
			cosine = -quarter[12-fold]
		}
		height := 1 - float64(depth*cosine)
		out = append(out, point{period/24*mono.Dur(hour) + period%24*mono.Dur(hour)/24, height, height})
	}
	return part{out, period}, nil
}

// burstPart repeats a step up (or down) at the begin of each period. A height
// of 0 is refused: two such parts could leave nothing for ever.
func burstPart(v []float64) (part, error) {
	period, length, height := mono.Dur(v[0]), mono.Dur(v[1]), v[2]
	switch {
	case period < periodMin:
		return part{}, fmt.Errorf("period %s, must be at least %s", period, periodMin)
	case length < 1 || length >= period:
		return part{}, fmt.Errorf("length %s, must be above 0 and below the period", length)
	case height < 1/multiplierMax:
		return part{}, fmt.Errorf("height %g, must be %g to %g", height, 1/multiplierMax, multiplierMax)
	}
	return part{[]point{{0, 1, height}, {length, height, 1}, {period, 1, height}}, period}, nil
}

// parsePoints reads SPAN=MULTIPLIER,... with increasing spans.
func parsePoints(text string) ([]point, error) {
	var out []point
	for s := range strings.SplitSeq(text, ",") {
		at, value, ok := strings.Cut(strings.TrimSpace(s), "=")
		if !ok {
			return nil, fmt.Errorf("%q is not SPAN=MULTIPLIER", s)
		}
		d, err := parseSpan(at)
		if err != nil {
			return nil, err
		}
		v, err := parseMultiplier(value)
		if err != nil {
			return nil, err
		}
		if len(out) > 0 && d <= out[len(out)-1].at {
			return nil, fmt.Errorf("%q is not later than the point before", s)
		}
		out = append(out, point{d, v, v})
	}
	return out, nil
}

// parseOptions reads all of these NAME=VALUE, in any order. "period" and
// "length" are spans in ns, others multipliers.
func parseOptions(text string, names ...string) ([]float64, error) {
	out, seen := make([]float64, len(names)), make([]bool, len(names))
	for s := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(s), "=")
		i := 0
		for i < len(names) && names[i] != key {
			i++
		}
		if i == len(names) || seen[i] {
			return nil, fmt.Errorf("%q, must be one each of %s", s, strings.Join(names, ", "))
		}
		seen[i] = true
		var err error
		if key == "period" || key == "length" {
			var d mono.Dur
			d, err = parseSpan(value)
			out[i] = float64(d)
		} else {
			out[i], err = parseMultiplier(value)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	for i, ok := range seen {
		if !ok {
			return nil, fmt.Errorf("%s is missing", names[i])
		}
	}
	return out, nil
}

func parseMultiplier(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= multiplierMax) {
		return 0, fmt.Errorf("multiplier %q, must be 0 to %g", text, multiplierMax)
	}
	return v, nil
}

// spanMax keeps sums of spans far from overflow: 31 years. Up to it a float64
// holds each multiple of 128 ns; a span in text is rounded to what it holds.
const spanMax = 1e18

// parseSpan reads "10s", "1.5m", "250ms".
func parseSpan(text string) (mono.Dur, error) {
	number := strings.TrimRight(text, "nsumh")
	unit := 0.0
	switch text[len(number):] {
	case "ns":
		unit = 1
	case "us":
		unit = 1e3
	case "ms":
		unit = 1e6
	case "s":
		unit = 1e9
	case "m":
		unit = 60e9
	case "h":
		unit = 3600e9
	}
	v, err := strconv.ParseFloat(number, 64)
	ns := math.Floor(float64(v*unit) + 0.5)
	if err != nil || unit == 0 || !(ns >= 0 && ns <= spanMax) {
		return 0, fmt.Errorf("span %q, must be a number and ns, us, ms, s, m or h", text)
	}
	return mono.Dur(ns), nil
}
