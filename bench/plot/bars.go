package plot

import (
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
)

// Bars is a picture of groups side by side, one bar in each for every series,
// with its value above it. The axis begins at 0. With one series whose groups
// are named after systems, each bar has its system's colour.
type Bars struct {
	Title  string
	Y      Axis
	Groups []string
	Series []BarSeries
	Legend Legend // LegendAuto: above the bars
}

// BarSeries has one bar in each group.
type BarSeries struct {
	Name string
	Bars []Bar
}

// Bar is a value, or the lack of one: shown as "n/a".
type Bar struct {
	Value   float64
	Missing bool
}

// Values makes bars of numbers.
func Values(v ...float64) []Bar {
	out := make([]Bar, len(v))
	for i, x := range v {
		out[i].Value = x
	}
	return out
}

// shareOfGroup is what bars take of their group's width; the rest parts groups.
const shareOfGroup = 0.84

func (b Bars) plan() (*sheet, error) {
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("bars %q: %w", b.Title, err)
	}
	names, weight := make([]string, len(b.Series)), make([]float64, len(b.Series))
	var y span
	for i, s := range b.Series {
		names[i] = s.Name
		for _, bar := range s.Bars {
			if !bar.Missing {
				weight[i] += bar.Value
				y.add(bar.Value)
			}
		}
	}
	if !b.Y.Log {
		y.add(0)
	}
	all := looks(names, weight)
	c := &chart{title: b.Title, legend: b.Legend, keys: keysOf(names, all, true, false)}
	if c.legend == LegendAuto {
		c.legend = LegendTop
	}
	c.y = b.Y.scaleY(y)
	c.x = scale{lo: 0, hi: float64(len(b.Groups)), named: true, bare: true}
	top := c.y.hi
	if !b.Y.fixed() {
		top = y.hi
	}
	var style barText
	c.adapt = func(p *pen, w, h vg.Length) {
		c.x.ticks = b.groupTicks(p, w)
		style = b.textStyle(p, w)
		if !b.Y.fixed() {
			c.y.hi = top
			c.y.pad(0, float64(style.high/max(h-style.high, h/3)))
		}
	}
	c.layers = []layer{func(f *frame) { b.draw(f, all, style) }}
	return one(c), nil
}

// groupTicks breaks the groups' names into lines as narrow as the group.
func (b Bars) groupTicks(p *pen, w vg.Length) []tick {
	room := w/vg.Length(len(b.Groups)) - 4
	var out []tick
	for i, name := range b.Groups {
		out = append(out, tick{float64(i) + 0.5, strings.Join(p.wrap(name, text{size: sizeTick}, room), "\n")})
	}
	return out
}

// barText is how the values are written: flat, upright, or (size 0) not.
type barText struct {
	size    vg.Length
	upright bool
	high    vg.Length // room that it takes above the highest bar
}

func (b Bars) barWidth(w vg.Length) vg.Length {
	return w / vg.Length(len(b.Groups)) * shareOfGroup / vg.Length(len(b.Series))
}

// textStyle takes the same style for all values, so that they compare.
func (b Bars) textStyle(p *pen, w vg.Length) barText {
	var texts []string
	for _, s := range b.Series {
		for _, bar := range s.Bars {
			texts = append(texts, bar.text())
		}
	}
	wide := b.barWidth(w)
	if p.widest(texts, sizeTick) <= wide+1 {
		return barText{size: sizeTick, high: sizeTick + 5}
	}
	size := min(sizeTick, wide*1.2) // digits are 0.69 high: they leave a gap
	if size < sizeLeast {
		return barText{high: 4}
	}
	return barText{size: size, upright: true, high: p.widest(texts, size) + 7}
}

func (b Bar) text() string {
	if b.Missing {
		return "n/a"
	}
	return Short(b.Value)
}

func (b Bars) draw(f *frame, all []look, style barText) {
	wide := b.barWidth(f.area.Size().X)
	systems := b.groupsAreSystems()
	for g := range b.Groups {
		left := f.X(float64(g)+0.5) - wide*vg.Length(len(b.Series))/2
		for i, s := range b.Series {
			x, hue := left+wide*vg.Length(i), all[i].patch
			if systems {
				hue = groupColor(b.Groups[g])
			}
			bar, top := s.Bars[g], f.area.Min.Y
			if !bar.Missing {
				top = min(max(f.Y(bar.Value), f.area.Min.Y), f.area.Max.Y)
				inset := wide * 0.06
				f.fill(hue, rect(x+inset, f.area.Min.Y, wide-2*inset, top-f.area.Min.Y))
			}
			f.barLabel(bar, vg.Point{X: x + wide/2, Y: top + 3}, style)
		}
	}
}

func (f *frame) barLabel(bar Bar, at vg.Point, style barText) {
	if style.size == 0 {
		return
	}
	t := text{size: style.size, h: 0.5}
	if style.upright {
		t.h, t.v, t.turn = 0, 0.5, 90
	}
	if bar.Missing {
		t.color = faintInk()
	}
	f.write(bar.text(), at, t)
}

func (b Bars) groupsAreSystems() bool {
	return len(b.Series) == 1 && slices.ContainsFunc(b.Groups, func(g string) bool { _, ok := system(g); return ok })
}

func groupColor(group string) color.NRGBA {
	if c, ok := system(group); ok {
		return palette(c)
	}
	return otherGrey()
}

func (b Bars) check() error {
	names := make([]string, len(b.Series))
	for i, s := range b.Series {
		names[i] = s.Name
	}
	if err := checkNames("bars", names); err != nil {
		return err
	}
	if len(b.Groups) == 0 {
		return fmt.Errorf("%w: no groups", ErrInvalid)
	}
	known := false
	for _, s := range b.Series {
		if len(s.Bars) != len(b.Groups) {
			return fmt.Errorf("%w: series %q: %d bars for %d groups", ErrInvalid, s.Name, len(s.Bars), len(b.Groups))
		}
		for i, bar := range s.Bars {
			switch {
			case bar.Missing:
				continue
			case !finite(bar.Value) || bar.Value < 0 || b.Y.Log && bar.Value == 0:
				return fmt.Errorf("%w: series %q: bar of %q is %g", ErrInvalid, s.Name, b.Groups[i], bar.Value)
			}
			known = true
		}
	}
	if !known {
		return fmt.Errorf("%w: series %q and all others have no data", ErrInvalid, names[0])
	}
	return b.Y.check("y")
}
