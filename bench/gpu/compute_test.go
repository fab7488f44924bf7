package gpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

const ms = mono.Millisecond

// What `go test -v` prints is read: parts count, not those that have parts.
func TestParseTests(t *testing.T) {
	c := parseTests(`=== RUN   TestDriver
=== RUN   TestDriver/copies
    suite.go:12: seed 7
=== RUN   TestDriver/order
--- FAIL: TestDriver (1.20s)
    --- PASS: TestDriver/copies (0.70s)
    --- FAIL: TestDriver/order (0.50s)
        suite.go:40: 3 before 2
    --- SKIP: TestDriver/two_devices (0.00s)
=== RUN   TestAlone
--- PASS: TestAlone (2.25s)
FAIL
`)
	if c.Passed != 2 || !slices.Equal(c.Failed, []string{"TestDriver/order"}) || !slices.Equal(c.Skipped, []string{"TestDriver/two_devices"}) || c.Slowest != "TestAlone, 2.25 s" {
		t.Errorf("%+v", c)
	}
	if c := parseTests("panic: boom"); c.Passed+len(c.Failed)+len(c.Skipped) != 0 {
		t.Errorf("of no tests: %+v", c)
	}
}

// A profile that was made of a line is found again; one that is none is said to be none.
func TestFit(t *testing.T) {
	l := &latencyOf{}
	for _, b := range []int{1, 2, 4, 8} {
		l.Points = append(l.Points, latencyPoint{Batch: b, MedianMS: 0.5*float64(b) + 3})
	}
	if err := l.fit(); err != nil || math.Abs(l.AlphaMS-0.5) > 1e-6 || math.Abs(l.BetaMS-3) > 1e-6 || !l.Line || l.Relative > 1e-6 {
		t.Errorf("%+v, %v", l, err)
	}
	l.Points[1].MedianMS *= 1.5
	if err := l.fit(); err != nil || l.Line || l.Relative < 0.1 || l.MostMS < 0.5 {
		t.Errorf("with one point beside the line: %+v, %v", l, err)
	}
	one := &latencyOf{Points: l.Points[:1]}
	if err := one.fit(); err != nil || one.AlphaMS != 0 {
		t.Errorf("of one size: %+v, %v", one, err)
	}
}

func TestPercentiles(t *testing.T) {
	var spans []mono.Dur
	for i := range spreadRuns {
		spans = append(spans, mono.Dur(i+1)*ms)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(spans), func(i, k int) { spans[i], spans[k] = spans[k], spans[i] })
	r := (&spread{}).of(spans)
	if r.P50MS != 5000 || r.P99MS != 9900 || r.P9999MS != 9999 || r.MinMS != 1 || r.MaxMS != 10000 || len(r.MicrosRun) != spreadRuns {
		t.Errorf("%+v", r.summary())
	}
	few := (&spread{}).of(spans[:50])
	if few.P9999MS != 0 || !strings.Contains(few.summary(), "not told") {
		t.Errorf("a p99.99 of 50 runs: %+v", few.summary())
	}
	if none := (&spread{}).of(nil); none.Runs != 0 || len(none.pictures()) != 0 {
		t.Errorf("of none: %+v", none)
	}
	// Clocks that fall are seen.
	slices.Sort(spans)
	if r := (&spread{}).of(spans); r.LastMS < 9*r.FirstMS {
		t.Errorf("first tenth %v ms, last %v ms", r.FirstMS, r.LastMS)
	}
}

func TestThin(t *testing.T) {
	x, y := make([]float64, 1001), make([]float64, 1001)
	for i := range x {
		x[i] = float64(i)
	}
	y[777] = 5
	tx, ty := thin(x, y, 100)
	if len(tx) > 100 || !slices.Contains(ty, 5) || tx[slices.Index(ty, 5)] != 777 {
		t.Errorf("%d points, the peak is gone or moved", len(tx))
	}
}

func TestHidden(t *testing.T) {
	i := func(from, to mono.Dur) interval { return interval{from, to} }
	runs := []interval{i(20, 30), i(0, 10), i(8, 12), i(30, 40)}
	if got := union(runs); !slices.Equal(got, []interval{i(0, 12), i(20, 40)}) {
		t.Errorf("union %v", got)
	}
	for want, copies := range map[float64][]interval{
		1: {i(2, 6), i(21, 39)}, 0: {i(12, 20), i(40, 50)}, 0.5: {i(8, 16)}, 0.25: {i(10, 18)}, 0.75: {i(10, 14), i(20, 24)},
	} {
		if got := hidden(copies, runs); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v of %v hide, want %v", got, copies, want)
		}
	}
	if got := hidden(nil, runs); got != 0 {
		t.Errorf("of no copies: %v", got)
	}
}

// Of a pipeline whose copies are half as long as its runs all is hidden but the ends, which
// do not count.
func TestOverlapOf(t *testing.T) {
	var all []phases
	for k := range 10 {
		at := mono.Dur(k) * 10
		all = append(all, phases{in: interval{at - 5, at}, run: interval{at, at + 10}, out: interval{at + 10, at + 14}})
	}
	o := &overlapOf{}
	if o.of(all); o.HiddenIn != 1 || o.HiddenOut != 1 || o.Batches != 10 || o.RunUS != 0.01 || o.CopyInUS != 0.005 || o.CopyOutUS != 0.004 {
		t.Errorf("%+v", o)
	}
	serial := all[:0:0]
	for k := range 10 {
		at := mono.Dur(k) * 20
		serial = append(serial, phases{in: interval{at, at + 5}, run: interval{at + 5, at + 15}, out: interval{at + 15, at + 19}})
	}
	if o.of(serial); o.HiddenIn != 0 || o.HiddenOut != 0 {
		t.Errorf("one after the other: %+v", o)
	}
}

