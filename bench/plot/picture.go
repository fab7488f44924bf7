package plot

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Picture is Lines, CDF, Bars, Stack, Timeline or Grid.
type Picture interface {
	plan() (*sheet, error)
}

// ErrInvalid is wrapped by every error about the picture itself: no data, a
// value that is no number, a range that is none.
var ErrInvalid = errors.New("picture cannot be drawn")

// Size of a picture in inches. The zero Size is 6.5 by 4: a page's width.
type Size struct{ W, H float64 }

const (
	inchesMax = 60
	dpi       = 150 // of the PNG
)

func (s Size) points() (w, h vg.Length, err error) {
	if s == (Size{}) {
		s = Size{6.5, 4}
	}
	if !(s.W > 0 && s.H > 0 && s.W <= inchesMax && s.H <= inchesMax) {
		return 0, 0, fmt.Errorf("%w: size %g x %g inches, must be above 0 and at most %d", ErrInvalid, s.W, s.H, inchesMax)
	}
	return vg.Length(s.W) * vg.Inch, vg.Length(s.H) * vg.Inch, nil
}

// Write draws p into base.svg and base.png. The folder must exist.
func Write(base string, size Size, p Picture) error {
	svg, png, err := Render(size, p)
	if err != nil {
		return fmt.Errorf("%s: %w", base, err)
	}
	if err := os.WriteFile(base+".svg", svg, 0o644); err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	if err := os.WriteFile(base+".png", png, 0o644); err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	return nil
}

// Render draws p and returns both files.
func Render(size Size, p Picture) (svg, png []byte, err error) {
	w, h, err := size.points()
	if err != nil {
		return nil, nil, err
	}
	s, err := p.plan()
	if err != nil {
		return nil, nil, err
	}
	vector := vgsvg.New(w, h)
	if err := s.draw(newPen(vector)); err != nil {
		return nil, nil, err
	}
	raster := vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(dpi))
	if err := s.draw(newPen(raster)); err != nil {
		return nil, nil, err
	}
	var v, r bytes.Buffer
	if _, err := vector.WriteTo(&v); err != nil {
		return nil, nil, fmt.Errorf("svg: %w", err)
	}
	if _, err := (vgimg.PngCanvas{Canvas: raster}).WriteTo(&r); err != nil {
		return nil, nil, fmt.Errorf("png: %w", err)
	}
	return substituteFonts(v.Bytes()), r.Bytes(), nil
}

// substituteFonts names fonts of the same widths for machines that lack ours.
func substituteFonts(svg []byte) []byte {
	const ours = "font-family:Liberation Sans;"
	return bytes.ReplaceAll(svg, []byte(ours), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
}
