package plot

import (
	"errors"
	"strings"
	"testing"
)

// TestMarksAlone: a series of another's colour has marks and labels, no line and no entry in the
// legend.
func TestMarksAlone(t *testing.T) {
	line := Series{Name: "one", X: []float64{1, 2}, Y: []float64{1, 2}}
	other := Series{Name: "two", X: []float64{1, 2}, Y: []float64{2, 1}}
	alone := Series{Name: "marks", Of: "one", Points: true, X: []float64{1.5}, Y: []float64{1}, Labels: []string{"here"}}
	svg, _, err := Render(Size{}, Lines{Series: []Series{alone, line, other}, Markers: true})
	if err != nil {
		t.Fatal(err)
	}
	text := string(svg)
	if !strings.Contains(text, ">here<") || strings.Contains(text, ">marks<") || !strings.Contains(text, ">two<") {
		t.Errorf("the label lacks, or the legend has the marks:\n%s", text)
	}
	for _, bad := range []Series{{Name: "x", Of: "nobody", X: []float64{1}, Y: []float64{1}}, {Name: "x", X: []float64{1}, Y: []float64{1}, Labels: []string{"a", "b"}}} {
		if _, _, err := Render(Size{}, Lines{Series: []Series{line, bad}}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: error %v", bad, err)
		}
	}
}
