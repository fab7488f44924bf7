package plot

import (
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot/vg"
)

// Stack is a picture of shares over time: areas on top of each other in the
// given order, the first at the bottom. More than eight have grey ones in two
// shades between the coloured ones.
type Stack struct {
	Title  string
	X, Y   Axis
	At     []float64 // the x of all areas, ascending
	Areas  []Area
	Over   []Series // lines above the areas: the offered load, say
	Legend Legend
}

// Area is one name's share at each x.
type Area struct {
	Name   string
	Height []float64
}

func (s Stack) plan() (*sheet, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("stack %q: %w", s.Title, err)
	}
	names, weight := make([]string, len(s.Areas)), make([]float64, len(s.Areas))
	for i, a := range s.Areas {
		names[i], weight[i] = a.Name, mean(a.Height)
	}
	all := looks(names, weight)
	tops := s.tops()
	var x, y span
	y.add(0)
	for i, at := range s.At {
		x.add(at)
		y.add(tops[len(tops)-1][i])
	}
	c := &chart{title: s.Title, legend: s.Legend, keys: keysOf(names, all, true, false)}
	slices.Reverse(c.keys) // as the areas lie
	over := s.over(c, &x, &y)
	c.x, c.y = s.X.scaleX(x, false), s.Y.scaleY(y)
	if c.legend == LegendAuto {
		c.legend = LegendRight
	}
	c.layers = []layer{
		func(f *frame) { s.drawAreas(f, tops, all) },
		func(f *frame) { drawCurves(f, over) },
	}
	c.avoid = func(f *frame) []vg.Rectangle { return append(cover(f, s.topCurve(tops)), cover(f, over)...) }
	return one(c), nil
}

// tops sums the areas up: tops[0] is the ground, tops[i+1] the top of area i.
func (s Stack) tops() [][]float64 {
	tops := [][]float64{make([]float64, len(s.At))}
	for _, a := range s.Areas {
		below := tops[len(tops)-1]
		top := make([]float64, len(s.At))
		for i := range top {
			top[i] = below[i] + a.Height[i]
		}
		tops = append(tops, top)
	}
	return tops
}

func (s Stack) topCurve(tops [][]float64) []curve {
	return []curve{{x: s.At, y: tops[len(tops)-1]}}
}

// over makes the lines above the areas: dark, told apart by their dashes.
func (s Stack) over(c *chart, x, y *span) []curve {
	var out []curve
	var keys []key
	for i, l := range s.Over {
		k := look{color: ink(), dash: dashes(i)}
		if l.Dashed {
			k.dash = dashes(i + 1)
		}
		out = append(out, curve{look: k, x: l.X, y: l.Y})
		keys = append(keys, key{name: l.Name, look: k})
		for n := range l.X {
			x.add(l.X[n])
			y.add(l.Y[n])
		}
	}
	c.keys = append(keys, c.keys...)
	return out
}

func (s Stack) drawAreas(f *frame, tops [][]float64, all []look) {
	greys := 0
	for i := range s.Areas {
		hue := all[i].patch
		if all[i].other {
			hue = []color.NRGBA{otherGrey(), {0xD4, 0xD4, 0xD4, 0xFF}}[greys%2]
			greys++
		}
		f.between(hue, s.At, tops[i], tops[i+1])
	}
	for i, top := range tops[1:] { // white between neighbours, nothing on top
		if i == len(s.Areas)-1 {
			break
		}
		canvas := f.clip()
		for _, part := range canvas.ClipLinesXY((curve{x: s.At, y: top}).points(f)) {
			f.stroke(white(), 0.4, nil, part...)
		}
	}
}

func (s Stack) check() error {
	names := make([]string, len(s.Areas))
	for i, a := range s.Areas {
		names[i] = a.Name
	}
	if err := checkNames("stack", names); err != nil {
		return err
	}
	if s.Y.Log {
		return fmt.Errorf("%w: areas do not add up on a logarithmic axis", ErrInvalid)
	}
	if err := checkValues("all areas", "at", s.At, s.X.Log); err != nil {
		return err
	}
	if !slices.IsSorted(s.At) {
		return fmt.Errorf("%w: all areas: at is not ascending", ErrInvalid)
	}
	for _, a := range s.Areas {
		if len(a.Height) != len(s.At) {
			return fmt.Errorf("%w: series %q: %d heights for %d x", ErrInvalid, a.Name, len(a.Height), len(s.At))
		}
		if err := checkValues(a.Name, "height", a.Height, false); err != nil {
			return err
		}
		if low := slices.Min(a.Height); low < 0 {
			return fmt.Errorf("%w: series %q: height %g is below 0", ErrInvalid, a.Name, low)
		}
	}
	for _, l := range s.Over {
		if err := l.check(s.X.Log, false); err != nil {
			return err
		}
	}
	return checkAxes(s.X, s.Y)
}
