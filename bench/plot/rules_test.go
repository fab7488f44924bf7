package plot

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
)

// A system has its colour whatever stands beside it and in whatever order.
func TestSystemsKeepTheirColours(t *testing.T) {
	names := []string{"Symphony", "eager", "timeout 40 %", "Clockwork", "Nexus", "Shepherd"}
	alone := map[string]look{}
	for _, n := range names {
		alone[n] = looks([]string{n}, []float64{1})[0]
	}
	mixed := append([]string{"ideal", "bound"}, names...)
	slices.Reverse(mixed)
	all := looks(mixed, make([]float64, len(mixed)))
	for i, n := range mixed {
		if l, ok := alone[n]; ok && l.color != all[i].color {
			t.Errorf("%s is %v alone and %v beside others", n, l.color, all[i].color)
		}
		for k := range i {
			if all[i].color == all[k].color {
				t.Errorf("%s and %s have one colour", n, mixed[k])
			}
		}
	}
	if a, b := looks([]string{"deferred"}, nil)[0], alone["Symphony"]; a.color != b.color {
		t.Errorf("deferred is %v, Symphony %v", a.color, b.color)
	}
	two := looks([]string{"Nexus 1FE", "Nexus 8FE"}, nil)
	if two[0].color != two[1].color || two[0].shape == two[1].shape || two[0].patch == two[1].patch || two[1].dash == nil {
		t.Errorf("two of one system: %+v", two)
	}
}

// Of many, systems and the greatest have a colour.
func TestManyAreGrey(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "Nexus"}
	weight := []float64{1, 9, 9, 9, 9, 9, 9, 9, 2, 0}
	for i, l := range looks(names, weight) {
		if grey := names[i] == "a" || names[i] == "i"; l.other != grey {
			t.Errorf("%s: grey is %v, want %v", names[i], l.other, grey)
		}
	}
}

func TestTicks(t *testing.T) {
	cases := []struct {
		name   string
		s      scale
		length vg.Length
		want   string
	}{
		{"units", scale{lo: 0, hi: 10}, 150, "0 2 4 6 8 10"},
		{"tenths", scale{lo: 0, hi: 1.02}, 200, "0 0.2 0.4 0.6 0.8 1.0"},
		{"thousands", scale{lo: 0, hi: 16e3}, 150, "0 5k 10k 15k"},
		{"half thousands", scale{lo: 10e3, hi: 12e3}, 150, "10.0k 10.5k 11.0k 11.5k 12.0k"},
		{"fine thousands", scale{lo: 12340, hi: 12343}, 150, "12340 12341 12342 12343"},
		{"below 0", scale{lo: -1, hi: 1}, 150, "-1.0 -0.5 0 0.5 1.0"},
		{"small", scale{lo: 0, hi: 3e-5}, 150, "0 1e-5 2e-5 3e-5"},
		{"decades", scale{log: true, lo: 1e-3, hi: 1e6}, 400, "0.001 0.01 0.1 1 10 100 1000 10k 100k 1M"},
		{"few decades", scale{log: true, lo: 1, hi: 100}, 300, "1 2 5 10 20 50 100"},
		{"no decade", scale{log: true, lo: 3, hi: 4}, 200, "3.0 3.2 3.4 3.6 3.8 4.0"},
		{"many decades", scale{log: true, lo: 1, hi: 1e12}, 120, "1 1000 1M 1e9 1e12"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.s.choose(c.length, func(string) vg.Length { return 30 })
			var got []string
			for _, k := range c.s.ticks {
				if k.label != "" {
					got = append(got, k.label)
				}
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("got %s, want %s", g, c.want)
			}
		})
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 7: "7", 0.123456: "0.123", 0.000123456: "0.000123", 4.5678: "4.57", 45.678: "45.7", 99.97: "100", 456.7: "457",
		9999: "9999", 15230: "15.2k", 999_499: "999k", 2_500_000: "2.50M", -12: "-12"} {
		if got := Short(v); got != want {
			t.Errorf("Short(%g) = %s, want %s", v, got, want)
		}
	}
}

