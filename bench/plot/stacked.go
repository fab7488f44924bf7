package plot

import (
	"fmt"

	"gonum.org/v1/plot/vg"
)

// StackedBars is a picture of sums and what they are made of: one bar for each
// group, its series on top of each other, the first at the bottom. The sum is
// written above.
type StackedBars struct {
	Title  string
	Y      Axis
	Groups []string
	Series []BarSeries
	Legend Legend // LegendAuto: to the right, in the order of the bars
}

func (s StackedBars) plan() (*sheet, error) {
	b := Bars{Title: s.Title, Y: s.Y, Groups: s.Groups, Series: s.Series}
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("stacked bars %q: %w", s.Title, err)
	}
	if s.Y.Log {
		return nil, fmt.Errorf("stacked bars %q: %w: parts do not add up on a logarithmic axis", s.Title, ErrInvalid)
	}
	names, weight := make([]string, len(s.Series)), make([]float64, len(s.Series))
	sums := make([]float64, len(s.Groups))
	for i, one := range s.Series {
		names[i] = one.Name
		for g, bar := range one.Bars {
			weight[i] += bar.Value
			sums[g] += bar.Value
		}
	}
	var y span
	y.add(0)
	for _, v := range sums {
		y.add(v * 1.08) // room for the sum
	}
	all := looks(names, weight)
	c := &chart{title: s.Title, legend: s.Legend, keys: keysOf(names, all, true, false)}
	for i, k := 0, len(c.keys)-1; i < k; i, k = i+1, k-1 { // as the parts lie
		c.keys[i], c.keys[k] = c.keys[k], c.keys[i]
	}
	if c.legend == LegendAuto {
		c.legend = LegendRight
	}
	c.y = s.Y.scaleY(y)
	c.x = scale{lo: 0, hi: float64(len(s.Groups)), named: true, bare: true}
	c.adapt = func(p *pen, w, _ vg.Length) { c.x.ticks = b.groupTicks(p, w) }
	c.layers = []layer{func(f *frame) { s.draw(f, all, sums) }}
	return one(c), nil
}

func (s StackedBars) draw(f *frame, all []look, sums []float64) {
	wide := f.area.Size().X / vg.Length(len(s.Groups)) * 0.6
	for g := range s.Groups {
		left := f.X(float64(g)+0.5) - wide/2
		below := 0.0
		for i, one := range s.Series {
			from, to := f.Y(below), f.Y(below+one.Bars[g].Value)
			f.fill(all[i].patch, rect(left, from, wide, to-from))
			below += one.Bars[g].Value
		}
		f.barLabel(Bar{Value: sums[g]}, vg.Point{X: left + wide/2, Y: f.Y(sums[g]) + 3}, barText{size: sizeTick})
	}
}
