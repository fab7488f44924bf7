package plot

import (
	"cmp"
	"fmt"
	"slices"

	"gonum.org/v1/plot/vg"
)

// CDF is a picture of distributions: the share of the samples that are at most
// x, as steps. The y axis runs from 0 to 1.
type CDF struct {
	Title  string
	X      Axis // logarithmic with a Min: samples below Min, 0 too, count as Min
	Series []Samples
	Of     string // what is counted: "requests"; "": samples
	VLines []Ref
	Legend Legend
}

// Samples of one series, in any order.
type Samples struct {
	Name   string
	Values []float64
}

func (c CDF) plan() (*sheet, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("CDF %q: %w", c.Title, err)
	}
	names, weight := make([]string, len(c.Series)), make([]float64, len(c.Series))
	var x span
	for i, s := range c.Series {
		names[i], weight[i] = s.Name, mean(s.Values)
		for _, v := range s.Values {
			x.add(v)
		}
	}
	for _, r := range c.VLines {
		x.add(r.At)
	}
	if !c.X.Log && x.lo >= 0 && x.lo < x.hi/2 {
		x.lo = 0
	}
	ch := &chart{title: c.Title, x: c.X.scaleX(x, false), legend: c.Legend}
	ch.y = scale{label: "share of " + cmp.Or(c.Of, "samples"), lo: 0, hi: 1.02}
	all := looks(names, weight)
	ch.keys = keysOf(names, all, false, false)
	curves := make([]curve, len(c.Series))
	for i, s := range c.Series {
		curves[i] = curve{look: all[i]}
		curves[i].x, curves[i].y = steps(s.Values, ch.x.lo, ch.x.hi)
	}
	ch.layers = []layer{
		func(f *frame) { drawRefLines(f, nil, c.VLines) },
		func(f *frame) { drawCurves(f, curves) },
		func(f *frame) { drawRefLabels(f, nil, c.VLines, cover(f, curves)) },
	}
	ch.spare = func(f *frame) []vg.Rectangle { return refRects(f, nil, c.VLines) }
	ch.avoid = func(f *frame) []vg.Rectangle {
		data := cover(f, curves)
		return append(data, refLabels(f, nil, c.VLines, data)...)
	}
	return one(ch), nil
}

func (c CDF) check() error {
	names := make([]string, len(c.Series))
	for i, s := range c.Series {
		names[i] = s.Name
	}
	if err := checkNames("CDF", names); err != nil {
		return err
	}
	log := c.X.Log && !c.X.fixed()
	for _, s := range c.Series {
		if err := checkValues(s.Name, "sample", s.Values, log); err != nil {
			return err
		}
	}
	for _, r := range c.VLines {
		if err := checkValues(r.Label, "line", []float64{r.At}, c.X.Log); err != nil {
			return err
		}
	}
	return c.X.check("x")
}

// steps is the curve of the samples from lo to hi: two points for each value
// that occurs. What lies below lo is counted at lo.
func steps(values []float64, lo, hi float64) (x, y []float64) {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	share := 0.0
	x, y = append(x, lo), append(y, 0)
	for i := 0; i < len(sorted); {
		n := i
		for n < len(sorted) && sorted[n] == sorted[i] {
			n++
		}
		at := max(sorted[i], lo)
		x, y = append(x, at), append(y, share)
		share = float64(n) / float64(len(sorted))
		x, y = append(x, at), append(y, share)
		i = n
	}
	return append(x, max(hi, sorted[len(sorted)-1])), append(y, 1)
}
