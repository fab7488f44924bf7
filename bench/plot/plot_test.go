package plot

import (
	"bytes"
	"errors"
	"flag"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/transport/mono"
)

var pictures = flag.String("pictures", "", "folder to draw the samples into, to be looked at")

// Every sample appears as two files, the same on each run, with its texts.
func TestSamples(t *testing.T) {
	if invariants.Enabled {
		t.Skip("long, and nothing in it runs side by side: without the race detector")
	}
	dir := *pictures
	if dir == "" {
		dir = t.TempDir()
	}
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			base := filepath.Join(dir, s.name)
			if err := Write(base, s.size, s.picture); err != nil {
				t.Fatal(err)
			}
			svg, raster, err := Render(s.size, s.picture)
			if err != nil {
				t.Fatal(err)
			}
			same(t, base+".svg", svg)
			same(t, base+".png", raster)
			for _, want := range s.texts {
				if !bytes.Contains(svg, []byte(">"+want+"<")) {
					t.Errorf("the SVG does not hold %q", want)
				}
			}
			if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf,")) {
				t.Error("the SVG holds a coordinate that is no number")
			}
			if _, err := png.Decode(bytes.NewReader(raster)); err != nil {
				t.Error(err)
			}
		})
	}
}

func same(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes on the first run, %d on the second, not the same", path, len(got), len(want))
	}
}

// What cannot be drawn is refused, and the error names the series.
func TestRefused(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	series := func(y ...float64) []Series { return []Series{{Name: "Nexus", X: []float64{1, 2}, Y: y}} }
	cases := []struct {
		name, want string
		picture    Picture
	}{
		{"no series", "no data", Lines{}},
		{"empty", `"Nexus" has no data`, Lines{Series: []Series{{Name: "Nexus"}}}},
		{"NaN", `"Nexus": y[1] is NaN`, Lines{Series: series(1, nan)}},
		{"Inf", `"Nexus": y[0] is +Inf`, Lines{Series: series(inf, 1)}},
		{"lengths", `"Nexus": 2 x for 1 y`, Lines{Series: series(1)}},
		{"log of 0", `"Nexus": y[0] is 0`, Lines{Y: Axis{Log: true}, Series: series(0, 1)}},
		{"twice", `named "Nexus"`, Lines{Series: append(series(1, 2), series(1, 2)...)}},
		{"range", "y axis from 2 to 1", Lines{Y: Axis{Min: 2, Max: 1}, Series: series(1, 2)}},
		{"log range", "begins at 0", Lines{X: Axis{Log: true, Max: 1}, Series: series(1, 2)}},
		{"band", `"expected"`, Lines{Series: series(1, 2), Bands: []Band{{Name: "expected", Lo: []float64{nan}, Hi: []float64{1}}}}},
		{"line", `"bound"`, Lines{Series: series(1, 2), HLines: []Ref{{inf, "bound"}}}},
		{"no samples", `"Nexus" has no data`, CDF{Series: []Samples{{Name: "Nexus"}}}},
		{"NaN sample", `"Nexus": sample[0]`, CDF{Series: []Samples{{"Nexus", []float64{nan}}}}},
		{"NaN bar", `"Nexus": bar of "b" is NaN`, Bars{Groups: []string{"a", "b"}, Series: []BarSeries{{"Nexus", Values(1, nan)}}}},
		{"bars", `"Nexus": 1 bars for 2 groups`, Bars{Groups: []string{"a", "b"}, Series: []BarSeries{{"Nexus", Values(1)}}}},
		{"all missing", `"Nexus" and all others`, Bars{Groups: []string{"a"}, Series: []BarSeries{{"Nexus", []Bar{{Missing: true}}}}}},
		{"NaN area", `"m": height[0]`, Stack{At: []float64{1}, Areas: []Area{{"m", []float64{nan}}}}},
		{"below 0", `"m": height -1`, Stack{At: []float64{1}, Areas: []Area{{"m", []float64{-1}}}}},
		{"heights", `"m": 1 heights for 2 x`, Stack{At: []float64{1, 2}, Areas: []Area{{"m", []float64{1}}}}},
		{"in a grid", `panel 1: lines "two"`, Grid{Panels: []Picture{goodput(), Lines{Title: "two", Series: series(nan, 1)}}}},
		{"empty grid", "0 panels", Grid{}},
		{"grid of grids", "panel 0", Grid{Panels: []Picture{Grid{}}}},
		{"no room", "no room", Grid{Cols: 40, Panels: []Picture{goodput(), goodput()}}},
		{"no GPU", "0 GPUs", Timeline{}},
		{"nothing ran", "no data", Timeline{GPUs: 1}},
		{"other GPU", "batch 0: size 1, GPU 2", Timeline{GPUs: 2, Batches: []Batch{{GPU: 2, End: 1, Size: 1}}}},
		{"ends first", "batch 0", Timeline{GPUs: 2, Batches: []Batch{{Start: 2, End: 1, Size: 1}}}},
		{"other batch", "request 0: batch 0 of 0", Timeline{GPUs: 2, Requests: []Request{{}}}},
		{"too many boxes", "narrow the range", Timeline{GPUs: 1, Batches: boxes(boxesMax + 1)}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := Render(Size{}, c.picture)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func boxes(n int) []Batch {
	var out []Batch
	for i := range n {
		out = append(out, Batch{Start: mono.Time(i), End: mono.Time(i + 1), Size: 1})
	}
	return out
}

// A large run is drawn when a part of it is asked for.
func TestTimelinePart(t *testing.T) {
	p := Timeline{GPUs: 1, Batches: boxes(boxesMax + 1), To: 100}
	if _, _, err := Render(Size{}, p); err != nil {
		t.Fatal(err)
	}
}

func TestUnwritable(t *testing.T) {
	base := filepath.Join(t.TempDir(), "no", "such", "folder", "x")
	err := Write(base, Size{}, goodput())
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), base) {
		t.Fatalf("error %v, want one that names %s", err, base)
	}
}

func TestSize(t *testing.T) {
	for _, s := range []Size{{W: -1, H: 1}, {W: 1}, {W: 1000, H: 1}, {W: math.NaN(), H: 1}, {W: 0.4, H: 0.4}} {
		if _, _, err := Render(s, goodput()); !errors.Is(err, ErrInvalid) {
			t.Errorf("size %v: error %v, want ErrInvalid", s, err)
		}
	}
}

// Rows of a timeline have the GPUs' numbers, or the names that were given: one for each.
func TestTimelineRows(t *testing.T) {
	line := Timeline{GPUs: 2, Batches: []Batch{{GPU: 1, Start: 1, End: 2, Size: 1}}}
	for want, rows := range map[string][]string{"GPU 1": nil, "copies": {"copies", "runs"}} {
		line.Rows = rows
		svg, _, err := Render(Size{}, line)
		if err != nil || !bytes.Contains(svg, []byte(want)) {
			t.Errorf("rows %q: no %q, %v", rows, want, err)
		}
	}
	line.Rows = []string{"one"}
	if _, _, err := Render(Size{}, line); !errors.Is(err, ErrInvalid) {
		t.Errorf("a name too few: %v", err)
	}
}
