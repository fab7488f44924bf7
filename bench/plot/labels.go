package plot

import "gonum.org/v1/plot/vg"

// drawLabels writes the labels of points beside them: where within the area they hide least, and
// over no other label. One that finds no such place is left out.
func drawLabels(f *frame, curves []curve) {
	lines, taken := cover(f, curves), []vg.Rectangle(nil)
	for _, c := range curves {
		for i, label := range c.labels {
			if label == "" {
				continue
			}
			size := vg.Point{X: f.width(label, sizeTick), Y: sizeTick * capHeight}
			if r, ok := labelPlace(f, f.point(c.x[i], c.y[i]), size, lines, taken); ok {
				f.write(label, r.Min, text{size: sizeTick, color: c.look.color})
				taken = append(taken, r)
			}
		}
	}
}

// labelPlace is where a label of that size stands: right of its point, left of it, above or below.
func labelPlace(f *frame, at, size vg.Point, lines, taken []vg.Rectangle) (best vg.Rectangle, ok bool) {
	const off = 5
	right, left, mid := at.X+off, at.X-off-size.X, at.X-size.X/2
	above, below, beside := at.Y+off, at.Y-off-size.Y, at.Y-size.Y/2
	least := 0
	for _, p := range []vg.Point{{X: right, Y: above}, {X: right, Y: below}, {X: left, Y: below}, {X: left, Y: above}, {X: right + 2, Y: beside}, {X: left - 2, Y: beside}, {X: mid, Y: above + 2}} {
		r := rect(p.X, p.Y, size.X, size.Y)
		if r.Min.X < f.area.Min.X || r.Max.X > f.area.Max.X+edge || r.Min.Y < f.area.Min.Y+1 || r.Max.Y > f.area.Max.Y || meets(r, taken) > 0 {
			continue
		}
		if n := meets(r, lines); !ok || n < least {
			best, least, ok = r, n, true
		}
	}
	return best, ok
}
