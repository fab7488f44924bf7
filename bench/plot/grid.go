package plot

import (
	"fmt"
	"slices"

	"gonum.org/v1/plot/vg"
)

// Grid is several pictures as panels of one, row by row. Areas of a row have
// the same height and those of a column the same left edge, so panels over the
// same time can be read together. A panel may not be a Grid.
type Grid struct {
	Title  string
	Cols   int // 0: 1
	Panels []Picture
	Shared bool // one legend above all panels, instead of one in each
}

// sheet is charts in rows and columns: a picture ready to be drawn.
type sheet struct {
	title  string
	cols   int
	charts []*chart
	keys   []key // of the legend above all
}

func one(c *chart) *sheet { return &sheet{cols: 1, charts: []*chart{c}} }

func (g Grid) plan() (*sheet, error) {
	if len(g.Panels) == 0 || g.Cols < 0 {
		return nil, fmt.Errorf("%w: grid %q: %d panels in %d columns", ErrInvalid, g.Title, len(g.Panels), g.Cols)
	}
	s := &sheet{title: g.Title, cols: max(1, g.Cols)}
	for i, p := range g.Panels {
		if _, ok := p.(Grid); ok || p == nil {
			return nil, fmt.Errorf("%w: grid %q: panel %d must be a picture other than a grid", ErrInvalid, g.Title, i)
		}
		part, err := p.plan()
		if err != nil {
			return nil, fmt.Errorf("grid %q: panel %d: %w", g.Title, i, err)
		}
		s.charts = append(s.charts, part.charts...)
	}
	if g.Shared {
		if err := s.share(); err != nil {
			return nil, fmt.Errorf("grid %q: %w", g.Title, err)
		}
	}
	return s, nil
}

// share makes one legend of all. A name has to look the same in all panels.
func (s *sheet) share() error {
	for _, c := range s.charts {
		for _, k := range c.keys {
			i := slices.IndexFunc(s.keys, func(o key) bool { return o.name == k.name })
			if i < 0 {
				s.keys = append(s.keys, k)
				continue
			}
			if o := s.keys[i]; o.look.color != k.look.color || o.look.patch != k.look.patch {
				return fmt.Errorf("%w: series %q has two colours in panels with one legend: give each panel the same series", ErrInvalid, k.name)
			}
		}
		c.legend = LegendNone
	}
	return nil
}

// areaLeast is the least width and height of a chart's area in points.
const areaLeast = 30

// draw settles sizes in passes: the margins depend on the ticks, and the ticks
// on the area that the margins leave.
func (s *sheet) draw(p *pen) error {
	total := s.drawHead(p)
	rows := (len(s.charts) + s.cols - 1) / s.cols
	w, h := 0.8*total.X/vg.Length(s.cols), 0.8*total.Y/vg.Length(rows)
	col, row := make([]margins, s.cols), make([]margins, rows)
	for range 3 {
		if w < areaLeast || h < areaLeast {
			break
		}
		clear(col)
		clear(row)
		for i, c := range s.charts {
			c.fit(p, w, h)
			m := c.margins(p, w)
			col[i%s.cols] = col[i%s.cols].union(m)
			row[i/s.cols] = row[i/s.cols].union(m)
		}
		w, h = total.X, total.Y
		for _, m := range col {
			w -= m.left + m.right
		}
		for _, m := range row {
			h -= m.top + m.bottom
		}
		w, h = w/vg.Length(s.cols), h/vg.Length(rows)
	}
	if w < areaLeast || h < areaLeast {
		return fmt.Errorf("%w: no room for %d x %d panels in %.0f x %.0f points", ErrInvalid, rows, s.cols, total.X, total.Y)
	}
	y := total.Y
	for r, m := range row {
		y -= m.top + h
		x := vg.Length(0)
		for k := 0; k < s.cols && r*s.cols+k < len(s.charts); k++ {
			x += col[k].left
			s.charts[r*s.cols+k].draw(p, rect(x, y, w, h), col[k].left)
			x += w + col[k].right
		}
		y -= m.bottom
	}
	return nil
}

// drawHead draws the title and the legend of all, and returns what is left.
func (s *sheet) drawHead(p *pen) vg.Point {
	total := p.Size()
	if s.title != "" {
		total.Y -= edge + sizeTitle
		p.write(s.title, vg.Point{X: total.X / 2, Y: total.Y + 2}, text{size: sizeTitle + 1, bold: true, h: 0.5})
	}
	if len(s.keys) > 0 {
		_, rows := layRows(p, s.keys, 2*edge, total.X-edge)
		total.Y -= vg.Length(rows)*keyHigh + gap
		drawRows(p, s.keys, 2*edge, total.X-edge, total.Y)
	}
	return total
}
