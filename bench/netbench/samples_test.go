package netbench

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// ramp holds 1 us, 2 us, ... n us.
func ramp(n int) samples {
	s := newSamples()
	for i := n; i > 0; i-- {
		s.Add(mono.Dur(i) * mono.Microsecond)
	}
	return s
}

func TestPercentiles(t *testing.T) {
	d := ramp(10_000).spread()
	for name, at := range map[string][2]float64{"min": {d.Min, 1}, "mean": {d.Mean, 5000.5}, "p50": {d.P50, 5000}, "p99": {d.P99, 9900},
		"p99.9": {d.P999, 9990}, "p99.99": {d.P9999, 9999}, "max": {d.Max, 10_000}} {
		if math.Abs(at[0]-at[1]) > 0.001*at[1] {
			t.Errorf("%s: %g, want %g", name, at[0], at[1])
		}
	}
	if d.Samples != 10_000 || d.P9999 > d.Max {
		t.Errorf("spread %+v", d)
	}
	for i, p := range d.Curve[1:] {
		if last := d.Curve[i]; p.Mille <= last.Mille || p.Micros < last.Micros {
			t.Errorf("the curve falls: %v, then %v", last, p)
		}
	}
}

// A percentile beyond which no sample lies is not stated: neither a number nor in JSON.
func TestPercentilesNeedSamples(t *testing.T) {
	for n, want := range map[int][3]bool{99: {}, 100: {true}, 999: {true}, 1000: {true, true}, 9999: {true, true}, 10_000: {true, true, true}} {
		d := ramp(n).spread()
		if got := [3]bool{d.P99 > 0, d.P999 > 0, d.P9999 > 0}; got != want {
			t.Errorf("%d samples: p99, p99.9, p99.99 stated: %v, want %v", n, got, want)
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(text), `"P9999"`); got != want[2] {
			t.Errorf("%d samples: p99.99 in JSON: %v", n, got)
		}
	}
	if d := newSamples().spread(); d.Samples != 0 || d.Curve != nil {
		t.Errorf("no samples: %+v", d)
	}
}

// What is longer than the longest is kept as that; the largest stays exact.
func TestSamplesBeyond(t *testing.T) {
	s := newSamples()
	s.Add(0)
	s.Add(2 * report.SpanMax)
	if d := s.spread(); d.Samples != 2 || d.Min != 0 || d.Max != micros(2*report.SpanMax) {
		t.Errorf("spread %+v", d)
	}
}

// Messages have exactly the size that was asked for, and are whole frames.
func TestControl(t *testing.T) {
	least := len((&wire.Member{}).Append(nil))
	for n := least; n <= 9<<10; n++ {
		m, err := control(n)
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if frames, ok := wire.Count(m); !ok || len(m) != n || frames > 2 {
			t.Fatalf("%d bytes: %d, %d frames", n, len(m), frames)
		}
	}
	if _, err := control(least - 1); err == nil {
		t.Error("a message smaller than its last frame")
	}
}

// Objects differ from each other, from what is shifted, and from what was wiped.
func TestFill(t *testing.T) {
	a, b := make([]byte, 1001), make([]byte, 1001)
	r := requestOf(3, 4)
	fill(a, r)
	if at := firstWrong(a, r, 0); at >= 0 {
		t.Errorf("just filled, and wrong at %d", at)
	}
	if at := firstWrong(a[8:], r, 0); at != 0 {
		t.Errorf("shifted: first wrong at %d", at)
	}
	if at := firstWrong(a, requestOf(4, 3), 0); at != 0 {
		t.Errorf("another object's: first wrong at %d", at)
	}
	if at := firstWrong(b, r, 500); at != 496 {
		t.Errorf("wiped: first wrong at %d", at)
	}
	a[1000] ^= 0x80
	if at := firstWrong(a, r, 990); at != 1000 {
		t.Errorf("last byte: first wrong at %d", at)
	}
}

func TestMachineBusy(t *testing.T) {
	got, ok := machineBusy([]byte("cpu  100 20 30 4000 500 6 7 80 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n"))
	if want := (100 + 20 + 30 + 6 + 7) * tick; !ok || got != want {
		t.Errorf("%v, %v, want %v", got, ok, want)
	}
	for _, text := range []string{"", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8", "cpu a b c d e f g h"} {
		if _, ok := machineBusy([]byte(text)); ok {
			t.Errorf("%q was understood", text)
		}
	}
}
