package plot

import (
	"image/color"
	"math"
	"strings"

	stdfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Font sizes in points.
const (
	sizeTick  vg.Length = 9 // tick labels, legends, labels of lines
	sizeLabel vg.Length = 10
	sizeTitle vg.Length = 11
	sizeLeast vg.Length = 6 // numbers in boxes

	// capHeight is the height of a digit as a share of the font size: text is
	// centred by what the eye sees, not by the line's height.
	capHeight vg.Length = 0.69
)

// pen draws lines, areas and text on one canvas.
type pen struct {
	draw.Canvas
	fonts *font.Cache
}

func newPen(c vg.CanvasSizer) *pen {
	p := &pen{Canvas: draw.New(c), fonts: font.NewCache(liberation.Collection())}
	p.fill(white(), p.Rectangle)
	return p
}

// text is one line of text: where its anchor lies within it is told by h (0
// left, 0.5 middle, 1 right) and v (0 baseline, 0.5 middle, 1 top of digits).
type text struct {
	size  vg.Length
	bold  bool
	color color.NRGBA
	h, v  vg.Length
	turn  float64 // degrees, counter-clockwise
}

func (p *pen) face(t text) font.Face {
	f := font.Font{Typeface: "Liberation", Variant: "Sans"}
	if t.bold {
		f.Weight = stdfont.WeightBold
	}
	return p.fonts.Lookup(f, t.size)
}

func (p *pen) width(s string, size vg.Length) vg.Length {
	face := p.face(text{size: size})
	return face.Width(s)
}

// widest is the width of the widest of the lines.
func (p *pen) widest(lines []string, size vg.Length) vg.Length {
	var w vg.Length
	for _, s := range lines {
		w = max(w, p.width(s, size))
	}
	return w
}

// wrap breaks s between words into lines that fit the room.
func (p *pen) wrap(s string, t text, room vg.Length) []string {
	face := p.face(t)
	var lines []string
	for _, word := range strings.Fields(s) {
		if n := len(lines); n > 0 && face.Width(lines[n-1]+" "+word) <= room {
			lines[n-1] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

func (p *pen) write(s string, at vg.Point, t text) {
	if s == "" {
		return
	}
	if t.color == (color.NRGBA{}) {
		t.color = ink()
	}
	face := p.face(t)
	p.Push()
	p.SetColor(t.color)
	p.Translate(at)
	if t.turn != 0 {
		p.Rotate(t.turn * math.Pi / 180)
	}
	p.FillString(face, vg.Point{X: -t.h * face.Width(s), Y: -t.v * capHeight * t.size}, s)
	p.Pop()
}

func (p *pen) stroke(c color.NRGBA, width vg.Length, dash []vg.Length, points ...vg.Point) {
	p.StrokeLines(draw.LineStyle{Color: c, Width: width, Dashes: dash}, points)
}

func (p *pen) fill(c color.NRGBA, r vg.Rectangle) {
	p.FillPolygon(c, []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}})
}

// outline draws the border of r.
func (p *pen) outline(c color.NRGBA, width vg.Length, r vg.Rectangle) {
	p.stroke(c, width, nil, r.Min, vg.Point{X: r.Max.X, Y: r.Min.Y}, r.Max, vg.Point{X: r.Min.X, Y: r.Max.Y}, r.Min)
}

// meet tells whether two rectangles touch.
func meet(a, b vg.Rectangle) bool {
	return a.Min.X <= b.Max.X && b.Min.X <= a.Max.X && a.Min.Y <= b.Max.Y && b.Min.Y <= a.Max.Y
}

// meets counts the rectangles that r touches.
func meets(r vg.Rectangle, others []vg.Rectangle) int {
	n := 0
	for _, o := range others {
		if meet(r, o) {
			n++
		}
	}
	return n
}

// rect is the rectangle from (x, y) with so much width and height.
func rect(x, y, w, h vg.Length) vg.Rectangle {
	return vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + w, Y: y + h}}
}