// The steps of a CDF: a jump at each value, from the range's start to its end.
func TestSteps(t *testing.T) {
	x, y := steps([]float64{3, 1, 1, 2}, 0, 5)
	if wx, wy := []float64{0, 1, 1, 2, 2, 3, 3, 5}, []float64{0, 0, 0.5, 0.5, 0.75, 0.75, 1, 1}; !slices.Equal(x, wx) || !slices.Equal(y, wy) {
		t.Errorf("x %v, y %v, want %v and %v", x, y, wx, wy)
	}
	x, y = steps([]float64{0, 2}, 1, 4)
	if wx, wy := []float64{1, 1, 1, 2, 2, 4}, []float64{0, 0, 0.5, 0.5, 1, 1}; !slices.Equal(x, wx) || !slices.Equal(y, wy) {
		t.Errorf("below the range: x %v, y %v, want %v and %v", x, y, wx, wy)
	}
}

// Many samples take the room of the picture, not their own.
func TestManySamplesFewBytes(t *testing.T) {
	var s Samples
	for i := range 300_000 {
		s.Values = append(s.Values, math.Sqrt(float64(i)))
	}
	svg, _, err := Render(Size{}, CDF{Series: []Samples{s}})
	if err != nil {
		t.Fatal(err)
	}
	if len(svg) > 200_000 {
		t.Errorf("SVG of %d bytes, want at most 200000", len(svg))
	}
}

// Ranges without width and values at the ends of what is allowed are drawn.
func TestOddRanges(t *testing.T) {
	for _, c := range []struct {
		log  bool
		x, y []float64
	}{
		{false, []float64{1}, []float64{0}}, {false, []float64{5, 5}, []float64{-3, -3}}, {true, []float64{5}, []float64{7}},
		{false, []float64{-1e100, 1e100}, []float64{1e-300, 2e-300}}, {true, []float64{1e-100, 1e100}, []float64{1, 1 + 1e-15}},
		{false, []float64{1e16, 1e16 + 4}, []float64{1, 2}}, {false, []float64{0, 1}, []float64{1 - 1e-16, 1}},
	} {
		a := Axis{Log: c.log}
		svg, _, err := Render(Size{}, Lines{X: a, Y: a, Markers: true, Series: []Series{{Name: "s", X: c.x, Y: c.y}}})
		if err != nil {
			t.Errorf("%v, %v: %v", c.x, c.y, err)
		}
		if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
			t.Errorf("%v, %v: the SVG holds a coordinate that is no number", c.x, c.y)
		}
	}
}

// Nothing is drawn outside the area when the range is narrower than the data.
func TestClipped(t *testing.T) {
	f := &frame{pen: &pen{}, area: rect(0, 0, 100, 100), x: &scale{lo: 0, hi: 1}, y: &scale{lo: 0, hi: 1}}
	canvas := f.clip()
	for _, part := range canvas.ClipLinesXY((curve{x: []float64{-1, 0.5, 3}, y: []float64{-5, 0.5, 9}}).points(f)) {
		for _, p := range part {
			if p.X < -1e-9 || p.X > 100+1e-9 || p.Y < -1e-9 || p.Y > 100+1e-9 {
				t.Errorf("point %v outside", p)
			}
		}
	}
}

// A single legend for all panels is refused when it would be wrong in one.
func TestSharedLegend(t *testing.T) {
	of := func(names ...string) Picture {
		l := Lines{}
		for _, n := range names {
			l.Series = append(l.Series, Series{Name: n, X: []float64{1, 2}, Y: []float64{1, 2}})
		}
		return l
	}
	_, _, err := Render(Size{}, Grid{Shared: true, Panels: []Picture{of("a", "b"), of("b", "a")}})
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), `"b"`) && !strings.Contains(err.Error(), `"a"`) {
		t.Fatalf("error %v, want one that names the series", err)
	}
	svg, _, err := Render(Size{}, Grid{Shared: true, Panels: []Picture{of("Symphony", "Nexus"), of("Nexus", "Symphony")}})
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(svg, []byte(">Nexus<")); n != 1 {
		t.Errorf("Nexus is named %d times, want once", n)
	}
}

// A timeline draws each batch once, in its GPU's row.
func TestTimelineBoxes(t *testing.T) {
	p := staggered()
	svg, _, err := Render(Size{}, p)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(svg, []byte(">4<")); n != len(p.Batches) {
		t.Errorf("%d boxes hold their size, want %d", n, len(p.Batches))
	}
	r := p.rows()
	if a, b := r.ofGPU(0), r.ofGPU(1); a <= b || r.ofRequests() <= a || r.ofDrops() >= r.ofGPU(2) {
		t.Errorf("rows out of order: requests %g, GPU 0 %g, GPU 1 %g, drops %g", r.ofRequests(), a, b, r.ofDrops())
	}
}
