package plot

import (
	"fmt"
	"slices"

	"gonum.org/v1/plot/vg"
)

// Lines is a picture of curves, with lines and bands to compare them with.
type Lines struct {
	Title   string
	X, Y    Axis
	Series  []Series
	Bands   []Band
	HLines  []Ref // at a y
	VLines  []Ref // at an x
	Markers bool  // a mark at each point
	Legend  Legend
}

// Band is a shaded area between Lo[i] and Hi[i] at X[i]. Without X it has one
// Lo and one Hi, and lies along the whole x axis.
type Band struct {
	Name      string
	X, Lo, Hi []float64
	Of        string // the series whose colour it has; "": grey
}

// Ref is a dashed line across the picture.
type Ref struct {
	At    float64
	Label string
}

func (l Lines) plan() (*sheet, error) {
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("lines %q: %w", l.Title, err)
	}
	names, all := l.looks()
	curves := make([]curve, len(l.Series))
	var x, y span
	for i, s := range l.Series {
		if s.Dashed && all[i].dash == nil {
			all[i].dash = dashes(1)
		}
		curves[i] = curve{all[i], s.X, s.Y, l.Markers || s.Points, s.Points, s.Labels}
		for k := range s.X {
			x.add(s.X[k])
			y.add(s.Y[k])
		}
	}
	l.stretch(&x, &y)
	c := &chart{title: l.Title, x: l.X.scaleX(x, l.Markers), y: l.Y.scaleY(y), legend: l.Legend}
	c.keys = l.keys(all)
	for _, b := range l.Bands {
		hue := bandColor(b.Of, names, all)
		c.below = append(c.below, b.layer(hue))
		if b.Name != "" {
			c.keys = append(c.keys, key{name: b.Name, look: look{patch: hue}, area: true})
		}
	}
	c.layers = []layer{
		func(f *frame) { drawRefLines(f, l.HLines, l.VLines) },
		func(f *frame) { drawCurves(f, curves) },
		func(f *frame) { drawLabels(f, curves) },
		func(f *frame) { drawRefLabels(f, l.HLines, l.VLines, cover(f, curves)) },
	}
	c.spare = func(f *frame) []vg.Rectangle { return refRects(f, l.HLines, l.VLines) }
	c.avoid = func(f *frame) []vg.Rectangle {
		data := cover(f, curves)
		return append(data, refLabels(f, l.HLines, l.VLines, data)...)
	}
	return one(c), nil
}

// looks gives each series its look.
func (l Lines) looks() (names []string, all []look) {
	var own []string
	var weight []float64
	for _, s := range l.Series {
		names = append(names, s.Name)
		if s.Of == "" {
			own, weight = append(own, s.Name), append(weight, mean(s.Y))
		}
	}
	table := looks(own, weight)
	for _, s := range l.Series {
		name := s.Name
		if s.Of != "" {
			name = s.Of
		}
		k := table[slices.Index(own, name)]
		if s.Points {
			k.shape += 4 // hollow
		}
		all = append(all, k)
	}
	return names, all
}

// keys are those of the series that have a colour of their own.
func (l Lines) keys(all []look) []key {
	var names []string
	var own []look
	for i, s := range l.Series {
		if s.Of == "" {
			names, own = append(names, s.Name), append(own, all[i])
		}
	}
	return keysOf(names, own, false, l.Markers)
}

// stretch makes room for the bands and lines.
func (l Lines) stretch(x, y *span) {
	for _, b := range l.Bands {
		for i := range b.Lo {
			y.add(b.Lo[i])
			y.add(b.Hi[i])
		}
		for _, v := range b.X {
			x.add(v)
		}
	}
	for _, r := range l.HLines {
		y.add(r.At)
	}
	for _, r := range l.VLines {
		x.add(r.At)
	}
}

func (l Lines) check() error {
	names := make([]string, len(l.Series))
	for i, s := range l.Series {
		names[i] = s.Name
	}
	if err := checkNames("lines", names); err != nil {
		return err
	}
	for _, s := range l.Series {
		if err := s.check(l.X.Log, l.Y.Log); err != nil {
			return err
		}
		if err := s.checkMore(l.Series); err != nil {
			return err
		}
	}
	for _, b := range l.Bands {
		if err := b.check(l.X.Log, l.Y.Log); err != nil {
			return err
		}
	}
	for _, r := range l.HLines {
		if err := checkValues(r.Label, "line", []float64{r.At}, l.Y.Log); err != nil {
			return err
		}
	}
	for _, r := range l.VLines {
		if err := checkValues(r.Label, "line", []float64{r.At}, l.X.Log); err != nil {
			return err
		}
	}
	return checkAxes(l.X, l.Y)
}

func checkAxes(x, y Axis) error {
	if err := x.check("x"); err != nil {
		return err
	}
	return y.check("y")
}

func (b Band) check(logX, logY bool) error {
	n := max(1, len(b.X))
	if len(b.Lo) != n || len(b.Hi) != n {
		return fmt.Errorf("%w: series %q: %d low and %d high ends of a band, want %d", ErrInvalid, b.Name, len(b.Lo), len(b.Hi), n)
	}
	if b.X != nil {
		if err := checkValues(b.Name, "x", b.X, logX); err != nil {
			return err
		}
	}
	if err := checkValues(b.Name, "lo", b.Lo, logY); err != nil {
		return err
	}
	return checkValues(b.Name, "hi", b.Hi, logY)
}
