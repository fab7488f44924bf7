package workload

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// manyLines is a trace of n arrivals of 3 models, 10 ms apart in bursts of 10
// with pauses of 1 s.
func manyLines(n int) string {
	var b strings.Builder
	b.WriteString("timestamp,model\n")
	at := 100_000
	for i := range n {
		at += 10
		if i%10 == 0 {
			at += 990
		}
		fmt.Fprintf(&b, "%d.%03d,m%d\n", at/1000, at%1000, i%3)
	}
	return b.String()
}

type arrival struct {
	at    mono.Time
	model int
}

// all reads at most n arrivals.
func all(s Source, n int) (out []arrival) {
	for range n {
		at, model, ok := s.Next()
		if !ok {
			break
		}
		out = append(out, arrival{at, model})
	}
	return out
}

func newTrace(t testing.TB, text string, cfg TraceConfig) *Trace {
	t.Helper()
	trace, err := NewTrace(strings.NewReader(text), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

const ms = mono.Time(mono.Millisecond)

func TestTrace(t *testing.T) {
	index := map[string]int{"bert": 7, "resnet": 2}
	want := []arrival{{0, 2}, {250 * ms, 7}, {250 * ms, 7}, {1000 * ms, 2}}
	for name, text := range map[string]string{
		"plain":      "5,resnet\n5.25,bert\n5.25,bert\n6,resnet\n",
		"header":     "timestamp,model\n5,resnet\n5.25,bert\n5.25,bert\n6,resnet",
		"dates":      "2023-11-16 18:15:46.5,resnet\n2023-11-16 18:15:46.75,bert\n2023-11-16 18:15:46.75,bert\n2023-11-16T18:15:47.5Z,resnet\n",
		"CRLF, mark": "\xef\xbb\xbf\"time\",model\r\n5,resnet\r\n\r\n5.25,\"bert\"\r\n5.25, bert ,more\r\n6,resnet\r\n",
	} {
		trace := newTrace(t, text, TraceConfig{Index: index})
		if got := all(trace, 10); !slices.Equal(got, want) || trace.Err() != nil {
			t.Errorf("%s: %v %v, want %v", name, got, trace.Err(), want)
		}
	}
	fast := all(newTrace(t, "5,resnet\n6,bert\n", TraceConfig{Index: index, Speed: 4}), 10)
	if !slices.Equal(fast, []arrival{{0, 2}, {250 * ms, 7}}) {
		t.Errorf("at four times the speed: %v", fast)
	}
}

// Azure's traces of LLM inference have a time and two counts of tokens.
func TestTraceOfTimestampsOnly(t *testing.T) {
	const head = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109\r\n"
	got := all(newTrace(t, head, TraceConfig{Shares: []float64{0, 1}}), 10)
	if !slices.Equal(got, []arrival{{0, 1}, {4_314_579_000, 1}}) {
		t.Error(got)
	}
	shares, err := Shares("zipf:1", 3)
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]float64, 3)
	for _, a := range all(newTrace(t, manyLines(50_000), TraceConfig{Shares: shares}), 50_000) {
		counts[a.model]++
	}
	for i, n := range counts {
		if math.Abs(n-50_000*shares[i]) > 500 {
			t.Errorf("model %d has %g arrivals, want about %g", i, n, 50_000*shares[i])
		}
	}
}

