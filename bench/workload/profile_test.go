package workload

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

const second = mono.Time(mono.Second)

// countsPerSpan counts the arrivals in each of n spans.
func countsPerSpan(s Source, span mono.Time, n int) []float64 {
	out := make([]float64, n)
	for {
		at, _, ok := s.Next()
		if !ok || at >= span*mono.Time(n) {
			return out
		}
		out[at/span]++
	}
}

func TestProfileAt(t *testing.T) {
	for _, c := range []struct {
		text string
		at   mono.Time
		want float64
	}{
		{"step:10s=2,20s=0.5", 0, 1},
		{"step:10s=2,20s=0.5", 10*second - 1, 1},
		{"step:10s=2,20s=0.5", 10 * second, 2},
		{"step:10s=2,20s=0.5", 20 * second, 0.5},
		{"step:10s=2,20s=0.5", 9999 * second, 0.5},
		{"step:0s=3", 0, 3},
		{"ramp:0s=1,60s=3", 30 * second, 2},
		{"ramp:10s=2,20s=4,30s=0", 0, 2},
		{"ramp:10s=2,20s=4,30s=0", 15 * second, 3},
		{"ramp:10s=2,20s=4,30s=0", 25 * second, 2},
		{"ramp:10s=2,20s=4,30s=0", 40 * second, 0},
		{"diurnal:period=24s,depth=0.5", 0, 0.5},
		{"diurnal:period=24s,depth=0.5", 6 * second, 1},
		{"diurnal:period=24s,depth=0.5", 12 * second, 1.5},
		{"diurnal:period=24s,depth=0.5", (24*5 + 8) * second, 1.25},
		{"burst:period=10s,length=2s,height=4", 0, 4},
		{"burst:period=10s,length=2s,height=4", 2 * second, 1},
		{"burst:period=10s,length=2s,height=4", 1000*second - 1, 1},
		{"burst:period=10s,length=2s,height=4", 1001 * second, 4},
		{"burst:period=10s, length=2s, height=4 * step:5s=3", 11 * second, 12},
	} {
		if got := profileOf(t, c.text).At(c.at); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s at %s: %g, want %g", c.text, c.at, got, c.want)
		}
	}
	p := profileOf(t, "diurnal:period=48h,depth=1")
	for hour := range 24 { // each second hour of 48 is one of 24 points
		at := mono.Time(2*hour) * 3600 * second
		if got, want := p.At(at), 1-math.Cos(2*math.Pi*float64(hour)/24); math.Abs(got-want) > 1e-12 {
			t.Errorf("hour %d: %g, want %g", 2*hour, got, want)
		}
	}
}

// Constant arrivals fall where the integral of the profile is whole. The
// integral is summed here in small steps, from At.
func TestWarpInvertsTheIntegral(t *testing.T) {
	for _, text := range []string{
		"step:10s=2,20s=0.5", "ramp:0s=1,60s=3", "ramp:5s=4,15s=0,25s=0,30s=1", "diurnal:period=13s,depth=1",
		"burst:period=7s,length=3s,height=9", "step:3s=0,9s=2*burst:period=2s,length=1s,height=4",
		"diurnal:period=11s,depth=0.6*burst:period=3s,length=500ms,height=3*step:20s=0,21s=1",
		"ramp:0s=0,20s=2,40s=0.25*step:7s=1.5*step:9s=3",
	} {
		const rate, step = 40.0, mono.Time(mono.Millisecond / 4)
		p := profileOf(t, text)
		g, err := New(Config{Process: Constant, Rate: rate, Profile: p, Models: 1})
		if err != nil {
			t.Fatal(err)
		}
		s, mass, now := &generatorSource{g: g}, 0.0, mono.Time(0)
		for n := 1; n <= 1500; n++ {
			at, _, _ := s.Next()
			for ; now+step <= at; now += step {
				mass += rate * p.At(now+step/2) * step.Sub(0).Seconds()
			}
			got := mass + rate*p.At(now+(at-now)/2)*at.Sub(now).Seconds()
			if math.Abs(got-float64(n)) > 2e-3*math.Sqrt(float64(n)) {
				t.Fatalf("%s: the integral at arrival %d (%s) is %g", text, n, at, got)
			}
		}
	}
}

// Counts follow the steps, whatever the process.
func TestCountsInEachStep(t *testing.T) {
	profile := profileOf(t, "step:100s=3,200s=0,300s=0.5,400s=1")
	want := []float64{1, 3, 0, 0.5, 1}
	for _, c := range []Stream{{Process: Poisson}, {Process: Gamma, Shape: 0.2}, {Process: Uniform}, {Process: Constant}} {
		c.Rate, c.Profile = 200, profile
		m := newMix(t, []Stream{c, c, c}, 7)
		for i, got := range countsPerSpan(m, 100*second, len(want)) {
			mean := 3 * 200 * 100 * want[i]
			if math.Abs(got-mean) > 5*math.Sqrt(5*mean) {
				t.Errorf("%s: %g arrivals in step %d, want about %g", c.Process, got, i, mean)
			}
		}
	}
}

