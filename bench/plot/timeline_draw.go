package plot

import (
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot/vg"
)

// drawStripes shades every second GPU's row, so that the eye keeps to one.
func (r *rows) drawStripes(f *frame) {
	for g := 0; g < r.gpus; g += 2 {
		y := r.ofGPU(g)
		f.fill(color.NRGBA{0xF6, 0xF6, 0xF6, 0xFF}, f.box(f.x.lo, f.x.hi, y-0.5, y+0.5))
	}
}

// box is the part of a rectangle of values that lies within the area.
func (f *frame) box(x0, x1, y0, y1 float64) vg.Rectangle {
	a := f.area
	return vg.Rectangle{
		Min: vg.Point{X: max(f.X(x0), a.Min.X), Y: max(f.Y(y0), a.Min.Y)},
		Max: vg.Point{X: min(f.X(x1), a.Max.X), Y: min(f.Y(y1), a.Max.Y)},
	}
}

func (t Timeline) drawBatches(f *frame, r *rows, hues []color.NRGBA) {
	for i, b := range t.Batches {
		y := r.ofGPU(b.GPU)
		box := f.box(millis(b.Start), millis(b.End), y-0.4, y+0.4)
		if box.Max.X < box.Min.X {
			continue
		}
		f.fill(hues[i], box)
		size := box.Size()
		if size.X > 2 && size.Y > 2 {
			f.outline(white(), 0.5, box)
		}
		label := strconv.Itoa(b.Size)
		for s := sizeTick; s >= sizeLeast; s-- {
			if f.width(label, s)+2 <= size.X && s*capHeight+2 <= size.Y {
				middle := vg.Point{X: (box.Min.X + box.Max.X) / 2, Y: (box.Min.Y + box.Max.Y) / 2}
				f.write(label, middle, text{size: s, h: 0.5, v: 0.5, color: onTop(hues[i])})
				break
			}
		}
	}
}

// drawRequests puts a dot at each arrival. Where they are dense, neighbours
// stand at three heights. A request without a batch is a red ring.
func (t Timeline) drawRequests(f *frame, r *rows, hues []color.NRGBA) {
	if !r.requests {
		return
	}
	const radius = 1.6
	y, high := r.ofRequests(), f.area.Size().Y*vg.Length(r.other/r.height())
	dense := t.spacing(f) < 2.5*radius && high > 10
	for i, q := range t.Requests {
		at := f.point(millis(q.At), y)
		if at.X < f.area.Min.X || at.X > f.area.Max.X {
			continue
		}
		if dense {
			at.Y += vg.Length(i%3-1) * min(high/4, 2.5*radius)
		}
		var dot vg.Path
		dot.Move(vg.Point{X: at.X + radius, Y: at.Y})
		dot.Arc(at, radius, 0, 2*math.Pi)
		dot.Close()
		if q.Batch == None {
			f.SetColor(dropRed())
			f.SetLineWidth(0.9)
			f.SetLineDash(nil, 0)
			f.Stroke(dot)
			continue
		}
		f.SetColor(hues[q.Batch])
		f.Fill(dot)
	}
}

// spacing is the mean distance of the arrivals shown, in points.
func (t Timeline) spacing(f *frame) vg.Length {
	n := 1
	for _, q := range t.Requests {
		if ms := millis(q.At); ms >= f.x.lo && ms <= f.x.hi {
			n++
		}
	}
	return f.area.Size().X / vg.Length(n)
}

func (t Timeline) drawDrops(f *frame, r *rows) {
	if !r.drops {
		return
	}
	y := r.ofDrops()
	last := vg.Length(math.Inf(-1))
	for _, at := range t.Drops {
		x := f.X(millis(at))
		// Drops at one instant are one tick.
		if x < f.area.Min.X || x > f.area.Max.X || math.Abs(float64(x-last)) < thin {
			continue
		}
		f.stroke(dropRed(), 1, nil, vg.Point{X: x, Y: f.Y(y - 0.35*r.other)}, vg.Point{X: x, Y: f.Y(y + 0.35*r.other)})
		last = x
	}
}