func TestHistogram(t *testing.T) {
	var values []float64
	for i := range 1000 {
		values = append(values, float64(i%100)/100-0.5) // -0.5 to 0.49
	}
	values = append(values, 1000, -1000)
	bins := histogram(values, binsMost)
	sum := 0
	zero := false
	for i, b := range bins {
		sum += b.Count
		zero = zero || math.Abs(b.From) < 1e-9
		if i > 0 && math.Abs(b.From-bins[i-1].To) > 1e-9 {
			t.Errorf("a gap between bins %v and %v", bins[i-1], b)
		}
	}
	if sum != len(values) || len(bins) > binsMost || len(bins) < 8 || !zero || bins[0].From < -1 {
		t.Errorf("%d of %d values in %d bins: %v", sum, len(values), len(bins), bins)
	}
	for _, v := range [][]float64{{3}, {0, 0, 0}, {-1, -1}} {
		bins := histogram(v, binsMost)
		n := 0
		for _, b := range bins {
			n += b.Count
		}
		if n != len(v) {
			t.Errorf("%v: %v", v, bins)
		}
	}
	if histogram(nil, 5) != nil {
		t.Error("bins of nothing")
	}
}

func TestSpreadOf(t *testing.T) {
	var values []float64
	for i := range 1000 {
		values = append(values, float64(i)/100-2) // -2 to 7.99
	}
	e := spreadOf(values)
	if e.P50MS != 3 || e.P1MS != -1.9 || e.P99MS != 7.9 || math.Abs(e.Late-0.699) > 1e-9 || e.MaxMS != 7.99 {
		t.Errorf("%+v", e)
	}
	if e := spreadOf(nil); e.MaxMS != 0 || e.Bins != nil {
		t.Errorf("of none: %+v", e)
	}
}

// Searches find where a rate stops to be carried, from guesses too low and too high.
func TestSearch(t *testing.T) {
	for _, most := range []float64{100, 1000, 1270} {
		for _, guess := range []float64{90, 1000, 4000} {
			f, err := search(t.Context(), guess, func(_ context.Context, rate float64) (tried, error) {
				return tried{Rate: rate, Held: rate <= most}, nil
			})
			if err != nil || f.Best > most || f.Best < 0.9*most || f.Worse <= most || len(f.Tried) > searchMost {
				t.Errorf("%v from %v: %+v, %v", most, guess, f, err)
			}
		}
	}
}

func TestSearchEnds(t *testing.T) {
	n := 0
	f, err := search(t.Context(), 100, func(_ context.Context, rate float64) (tried, error) {
		if n++; n > 2 {
			return tried{}, errEnough
		}
		return tried{Rate: rate, Held: true}, nil
	})
	if err != nil || f.Best != 130 || f.Worse != 0 || len(f.Tried) != 2 {
		t.Errorf("without time: %+v, %v", f, err)
	}
	f, err = search(t.Context(), 100, func(_ context.Context, rate float64) (tried, error) { return tried{Rate: rate}, nil })
	if err != nil || f.Best != 0 || len(f.Tried) > searchMost {
		t.Errorf("nothing is carried: %+v, %v", f, err)
	}
	boom := errors.New("boom")
	if _, err = search(t.Context(), 100, func(context.Context, float64) (tried, error) { return tried{}, boom }); !errors.Is(err, boom) {
		t.Errorf("%v", err)
	}
	// A rate that was carried above one that was not, by chance, does not end it.
	n = 0
	f, err = search(t.Context(), 100, func(_ context.Context, rate float64) (tried, error) {
		n++
		return tried{Rate: rate, Held: n != 1 && rate <= 1000}, nil
	})
	if err != nil || f.Best < 60 {
		t.Errorf("after a slip: %+v, %v", f, err)
	}
}

func TestGrid(t *testing.T) {
	text := grid{{"a", "b"}, {"1|2", "x\ny"}}.String()
	if text != "| a | b |\n|---|---|\n| 1/2 | x y |\n" {
		t.Error(text)
	}
	for want, v := range map[string]float64{"": 0, "0.12": 0.12, "5,264": 5264.4, "1,234,567": 1234567} {
		if got := thousands(v); got != want {
			t.Errorf("%v is written %q", v, got)
		}
	}
	if !strings.Contains(fmt.Sprint(percents([]float64{0.5, 1})), "50.0 %, 100.0 %") {
		t.Error(percents([]float64{0.5, 1}))
	}
}

func TestScalingOrder(t *testing.T) {
	s := &scaling{Processors: 16}
	for _, p := range []scalingPoint{{1, 100, 1}, {8, 700, 1}, {4, 380, 1}} {
		s.add(p)
	}
	if s.Points[1].Loops != 4 || s.Points[2].Loops != 8 || s.factor(s.Points[2]) != 7 || len(s.pictures()) != 1 {
		t.Errorf("%+v", s)
	}
}
