package workload

import (
	"math"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Profile is how a rate changes over time: a multiplier, piecewise linear. Its
// parts multiply. It is not changed after ParseProfile; Poisson streams of a
// Mix that share one are merged.
//
// Where two parts slope at once, their product is taken to be a line between
// the points of either. Steps and bursts have no slope: with them products are
// exact.
type Profile struct {
	text  string
	parts []part
}

// part is a polygon over time, held at its last value, or repeated for ever.
//
// Invariant: points[0].at is 0, points[i].at increases, and a repeated part
// ends with a point at its period and is above 0 but for single instants.
type part struct {
	points []point
	period mono.Dur // 0: not repeated
}

// point is the multiplier just before and just after an instant.
type point struct {
	at            mono.Dur
	before, after float64
}

// String is the text that the profile was parsed from.
func (p *Profile) String() string { return p.text }

// At is the multiplier at that instant, after its step if there is one.
func (p *Profile) At(t mono.Time) float64 {
	v := 1.0
	for i := range p.parts {
		var c cursor
		c.seek(&p.parts[i], t)
		v = float64(v * c.value(&p.parts[i], t))
	}
	return v
}

// thin is a lower bound, in ns of multiplier 1, of what a repetition of the
// profile yields while it is not 0; +Inf if no part repeats.
func (p *Profile) thin() float64 {
	period, height := math.Inf(1), 1.0
	for i := range p.parts {
		if d := p.parts[i].period; d > 0 {
			period = min(period, float64(d))
		}
		height = float64(height * p.parts[i].least())
	}
	return float64(period * height)
}

// least is the mean of the part's lowest line that is not 0.
func (p *part) least() float64 {
	least := math.MaxFloat64
	last := len(p.points) - 1
	for i, from := range p.points {
		mean := from.after
		if i < last {
			mean = (from.after + p.points[i+1].before) / 2
		}
		if mean > 0 && (i < last || p.period == 0) {
			least = min(least, mean)
		}
	}
	return min(least, 1)
}

// cursor is a place in a part: the line that begins at points[i] of the round
// that began at base. The zero cursor is the first line.
type cursor struct {
	base mono.Time
	i    int
}

// seek sets the cursor to the line that holds t.
func (c *cursor) seek(p *part, t mono.Time) {
	*c = cursor{}
	if p.period > 0 {
		c.base = t - t%mono.Time(p.period)
	}
	for c.end(p) <= t {
		c.step(p)
	}
}

// step goes to the next line.
func (c *cursor) step(p *part) {
	c.i++
	if p.period > 0 && c.i == len(p.points)-1 {
		c.i, c.base = 0, c.base.Add(p.period)
	}
}

// end is where the line ends.
func (c *cursor) end(p *part) mono.Time {
	if c.i == len(p.points)-1 {
		return mono.Never
	}
	return c.base.Add(p.points[c.i+1].at)
}

// zero reports that the line is 0 throughout.
func (c *cursor) zero(p *part) bool {
	return p.points[c.i].after == 0 && (c.i == len(p.points)-1 || p.points[c.i+1].before == 0)
}

// value is the line's height at t, which lies on it or at its end.
func (c *cursor) value(p *part, t mono.Time) float64 {
	from := p.points[c.i]
	if c.i == len(p.points)-1 {
		return from.after
	}
	to := p.points[c.i+1]
	if from.after == to.before {
		return from.after
	}
	passed, length := t.Sub(c.base.Add(from.at)), to.at-from.at
	return from.after + float64((to.before-from.after)*(float64(passed)/float64(length)))
}