func TestMeasureTrace(t *testing.T) {
	got, err := MeasureTrace(strings.NewReader("time\n10\n11\n14\n"), TraceConfig{})
	if err != nil || got != (TraceStats{3, 4 * mono.Second}) || got.Rate() != 0.5 {
		t.Errorf("%+v rate %g %v", got, got.Rate(), err)
	}
	for _, text := range []string{"", "5\n", "5\n5\n", "5\n4\n"} {
		if _, err := MeasureTrace(strings.NewReader(text), TraceConfig{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Scaled to any rate, by copies or by leaving out: the mean is right, bursts
// stay in their places, the parts of the models stay.
func TestTraceRate(t *testing.T) {
	const n = 30_000
	text := manyLines(n)
	stats, err := MeasureTrace(strings.NewReader(text), TraceConfig{Index: index(3)})
	if err != nil {
		t.Fatal(err)
	}
	for _, factor := range []float64{0.1, 0.5, 1, 1.5, 4, 7.3} {
		for _, speed := range []float64{1, 2.5} {
			cfg := TraceConfig{Index: index(3), Rate: factor * speed * stats.Rate(), Speed: speed, Seed: 3}
			got := all(newTrace(t, text, cfg), n*10)
			if want := factor * n; math.Abs(float64(len(got))-want) > 4*math.Sqrt(want)+1 {
				t.Errorf("factor %g: %d arrivals, want about %g", factor, len(got), want)
			}
			models, burst := [3]float64{}, 0.0
			for i, a := range got {
				if i > 0 && a.at < got[i-1].at {
					t.Fatalf("factor %g: %s after %s", factor, a.at, got[i-1].at)
				}
				models[a.model]++
				if at := mono.Time(float64(a.at) * speed); at%(1090*ms) <= 90*ms {
					burst++
				}
			}
			for i, k := range models {
				if math.Abs(3*k/float64(len(got))-1) > 0.1 {
					t.Errorf("factor %g: model %d has %g of %d", factor, i, k, len(got))
				}
			}
			// Nine of ten arrivals, with their copies, and the tenth itself.
			if want := 0.9 + 0.1/math.Max(1, factor); math.Abs(burst/float64(len(got))-want) > 0.01 {
				t.Errorf("factor %g: %g of the arrivals are in bursts, want %g", factor, burst/float64(len(got)), want)
			}
			cfg.Mean = stats.Rate()
			passed, err := NewTrace(io.MultiReader(strings.NewReader(text)), cfg) // no Seeker
			if err != nil || !slices.Equal(all(passed, n*10), got) {
				t.Errorf("factor %g: with the mean passed in it differs: %v", factor, err)
			}
		}
	}
}

func TestTraceLoop(t *testing.T) {
	trace := newTrace(t, "10,m0\n11,m1\n14,m2\n", TraceConfig{Index: index(3), Loop: true})
	got := all(trace, 7)
	if want := []arrival{{0, 0}, {second, 1}, {4 * second, 2}, {6 * second, 0}, {7 * second, 1}, {10 * second, 2}, {12 * second, 0}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, text := range []string{"5,m0\n", "5,m0\n5,m0\n"} {
		trace := newTrace(t, text, TraceConfig{Index: index(3), Loop: true})
		if n := len(all(trace, 10)); n > 2 || !errors.Is(trace.Err(), ErrInvalid) {
			t.Errorf("%q: %d arrivals, %v", text, n, trace.Err())
		}
	}
	// Rounds end with the range of instants, not in an overflow.
	slow := newTrace(t, "0,m0\n4000000000,m0\n", TraceConfig{Index: index(3), Loop: true, Speed: 0.5})
	if got := all(slow, 10); len(got) < 2 || len(got) > 4 || slow.Err() != nil {
		t.Errorf("%v %v", got, slow.Err())
	}
}

// Errors name file and line.
func TestTraceRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "t.csv:0: no arrivals",
		"timestamp,model\n":              "t.csv:1: no arrivals",
		"1,m0\n2,m9\n":                   `t.csv:2: column 2: unknown model "m9"`,
		"1,m0\n2\n":                      "t.csv:2: column 2: the model is missing",
		"1,m0\n2,\n":                     `t.csv:2: column 2: unknown model ""`,
		"1,m0\n\n3,m0\n2.999,m0\n":       `t.csv:4: column 1: timestamp "2.999" is earlier`,
		"1,m0\nx,m0\n":                   `t.csv:2: column 1: timestamp "x"`,
		"1:30,m0\n":                      `t.csv:1: column 1: timestamp "1:30"`,
		"-1,m0\n":                        `t.csv:1: column 1: timestamp "-1"`,
		"a,b\nc,d\n":                     `t.csv:2: column 1: timestamp "c"`,
		"1,m0\n\"2,m0\n":                 `t.csv:2: column 1: timestamp "\"2"`,
		"1,m0\n" + blank(lineMax) + "\n": "t.csv:2: bufio.Scanner: token too long",
	} {
		trace, err := NewTrace(strings.NewReader(text), TraceConfig{Name: "t.csv", Index: index(3)})
		if err == nil {
			all(trace, 10)
			err = trace.Err()
		}
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
	for name, change := range map[string]func(*TraceConfig){
		"shares": func(c *TraceConfig) { c.Index = nil }, "share": func(c *TraceConfig) { c.Index, c.Shares = nil, []float64{1, -1} },
		"no share": func(c *TraceConfig) { c.Index, c.Shares = nil, []float64{0} },
		"speed":    func(c *TraceConfig) { c.Speed = -1 }, "speed NaN": func(c *TraceConfig) { c.Speed = math.NaN() },
		"rate": func(c *TraceConfig) { c.Rate = -1 }, "rate NaN": func(c *TraceConfig) { c.Rate = math.NaN() },
		"high rate": func(c *TraceConfig) { c.Rate = 1e8 }, "mean": func(c *TraceConfig) { c.Rate, c.Mean = 1, -1 },
	} {
		cfg := TraceConfig{Index: index(3)}
		change(&cfg)
		if _, err := NewTrace(strings.NewReader("1,m0\n2,m1\n"), cfg); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, cfg := range []TraceConfig{{Index: index(3), Loop: true}, {Index: index(3), Rate: 5}} {
		if _, err := NewTrace(io.MultiReader(strings.NewReader("1,m0\n2,m1\n")), cfg); !errors.Is(err, ErrInvalid) {
			t.Errorf("read twice: %v", err)
		}
	}
	if _, err := NewTrace(strings.NewReader("1,m0\n2,x\n"), TraceConfig{Name: "t.csv", Index: index(3), Rate: 5}); err == nil || !strings.Contains(err.Error(), "t.csv:2") {
		t.Errorf("the first pass does not tell of line 2: %v", err)
	}
}

func blank(n int) string { return strings.Repeat(" ", n) }

// Whatever a file holds, arrivals are in order and the replay ends.
func FuzzTrace(f *testing.F) {
	f.Add("timestamp,model\n5,m0\n5.25,m1\n", 3.0)
	f.Add("2023-11-16 18:15:46.5,m0\n2024-11-16T18:15:46.5+01:00,m1\n", 0.01)
	f.Fuzz(func(t *testing.T, text string, rate float64) {
		trace, err := NewTrace(strings.NewReader(text), TraceConfig{Index: index(3), Rate: rate, Speed: 0.5, Loop: true})
		if err != nil {
			return
		}
		last := mono.Time(0)
		for range 100 {
			at, model, ok := trace.Next()
			if !ok {
				return
			}
			if at < last || model < 0 || model > 2 {
				t.Fatalf("model %d at %d ns after %d", model, at, last)
			}
			last = at
		}
	})
}

func TestTraceAllocatesNothing(t *testing.T) {
	trace := newTrace(t, manyLines(3000), TraceConfig{Index: index(3), Rate: 30, Mean: 10})
	if n := testing.AllocsPerRun(5000, func() { trace.Next() }); n != 0 {
		t.Errorf("%v allocations an arrival, want 0", n)
	}
}
