package plot

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot/vg"
)

// bandColor is that of the series the band belongs to, made faint.
func bandColor(of string, names []string, all []look) color.NRGBA {
	if i := slices.Index(names, of); of != "" && i >= 0 {
		return faint(all[i].color, 0x38)
	}
	return color.NRGBA{0x80, 0x80, 0x80, 0x30}
}

func (b Band) layer(hue color.NRGBA) layer {
	return func(f *frame) {
		x, lo, hi := b.X, b.Lo, b.Hi
		if x == nil {
			x, lo, hi = []float64{f.x.lo, f.x.hi}, []float64{lo[0], lo[0]}, []float64{hi[0], hi[0]}
		}
		f.between(hue, x, lo, hi)
	}
}

// between fills the area between two curves over the same x.
func (f *frame) between(hue color.NRGBA, x, lo, hi []float64) {
	points := curve{x: x, y: hi}.points(f)
	under := curve{x: x, y: lo}.points(f)
	slices.Reverse(under)
	points = append(points, under...)
	canvas := f.clip()
	if points = canvas.ClipPolygonXY(points); len(points) > 2 {
		f.FillPolygon(hue, points)
	}
}

func drawRefLines(f *frame, across, up []Ref) {
	canvas := f.clip()
	draw := func(a, b vg.Point) {
		for _, part := range canvas.ClipLinesXY([]vg.Point{a, b}) {
			f.stroke(faintInk(), 0.9, []vg.Length{3, 2.5}, part...)
		}
	}
	for _, r := range across {
		draw(vg.Point{X: f.area.Min.X, Y: f.Y(r.At)}, vg.Point{X: f.area.Max.X, Y: f.Y(r.At)})
	}
	for _, r := range up {
		draw(vg.Point{X: f.X(r.At), Y: f.area.Min.Y}, vg.Point{X: f.X(r.At), Y: f.area.Max.Y})
	}
}

func refRects(f *frame, across, up []Ref) []vg.Rectangle {
	var out []vg.Rectangle
	size := f.area.Size()
	for _, r := range across {
		out = append(out, rect(f.area.Min.X, f.Y(r.At), size.X, 0))
	}
	for _, r := range up {
		out = append(out, rect(f.X(r.At), f.area.Min.Y, 0, size.Y))
	}
	return out
}

const (
	refHigh vg.Length = 9 // of a line's label
	refOff  vg.Length = 3 // between a line and its label
)

// refLabels places the labels: above its line at the right or left end, beside
// its line at the top or lower, wherever least is hidden.
func refLabels(f *frame, across, up []Ref, data []vg.Rectangle) []vg.Rectangle {
	var out []vg.Rectangle
	a := f.area
	for _, r := range across {
		y, w := f.Y(r.At), f.width(r.Label, sizeTick)
		right, left, mid := a.Max.X-refOff-w, a.Min.X+refOff, (a.Min.X+a.Max.X-w)/2
		var places []vg.Rectangle
		for _, x := range []vg.Length{right, left, mid} {
			places = append(places, rect(x, y+refOff, w, refHigh), rect(x, y-refOff-refHigh, w, refHigh))
		}
		out = append(out, f.best(places, data, out))
	}
	for _, r := range up {
		x, w := f.X(r.At), f.width(r.Label, sizeTick)
		var places []vg.Rectangle
		for y := a.Max.Y - refOff - refHigh; y > a.Min.Y; y -= refHigh + 2 {
			places = append(places, rect(x+refOff, y, w, refHigh), rect(x-refOff-w, y, w, refHigh))
		}
		out = append(out, f.best(places, data, out))
	}
	return out
}

// best is the first of the places that hides least. To lie on another label is
// worse than to leave the area, and that is worse than to lie on a curve.
func (f *frame) best(places, data, labels []vg.Rectangle) vg.Rectangle {
	a := f.area
	a.Max.Y += refOff + 1
	best, least := vg.Rectangle{}, -1
	for _, r := range places {
		n := meets(r, data) + 100_000*meets(r, labels)
		if r.Min.X < a.Min.X || r.Max.X > a.Max.X || r.Max.Y > a.Max.Y || r.Min.Y < a.Min.Y {
			n += 1000
		}
		if least < 0 || n < least {
			best, least = r, n
		}
	}
	return best
}

func drawRefLabels(f *frame, across, up []Ref, data []vg.Rectangle) {
	at := refLabels(f, across, up, data)
	for i, r := range append(slices.Clone(across), up...) {
		f.write(r.Label, vg.Point{X: at[i].Min.X, Y: at[i].Min.Y + 1.5}, text{size: sizeTick, color: faintInk()})
	}
}
