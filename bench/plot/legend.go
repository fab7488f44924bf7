package plot

import (
	"strconv"

	"gonum.org/v1/plot/vg"
)

// Legend says where a picture's names stand. One name alone is never shown:
// the title tells it.
type Legend uint8

const (
	// LegendAuto is inside when a corner is free of data, else at the right, or
	// above an area that is too narrow for that.
	LegendAuto Legend = iota
	LegendInside
	LegendRight
	LegendTop // in rows above the area
	LegendNone
)

// key is one entry: a line with its marker, or a patch of colour.
type key struct {
	name   string
	look   look
	area   bool
	marker bool
}

const (
	keyHigh   vg.Length = 13
	keySample vg.Length = 20 // length of a line's sample
	keyPatch  vg.Length = 9  // side of a patch
)

// keysOf lists the coloured series, and how many others there are.
func keysOf(names []string, looks []look, area, marker bool) []key {
	var out []key
	others := 0
	for i, n := range names {
		if looks[i].other {
			others++
			continue
		}
		out = append(out, key{name: n, look: looks[i], area: area, marker: marker})
	}
	if others > 0 {
		out = append(out, key{name: strconv.Itoa(others) + " others", look: look{color: otherGrey(), patch: otherGrey(), other: true}, area: area})
	}
	return out
}

func (k key) sample() vg.Length {
	if k.area {
		return keyPatch
	}
	return keySample
}

// sampleOf is the room before the names of a column of entries.
func sampleOf(keys []key) vg.Length {
	var w vg.Length
	for _, k := range keys {
		w = max(w, k.sample())
	}
	return w
}

// legendSize is that of a legend with one entry a row.
func (c *chart) legendSize(p *pen) vg.Point {
	var w vg.Length
	for _, k := range c.keys {
		w = max(w, p.width(k.name, sizeTick))
	}
	return vg.Point{X: sampleOf(c.keys) + w + 15, Y: vg.Length(len(c.keys))*keyHigh + 5}
}

// placeLegend decides once, on the first fit: a legend that moved with the
// area it leaves could go to and fro.
func (c *chart) placeLegend(f *frame) Legend {
	switch {
	case c.legend == LegendNone || len(c.keys) < 2 && !c.needsKeys():
		return LegendNone
	case c.legend != LegendAuto:
		return c.legend
	}
	size, area := c.legendSize(f.pen), f.area.Size()
	if size.X <= area.X*0.5 && size.Y <= area.Y*0.6 {
		if _, hidden := c.corner(f); hidden < hidesData {
			return LegendInside
		}
	}
	if size.X <= area.X*0.35 && size.Y <= area.Y {
		return LegendRight
	}
	return LegendTop
}

// needsKeys: a patch of colour says nothing without its name, a lone line does.
func (c *chart) needsKeys() bool {
	return len(c.keys) == 1 && c.keys[0].area
}

// hidesData outweighs any number of reference lines.
const hidesData = 1000

// corner is the place inside that hides least, and how much it hides.
func (c *chart) corner(f *frame) (at vg.Rectangle, hidden int) {
	size, a := c.legendSize(f.pen), f.area
	var data, lines []vg.Rectangle
	if c.avoid != nil {
		data = c.avoid(f)
	}
	if c.spare != nil {
		lines = c.spare(f)
	}
	const off = 6
	right, left := a.Max.X-off-size.X, a.Min.X+off
	top, bottom, mid := a.Max.Y-off-size.Y, a.Min.Y+off, (a.Min.Y+a.Max.Y-size.Y)/2
	hidden = -1
	for _, p := range []vg.Point{{X: right, Y: top}, {X: left, Y: top}, {X: right, Y: bottom}, {X: left, Y: bottom}, {X: right, Y: mid}, {X: left, Y: mid}} {
		r := rect(p.X, p.Y, size.X, size.Y)
		n := hidesData*meets(r, data) + meets(r, lines)
		if hidden < 0 || n < hidden {
			at, hidden = r, n
		}
	}
	return at, hidden
}

func (c *chart) drawLegend(f *frame) {
	switch c.place {
	case LegendInside:
		r, _ := c.corner(f)
		f.fill(faint(white(), 0xDD), r)
		f.outline(gridLine(), 0.5, r)
		c.drawColumn(f, r)
	case LegendRight:
		size := c.legendSize(f.pen)
		c.drawColumn(f, rect(f.area.Max.X+6, f.area.Max.Y-size.Y, size.X, size.Y))
	case LegendTop:
		drawRows(f.pen, c.keys, f.area.Min.X, f.area.Max.X, f.area.Max.Y+gap)
	}
}

func (c *chart) drawColumn(f *frame, r vg.Rectangle) {
	for i, k := range c.keys {
		k.draw(f.pen, vg.Point{X: r.Min.X + 5, Y: r.Max.Y - 2.5 - (vg.Length(i)+0.5)*keyHigh}, sampleOf(c.keys))
	}
}

// place of an entry in a legend of rows; row 0 is the topmost.
type place struct {
	x   vg.Length
	row int
}

// layRows lays entries out in rows, left to right, and counts the rows.
func layRows(p *pen, keys []key, left, right vg.Length) (at []place, rows int) {
	x := left
	for i, k := range keys {
		w := k.sample() + 5 + p.width(k.name, sizeTick)
		if i > 0 && x+w > right {
			x, rows = left, rows+1
		}
		at = append(at, place{x, rows})
		x += w + 12
	}
	return at, rows + 1
}

// drawRows draws entries in rows above y.
func drawRows(p *pen, keys []key, left, right, y vg.Length) {
	at, rows := layRows(p, keys, left, right)
	for i, k := range keys {
		k.draw(p, vg.Point{X: at[i].x, Y: y + (vg.Length(rows-1-at[i].row)+0.5)*keyHigh}, k.sample())
	}
}

// draw draws the entry with its left middle at the point. sample is the room
// before the name.
func (k key) draw(p *pen, at vg.Point, sample vg.Length) {
	if k.area {
		p.fill(k.look.patch, rect(at.X+(sample-keyPatch)/2, at.Y-keyPatch/2, keyPatch, keyPatch))
	} else {
		p.stroke(k.look.color, k.look.width(), k.look.dash, at, vg.Point{X: at.X + keySample, Y: at.Y})
		if k.marker && !k.look.other {
			p.marker(k.look, vg.Point{X: at.X + keySample/2, Y: at.Y})
		}
	}
	p.write(k.name, vg.Point{X: at.X + sample + 5, Y: at.Y}, text{size: sizeTick, v: 0.5})
}
