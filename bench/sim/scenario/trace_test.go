package scenario

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/transport/mono"
)

// arrivals is a trace of 1,000 requests/s for 2 s, three of four for model A.
func arrivals() string {
	var text strings.Builder
	text.WriteString("t,model\n")
	for i := range 2000 {
		fmt.Fprintf(&text, "%.3f,%c\n", float64(i)/1000, "AAAB"[i%4])
	}
	return text.String()
}

func traced(t *testing.T, trace Trace, text string) Scenario {
	s := small()
	m := s.Models[0]
	s.Models = []zoo.Model{{Name: "A", Alpha: m.Alpha, Beta: m.Beta, SLO: m.SLO}, {Name: "B", Alpha: m.Alpha, Beta: m.Beta, SLO: m.SLO}}
	trace.File = file(t, "t.csv", text)
	s.Rate, s.Trace = 0, &trace
	return s
}

func simulate(t *testing.T, s Scenario) *Outcome {
	t.Helper()
	p, err := s.Plan()
	if err != nil {
		t.Fatal(err)
	}
	o, err := p.Simulate(sim.Observer{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestTraceColumn(t *testing.T) {
	o := simulate(t, traced(t, Trace{Models: column}, arrivals()))
	if o.Models[0].Arrived != 750 || o.Models[1].Arrived != 250 {
		t.Errorf("%d and %d arrivals, must be 750 and 250", o.Models[0].Arrived, o.Models[1].Arrived)
	}
	if o.Scenario.Popularity != "trace" || len(o.Scenario.Trace.Sum) != 64 {
		t.Errorf("the record does not tell of the trace: %+v", o.Scenario)
	}
}

func TestTraceDrawnRateSpeedLoop(t *testing.T) {
	for _, c := range []struct {
		name   string
		trace  Trace
		rate   float64
		length mono.Dur
		want   float64
	}{
		{"as it is", Trace{}, 0, mono.Second, 1000},
		{"rate", Trace{}, 500, mono.Second, 500},
		{"speed", Trace{Speed: 1.5}, 0, mono.Second, 1500},
		{"speed and rate", Trace{Speed: 1.5}, 700, mono.Second, 700},
		{"loop", Trace{Loop: true}, 0, 6 * mono.Second, 1000},
	} {
		s := traced(t, c.trace, arrivals())
		s.Rate, s.Duration = c.rate, c.length
		o := simulate(t, s)
		if math.Abs(o.All.Offered-c.want) > 0.08*c.want {
			t.Errorf("%s: %g r/s, want %g", c.name, o.All.Offered, c.want)
		}
	}
}

// counts is a trace of one minute: 30,000 requests in three rows.
const counts = "HashOwner,HashApp,HashFunction,Trigger,1\no,a,f,http,10000\no,a,g,http,5000\no,a,h,timer,15000\n"

func TestTraceOfCounts(t *testing.T) {
	s := traced(t, Trace{}, counts)
	o := simulate(t, s)
	if math.Abs(o.All.Offered-500) > 60 || o.Models[0].Arrived < 3*o.Models[1].Arrived {
		t.Errorf("%g r/s, %d and %d, want 500, five of six for the first", o.All.Offered, o.Models[0].Arrived, o.Models[1].Arrived)
	}
	s.Rate = 250
	if o := simulate(t, s); math.Abs(o.All.Offered-250) > 40 {
		t.Errorf("%g r/s, brought to 250", o.All.Offered)
	}
}

func TestBadTraces(t *testing.T) {
	for _, c := range []struct {
		want, text string
		trace      Trace
		change     func(*Scenario)
	}{
		{"--trace: open", arrivals(), Trace{}, func(s *Scenario) { s.Trace.File += "x" }},
		{"t.csv:3: column 1: timestamp", "0\n1\nx\n", Trace{}, nil},
		{`unknown model "C"`, "0,A\n1,C\n", Trace{Models: column}, nil},
		{"t.csv is empty", "", Trace{}, nil},
		{"t.csv:1: no arrivals", "t,model\n", Trace{}, nil},
		{"1 arrivals within 0ms have no rate", "5\n", Trace{}, nil},
		{"lasts 2s at --trace-speed 1, but --warmup and --duration need 9.1s", arrivals(), Trace{}, func(s *Scenario) { s.Duration = 9 * mono.Second }},
		{"--trace-speed: -1", arrivals(), Trace{Speed: -1}, nil},
		{`--trace-models: "guess"`, arrivals(), Trace{Models: "guess"}, nil},
		{`--trace-models: "column": rows of counts`, counts, Trace{Models: column}, nil},
		{"--trace-loop:", counts, Trace{Loop: true}, nil},
		{"count \"x\" is no whole number", strings.Replace(counts, "5000", "x", 1), Trace{}, nil},
		{"no request in 1 minutes", "HashOwner,HashApp,HashFunction,Trigger,1\no,a,f,http,0\n", Trace{}, nil},
		{`--arrivals: "poisson" has no effect with --trace`, arrivals(), Trace{}, func(s *Scenario) { s.Arrivals = "poisson" }},
		{`--rate-profile: "step:1s=2" has no effect with --trace`, arrivals(), Trace{}, func(s *Scenario) { s.RateProfile = "step:1s=2" }},
		{`--popularity: "zipf:1" has no effect`, arrivals(), Trace{Models: column}, func(s *Scenario) { s.Popularity = "zipf:1" }},
		{"has changed: its SHA-256", arrivals(), Trace{Sum: "00"}, nil},
	} {
		s := traced(t, c.trace, c.text)
		if c.change != nil {
			c.change(&s)
		}
		_, err := s.Plan()
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

// TestTraceThatBreaksMidway: what was checked may change before the run.
func TestTraceThatBreaksMidway(t *testing.T) {
	s := traced(t, Trace{}, arrivals())
	p, err := s.Plan()
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.Replace(arrivals(), "\n0.500,", "\nhalf,", 1)
	if err := os.WriteFile(s.Trace.File, []byte(broken), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Simulate(sim.Observer{}, nil); err == nil || !strings.Contains(err.Error(), `timestamp "half"`) {
		t.Errorf("error %v, want one of the broken line", err)
	}
	if _, err := p.FindGoodput(1, 0.1, nil, nil); err == nil || !strings.Contains(err.Error(), `timestamp "half"`) {
		t.Errorf("error %v, want one of the broken line", err)
	}
}