// Gaps are as bursty at three times the rate: the coefficient of variation of
// Gamma gaps is the root of 1/shape. Thinning would bring it near 1.
func TestBurstinessIsKept(t *testing.T) {
	s := Stream{Gamma, 0.1, 1000, profileOf(t, "step:200s=3")}
	m := newMix(t, []Stream{s}, 8)
	var n, sum, squares [2]float64
	last := mono.Time(0)
	for {
		at, _, _ := m.Next()
		if at >= 400*second {
			break
		}
		i, gap := at/(200*second), at.Sub(last).Seconds()
		n[i], sum[i], squares[i] = n[i]+1, sum[i]+gap, squares[i]+gap*gap
		last = at
	}
	for i := range n {
		mean := sum[i] / n[i]
		variation := math.Sqrt(squares[i]/n[i]-mean*mean) / mean
		if want := math.Sqrt(10); math.Abs(variation-want) > 0.1*want {
			t.Errorf("step %d: variation %g, want %g", i, variation, want)
		}
	}
}

// A diurnal swing has the mean rate of none.
func TestDiurnalMean(t *testing.T) {
	m := newMix(t, []Stream{{Process: Constant, Rate: 100, Profile: profileOf(t, "diurnal:period=60s,depth=0.9")}}, 1)
	for i, n := range countsPerSpan(m, 60*second, 50) {
		if math.Abs(n-6000) > 1 {
			t.Errorf("period %d has %g arrivals, want 6000", i, n)
		}
	}
}

// A rate that comes to 0 for ever ends the source; one that pauses does not,
// and a long pause costs no time, whatever repeats meanwhile.
func TestRateOfZero(t *testing.T) {
	for _, c := range []struct {
		text  string
		count int // in an hour and a second, at 1 request/s
	}{
		{"step:10s=0", 10}, {"step:0s=0", 0}, {"ramp:0s=1,10s=0", 5},
		{"step:10s=0*burst:period=1ms,length=10us,height=1", 10},
		{"step:10s=0,3600s=4*burst:period=1ms,length=500us,height=1", 14},
		{"ramp:0s=0,2s=0,3600s=0*diurnal:period=1s,depth=1", 0},
	} {
		m := newMix(t, []Stream{{Process: Constant, Rate: 1, Profile: profileOf(t, c.text)}}, 1)
		n := 0
		for {
			at, _, ok := m.Next()
			if !ok || at >= 3601*second {
				break
			}
			n++
		}
		if n != c.count {
			t.Errorf("%s: %d arrivals, want %d", c.text, n, c.count)
		}
	}
}

// The error names the part that is wrong.
func TestProfileRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      `part ""`,
		"steps:1s=2":                            `"steps" is none of`,
		"step":                                  `"" is not SPAN=MULTIPLIER`,
		"step:1s":                               `"1s" is not SPAN=MULTIPLIER`,
		"step:1=2":                              `span "1"`,
		"step:1d=2":                             `span "1d"`,
		"step:-1s=2":                            `span "-1s"`,
		"step:1s=x":                             `multiplier "x"`,
		"step:1s=-2":                            `multiplier "-2"`,
		"step:1s=NaN":                           `multiplier "NaN"`,
		"step:1s=1e9":                           `multiplier "1e9"`,
		"step:2s=1,1s=2":                        `"1s=2" is not later`,
		"ramp:1s=1,1s=2":                        `"1s=2" is not later`,
		"ramp:infs=2":                           `span "infs"`,
		"ramp:99999999999h=2":                   `span "99999999999h"`,
		"diurnal:period=60s":                    "depth is missing",
		"diurnal:depth=1":                       "period is missing",
		"diurnal:period=60s,depth=1.5":          "depth 1.5",
		"diurnal:period=60s,depth=x":            `depth: multiplier "x"`,
		"diurnal:period=1us,depth=1":            "period 1µs",
		"diurnal:period=60s,depth=1,x=2":        `"x=2", must be one each of period, depth`,
		"diurnal:period=60s,depth=1,depth=1":    `"depth=1", must be one each`,
		"burst:period=1s,length=1s,height=2":    "length 1000ms",
		"burst:period=1s,length=0s,height=2":    "length 0ms",
		"burst:period=10us,length=1us,height=2": "period 10µs",
		"burst:period=1s,length=1ms,height=0":   "height 0",
		"step:1s=2*burst:period=1s":             `part "burst:period=1s": length is missing`,
		"step:1s=2*":                            `part ""`,
	} {
		_, err := ParseProfile(text)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if s := profileOf(t, "step:1s=2").String(); s != "step:1s=2" {
		t.Error(s)
	}
}

// Any accepted text gives ordered arrivals, soon.
func FuzzProfile(f *testing.F) {
	f.Add("step:10s=2,20s=0.5*ramp:0s=1,60s=3")
	f.Add("diurnal:period=60s,depth=0.5*burst:period=1ms,length=1us,height=1e-6*step:1h=0,1001h=1")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseProfile(text)
		if err != nil {
			return
		}
		m, err := NewMix([]Stream{{Process: Poisson, Rate: 1e4, Profile: p}, {Gamma, 0.1, 1e4, p}}, 1)
		if err != nil {
			return
		}
		last := mono.Time(0)
		for range 20 {
			at, _, ok := m.Next()
			if !ok {
				return
			}
			if v := p.At(at); at < last || !(v >= 0) {
				t.Fatalf("%q: %s after %s, multiplier %g", text, at, last, v)
			}
			last = at
		}
	})
}
