package workload

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

const countsHeader = "HashOwner,HashApp,HashFunction,Trigger"

func functionsHeader(minutes int) string {
	var b strings.Builder
	b.WriteString(countsHeader)
	for m := range minutes {
		fmt.Fprintf(&b, ",%d", m+1)
	}
	return b.String() + "\n"
}

// manyCounts has a count of (row + minute) % 20 in each cell.
func manyCounts(rows, minutes int) string {
	var b strings.Builder
	b.WriteString(functionsHeader(minutes))
	for r := range rows {
		b.WriteString("o,a,f,http")
		for m := range minutes {
			fmt.Fprintf(&b, ",%d", (r+m)%20)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func newFunctions(t *testing.T, text string, cfg FunctionsConfig) *Functions {
	t.Helper()
	f, err := NewFunctions(strings.NewReader(text), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Unscaled, each model has exactly its rows' counts in each minute, uniform in it.
func TestFunctions(t *testing.T) {
	const rows, minutes, models = 50, 30, 7
	f := newFunctions(t, manyCounts(rows, minutes), FunctionsConfig{Models: models, Seed: 1})
	var got [minutes][models]int
	last, seconds, n := mono.Time(0), 0.0, 0.0
	for {
		at, model, ok := f.Next()
		if !ok {
			break
		}
		if at < last {
			t.Fatalf("%s after %s", at, last)
		}
		last = at
		got[at/(60*second)][model]++
		seconds, n = seconds+(at%(60*second)).Sub(0).Seconds(), n+1
	}
	for m := range minutes {
		var want [models]int
		for r := range rows {
			want[r%models] += (r + m) % 20
		}
		if got[m] != want {
			t.Errorf("minute %d: %v, want %v", m, got[m], want)
		}
	}
	if mean := seconds / n; math.Abs(mean-30) > 1 {
		t.Errorf("mean instant within a minute: %g s, want 30", mean)
	}
}

func TestFunctionsScaled(t *testing.T) {
	text := manyCounts(50, 30)
	count := len(all(newFunctions(t, text, FunctionsConfig{Models: 7}), 1e6))
	for _, scale := range []float64{0.01, 0.35, 2, 3.25} {
		got := all(newFunctions(t, text, FunctionsConfig{Models: 7, Scale: scale, Speed: 60}), 1e6)
		if want := scale * float64(count); math.Abs(float64(len(got))-want) > 5*math.Sqrt(want) {
			t.Errorf("scale %g: %d arrivals, want about %g", scale, len(got), want)
		}
		if end := got[len(got)-1].at; end > 30*second || end < 28*second {
			t.Errorf("30 minutes at 60 times the speed end at %s", end)
		}
	}
}

// Errors name file, line and column.
func TestFunctionsRefused(t *testing.T) {
	head := functionsHeader(3)
	for text, want := range map[string]string{
		"":                                       "f.csv:0: no header",
		countsHeader + "\na,b,c,d":               "f.csv:1: no header",
		"a,b,c,http,1,2,3\n":                     `f.csv:1: column 1: header "a", must be HashOwner`,
		"HashOwner,HashApp,Trigger,1\n":          `f.csv:1: column 3: header "Trigger", must be HashFunction`,
		countsHeader + ",1,3\n":                  `f.csv:1: column 6: header "3", must be 2`,
		head:                                     "f.csv:1: no rows",
		head + "o,a,f,t,1,2\n":                   "f.csv:2: column 7 is missing, the header has 7",
		head + "o,a\n":                           "f.csv:2: column 3 is missing",
		head + "o,a,f,t,1,2,3,4\n":               "f.csv:2: column 8 is one more",
		head + "o,a,f,t,1,2,3\no,a,f,t,1,-2,3\n": `f.csv:3: column 6 (minute 2): count "-2" is negative`,
		head + "o,a,f,t,1,x,3\n":                 `f.csv:2: column 6 (minute 2): count "x" is no whole number`,
		head + "o,a,f,t,1,,3\n":                  `f.csv:2: column 6 (minute 2): count "" is no whole number`,
		head + "o,a,f,t,1,2,3.5\n":               `f.csv:2: column 7 (minute 3): count "3.5" is no whole number`,
		head + "o,a,f,t,1,4294967295,3\no,a,f,t,1,4294967295,3": `f.csv:3: column 6 (minute 2): count 4294967295 is too large`,
		head + "o,a,f,t,1,99999999999999999999,3\n":             "is no whole number",
		head + blank(lineMax):                                   "f.csv:2: bufio.Scanner: token too long",
	} {
		_, err := NewFunctions(strings.NewReader(text), FunctionsConfig{Name: "f.csv", Models: 1})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %s", text, err, want)
		}
	}
	text := manyCounts(2, 3)
	for _, cfg := range []FunctionsConfig{{Models: 0}, {Models: 1, Scale: -1}, {Models: 1, Speed: math.NaN()}, {Models: 1, Scale: 1e7}, {Models: 1 << 27}} {
		if _, err := NewFunctions(strings.NewReader(text), cfg); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

func TestFunctionsAllocateNothing(t *testing.T) {
	f := newFunctions(t, manyCounts(50, 30), FunctionsConfig{Models: 7, Scale: 10})
	if n := testing.AllocsPerRun(10_000, func() { f.Next() }); n != 0 {
		t.Errorf("%v allocations an arrival, want 0", n)
	}
}
