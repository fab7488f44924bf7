package plot

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
)

// Series is a named curve through (X[i], Y[i]).
type Series struct {
	Name   string
	X, Y   []float64
	Dashed bool // for what is computed or offered, not measured
	// What follows is for Lines alone.
	Of     string   // the series whose colour it has, without an entry of its own in the legend; "": its own
	Points bool     // hollow marks, and no line
	Labels []string // beside its points, as many; "" is none
}

// checkMore looks at what only Lines has.
func (s Series) checkMore(all []Series) error {
	if len(s.Labels) > 0 && len(s.Labels) != len(s.X) {
		return fmt.Errorf("%w: series %q: %d labels for %d points", ErrInvalid, s.Name, len(s.Labels), len(s.X))
	}
	if s.Of != "" && !slices.ContainsFunc(all, func(o Series) bool { return o.Name == s.Of && o.Of == "" }) {
		return fmt.Errorf("%w: series %q: there is no series %q whose colour it could have", ErrInvalid, s.Name, s.Of)
	}
	return nil
}

// checkNames refuses two series of one name, and none at all.
func checkNames(what string, names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("%w: %s: no data", ErrInvalid, what)
	}
	for i, a := range names {
		for _, b := range names[:i] {
			if a == b {
				return fmt.Errorf("%w: %s: two series are named %q", ErrInvalid, what, a)
			}
		}
	}
	return nil
}

// checkValues refuses an empty series and what cannot be placed on the axis.
func checkValues(series, axis string, values []float64, log bool) error {
	if len(values) == 0 {
		return fmt.Errorf("%w: series %q has no data", ErrInvalid, series)
	}
	for i, v := range values {
		if !finite(v) {
			return fmt.Errorf("%w: series %q: %s[%d] is %g", ErrInvalid, series, axis, i, v)
		}
		if log && v <= 0 {
			return fmt.Errorf("%w: series %q: %s[%d] is %g, and the axis is logarithmic", ErrInvalid, series, axis, i, v)
		}
	}
	return nil
}

func (s Series) check(logX, logY bool) error {
	if len(s.X) != len(s.Y) {
		return fmt.Errorf("%w: series %q: %d x for %d y", ErrInvalid, s.Name, len(s.X), len(s.Y))
	}
	if err := checkValues(s.Name, "x", s.X, logX); err != nil {
		return err
	}
	return checkValues(s.Name, "y", s.Y, logY)
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}

// curve is a series with its look, ready to be drawn.
type curve struct {
	look    look
	x, y    []float64
	markers bool
	alone   bool // marks, and no line
	labels  []string
}

func (l look) width() vg.Length {
	if l.other {
		return 0.7
	}
	return 1.6
}

// drawCurves draws the grey ones first and the first series last, on top.
func drawCurves(f *frame, curves []curve) {
	for _, grey := range []bool{true, false} {
		for i := len(curves) - 1; i >= 0; i-- {
			if c := curves[i]; c.look.other == grey {
				c.draw(f)
			}
		}
	}
}

func (c curve) draw(f *frame) {
	canvas := f.clip()
	if !c.alone {
		for _, part := range canvas.ClipLinesXY(c.points(f)) {
			f.stroke(c.look.color, c.look.width(), c.look.dash, part...)
		}
	}
	if !c.markers || c.look.other {
		return
	}
	for i := range c.x {
		if at := f.point(c.x[i], c.y[i]); canvas.Contains(at) {
			f.marker(c.look, at)
		}
	}
}

// thin is the distance in points below which a curve's next point is left out:
// a tenth of what can be seen. A million samples then take no more bytes than
// the picture has room for.
const thin = 0.12

// points is the curve on the canvas. Its first and last points stay.
func (c curve) points(f *frame) []vg.Point {
	var out []vg.Point
	for i := range c.x {
		p := f.point(c.x[i], c.y[i])
		if n := len(out); n > 0 && i < len(c.x)-1 && math.Hypot(float64(p.X-out[n-1].X), float64(p.Y-out[n-1].Y)) < thin {
			continue
		}
		out = append(out, p)
	}
	return out
}

// cover is where the curves lie, for the legend to avoid: points every few
// millimetres along them.
func cover(f *frame, curves []curve) []vg.Rectangle {
	const every = 6
	var out []vg.Rectangle
	canvas := f.clip()
	for _, c := range curves {
		for _, part := range canvas.ClipLinesXY(c.points(f)) {
			for i := 1; i < len(part); i++ {
				a, b := part[i-1], part[i]
				n := 1 + int(math.Hypot(float64(b.X-a.X), float64(b.Y-a.Y))/every)
				for k := 0; k <= n; k++ {
					t := vg.Length(k) / vg.Length(n)
					out = append(out, rect(a.X+t*(b.X-a.X)-2, a.Y+t*(b.Y-a.Y)-2, 4, 4))
				}
			}
		}
	}
	return out
}

// marker draws one of eight shapes; the first four are filled.
func (p *pen) marker(l look, at vg.Point) {
	const r = 3
	var path vg.Path
	corners := [][]vg.Point{
		nil, // a circle
		{{X: -0.85, Y: -0.85}, {X: 0.85, Y: -0.85}, {X: 0.85, Y: 0.85}, {X: -0.85, Y: 0.85}},
		{{X: -1, Y: -0.75}, {X: 1, Y: -0.75}, {X: 0, Y: 1.1}},
		{{X: 0, Y: -1.25}, {X: 1.25, Y: 0}, {X: 0, Y: 1.25}, {X: -1.25, Y: 0}},
	}[l.shape%4]
	if corners == nil {
		path.Move(vg.Point{X: at.X + r, Y: at.Y})
		path.Arc(at, r, 0, 2*math.Pi)
	}
	for i, c := range corners {
		q := vg.Point{X: at.X + r*c.X, Y: at.Y + r*c.Y}
		if i == 0 {
			path.Move(q)
		} else {
			path.Line(q)
		}
	}
	path.Close()
	p.SetColor(l.color)
	if l.shape%8 >= 4 {
		p.SetColor(white())
	}
	p.Fill(path)
	p.SetColor(l.color)
	p.SetLineWidth(1)
	p.SetLineDash(nil, 0)
	p.Stroke(path)
}
