package plot

import (
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// chart is one set of axes with what is drawn in it. A picture is turned into
// a chart by its plan; all that depends on the size is decided in fit.
type chart struct {
	title  string
	x, y   scale
	keys   []key
	legend Legend

	adapt  func(p *pen, w, h vg.Length) // changes scales to the size, before the ticks
	below  []layer                      // drawn under the grid
	layers []layer
	avoid  func(f *frame) []vg.Rectangle // where a legend would hide data
	spare  func(f *frame) []vg.Rectangle // where it had better not lie

	// Decided by fit.
	place   Legend // LegendAuto: not yet
	topRows int    // of a legend above the area
	slanted bool   // names under the x axis stand at an angle
	head    []string
	xLabel  []string
	yLabel  []string
}

type layer func(f *frame)

// frame is the area of a chart on a canvas: the data's place in points.
type frame struct {
	*pen
	area vg.Rectangle
	x, y *scale
}

func (f *frame) X(v float64) vg.Length {
	return f.area.Min.X + vg.Length(f.x.at(v))*(f.area.Max.X-f.area.Min.X)
}

func (f *frame) Y(v float64) vg.Length {
	return f.area.Min.Y + vg.Length(f.y.at(v))*(f.area.Max.Y-f.area.Min.Y)
}

func (f *frame) point(x, y float64) vg.Point { return vg.Point{X: f.X(x), Y: f.Y(y)} }

// clip is the area as a canvas, for gonum's clipping.
func (f *frame) clip() draw.Canvas { return draw.Canvas{Canvas: f.Canvas, Rectangle: f.area} }

// margins is the room that a chart needs around its area.
type margins struct{ left, right, top, bottom vg.Length }

func (m margins) union(o margins) margins {
	return margins{max(m.left, o.left), max(m.right, o.right), max(m.top, o.top), max(m.bottom, o.bottom)}
}

// Distances in points.
const (
	edge     vg.Length = 7   // between a chart and the picture's border
	tickLong vg.Length = 3   // of tick marks
	gap      vg.Length = 3.5 // between a mark and its label
	lineHigh vg.Length = 11  // from one line of labels to the next

	titleHigh vg.Length = 13
)

// fit decides ticks and the legend's place for an area of w by h.
func (c *chart) fit(p *pen, w, h vg.Length) {
	if c.adapt != nil {
		c.adapt(p, w, h)
	}
	c.x.choose(w, func(s string) vg.Length { return p.widest(strings.Split(s, "\n"), sizeTick) + 9 })
	c.y.choose(h, func(string) vg.Length { return 20 })
	c.slanted = c.x.named && !c.x.roomy(c.x.ticks, w, func(s string) vg.Length {
		return p.widest(strings.Split(s, "\n"), sizeTick) + 4
	})
	if c.place == LegendAuto {
		c.place = c.placeLegend(&frame{p, rect(0, 0, w, h), &c.x, &c.y})
	}
	_, c.topRows = layRows(p, c.keys, 0, w)
	c.head = p.wrap(c.title, text{size: sizeTitle, bold: true}, w)
	c.xLabel = p.wrap(c.x.label, text{size: sizeLabel}, w+20)
	c.yLabel = p.wrap(c.y.label, text{size: sizeLabel}, h+5)
}

func (c *chart) margins(p *pen, w vg.Length) margins {
	m := margins{left: edge, right: edge, top: edge, bottom: edge}
	m.left += tickLong + gap + p.widest(labels(c.y.ticks), sizeTick)
	m.left += vg.Length(len(c.yLabel))*lineHigh + gap
	for _, t := range c.x.ticks {
		if c.slanted { // the name ends below its place and begins left of it
			m.left = max(m.left, edge-3+p.width(strings.ReplaceAll(t.label, "\n", " "), sizeTick)*slantCos-vg.Length(c.x.at(t.at))*w)
		}
	}
	m.bottom += tickLong + gap + c.xLabelHeight(p)
	m.bottom += vg.Length(len(c.xLabel))*lineHigh + 1
	if n := len(c.x.ticks); n > 0 && !c.slanted {
		last := c.x.ticks[n-1]
		over := p.widest(strings.Split(last.label, "\n"), sizeTick)/2 - vg.Length(1-c.x.at(last.at))*w
		m.right = max(m.right, edge/2+over)
	}
	if len(c.head) > 0 {
		m.top += gap + vg.Length(len(c.head)-1)*titleHigh + sizeTitle*capHeight
	}
	switch c.place {
	case LegendRight:
		m.right += c.legendSize(p).X + 6
	case LegendTop:
		m.top += vg.Length(c.topRows)*keyHigh + gap
	}
	return m
}

func labels(ticks []tick) []string {
	var out []string
	for _, t := range ticks {
		out = append(out, t.label)
	}
	return out
}

// slant is the angle of names that do not fit side by side.
const (
	slant    = 35
	slantSin = 0.574
	slantCos = 0.819
)

func (c *chart) xLabelHeight(p *pen) vg.Length {
	if c.slanted {
		var one []string
		for _, s := range labels(c.x.ticks) {
			one = append(one, strings.ReplaceAll(s, "\n", " "))
		}
		return p.widest(one, sizeTick)*slantSin + sizeTick*capHeight
	}
	lines := 1
	for _, t := range c.x.ticks {
		lines = max(lines, 1+strings.Count(t.label, "\n"))
	}
	return sizeTick*capHeight + vg.Length(lines-1)*lineHigh
}

// draw draws the chart; left is the margin of its column, so that the labels of
// one column's y axes are in line.
func (c *chart) draw(p *pen, area vg.Rectangle, left vg.Length) {
	f := &frame{p, area, &c.x, &c.y}
	for _, l := range c.below {
		l(f)
	}
	c.drawGrid(f)
	for _, l := range c.layers {
		l(f)
	}
	c.drawAxes(f)
	c.drawTitles(f, left)
	c.drawLegend(f)
}

func (c *chart) drawGrid(f *frame) {
	a := f.area
	for _, t := range c.x.ticks {
		if x := f.X(t.at); !c.x.bare && t.label != "" {
			f.stroke(gridLine(), 0.5, nil, vg.Point{X: x, Y: a.Min.Y}, vg.Point{X: x, Y: a.Max.Y})
		}
	}
	for _, t := range c.y.ticks {
		if y := f.Y(t.at); !c.y.bare && t.label != "" {
			f.stroke(gridLine(), 0.5, nil, vg.Point{X: a.Min.X, Y: y}, vg.Point{X: a.Max.X, Y: y})
		}
	}
}

func (c *chart) drawAxes(f *frame) {
	a := f.area
	f.stroke(ink(), 0.8, nil, vg.Point{X: a.Min.X, Y: a.Max.Y}, a.Min, vg.Point{X: a.Max.X, Y: a.Min.Y})
	for _, t := range c.x.ticks {
		c.drawTickX(f, t)
	}
	for _, t := range c.y.ticks {
		y, long := f.Y(t.at), markLong(t)
		if !c.y.named {
			f.stroke(ink(), 0.8, nil, vg.Point{X: a.Min.X - long, Y: y}, vg.Point{X: a.Min.X, Y: y})
		}
		f.write(t.label, vg.Point{X: a.Min.X - tickLong - gap, Y: y}, text{size: sizeTick, h: 1, v: 0.5})
	}
}

// markLong: marks between labelled ticks are shorter.
func markLong(t tick) vg.Length {
	if t.label == "" {
		return tickLong * 0.6
	}
	return tickLong
}

func (c *chart) drawTickX(f *frame, t tick) {
	x, y := f.X(t.at), f.area.Min.Y
	if !c.x.named {
		f.stroke(ink(), 0.8, nil, vg.Point{X: x, Y: y}, vg.Point{X: x, Y: y - markLong(t)})
	}
	y -= tickLong + gap
	if c.slanted {
		f.write(strings.ReplaceAll(t.label, "\n", " "), vg.Point{X: x + 3, Y: y}, text{size: sizeTick, h: 1, v: 1, turn: slant})
		return
	}
	for i, line := range strings.Split(t.label, "\n") {
		f.write(line, vg.Point{X: x, Y: y - vg.Length(i)*lineHigh}, text{size: sizeTick, h: 0.5, v: 1})
	}
}

func (c *chart) drawTitles(f *frame, left vg.Length) {
	a := f.area
	below := a.Min.Y - tickLong - gap - c.xLabelHeight(f.pen) - gap
	for i, line := range c.xLabel {
		f.write(line, vg.Point{X: (a.Min.X + a.Max.X) / 2, Y: below - vg.Length(i)*lineHigh}, text{size: sizeLabel, h: 0.5, v: 1})
	}
	for i, line := range c.yLabel {
		x := a.Min.X - left + edge + sizeLabel*capHeight + vg.Length(i)*lineHigh
		f.write(line, vg.Point{X: x, Y: (a.Min.Y + a.Max.Y) / 2}, text{size: sizeLabel, h: 0.5, turn: 90})
	}
	above := a.Max.Y + gap + 1
	if c.place == LegendTop {
		above += vg.Length(c.topRows)*keyHigh + gap
	}
	for i, line := range c.head {
		f.write(line, vg.Point{X: a.Min.X, Y: above + vg.Length(len(c.head)-1-i)*titleHigh}, text{size: sizeTitle, bold: true})
	}
}
