package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

func TestSummary(t *testing.T) {
	r := NewRecorder([]string{"a", "b"})
	for i := range 1000 {
		r.Add(Observation{Model: 0, Latency: mono.Dur(i+1) * mono.Millisecond / 10, BatchSize: 4})
	}
	r.Add(Observation{Model: 1, Reason: "shed"})
	r.Add(Observation{Model: 1, Reason: "late", Latency: mono.Second, BatchSize: 8})
	all, models, batches, mean := r.Summarise(10)
	if all.Answered != 1002 || all.Served != 1000 || all.Goodput != 100 || all.Bad["shed"] != 1 || all.Bad["late"] != 1 {
		t.Errorf("all: %+v", all)
	}
	if m := models[0]; m.P50 < 49 || m.P50 > 51 || m.P99 < 98 || m.P99 > 100 || m.BadRate != 0 {
		t.Errorf("model a: %+v", m)
	}
	if models[1].BadRate != 1 || batches[4] != 1000 || batches[8] != 1 || mean < 4 || mean > 4.1 {
		t.Errorf("model b %+v, batches %v, mean %v", models[1], batches, mean)
	}
}

func TestVerdicts(t *testing.T) {
	good := Report{All: Summary{Answered: 10, Served: 10}, Models: []Summary{{Model: "a", Answered: 10, Served: 10}}}
	for want, change := range map[string]func(*Report){
		"WITHIN the SLO":   func(*Report) {},
		"OVER the SLO":     func(p *Report) { p.Models[0].BadRate = 0.02 },
		"nothing":          func(p *Report) { p.All.Answered = 0 },
		"lagged":           func(p *Report) { p.LagMean = 5 },
		"without an answ":  func(p *Report) { p.Lost = 1 },
		"answers too many": func(p *Report) { p.Duplicates = 1 },
		"INTERRUPTED":      func(p *Report) { p.Interrupted = true },
		"--outstanding":    func(p *Report) { p.All.Bad = map[string]int64{"generator_full": 1} },
	} {
		p := good
		p.Models = []Summary{good.Models[0]}
		change(&p)
		p.Judge()
		if !strings.Contains(p.Verdict, want) || p.Valid != strings.Contains(want, "the SLO") {
			t.Errorf("verdict %q, valid %v; want one with %q", p.Verdict, p.Valid, want)
		}
	}
}

// A verdict on few requests says so, and stays what it is.
func TestFewRequests(t *testing.T) {
	for want, answered := range map[string][]int64{
		"; too few requests to tell a p99: 126": {126},
		"one answer":                            {1000, 5000},
		"; too few requests to tell a p99 of 2 of 3 models: b had 12": {5000, 12, 999},
	} {
		p := Report{All: Summary{Answered: 1}}
		for i, n := range answered {
			p.Models = append(p.Models, Summary{Model: string(rune('a' + i)), Answered: n, Served: n})
		}
		if p.Judge(); !p.Valid || !strings.HasPrefix(p.Verdict, "WITHIN") || !strings.HasSuffix(p.Verdict, want) {
			t.Errorf("%v: valid %v, verdict %q, want one that ends in %q", answered, p.Valid, p.Verdict, want)
		}
	}
}

// Of a thousand models the worst are printed, and how many are not.
func TestPrintMany(t *testing.T) {
	p := Report{}
	for i := range 1000 {
		p.Models = append(p.Models, Summary{Model: fmt.Sprintf("m-%d", i), Answered: 100, Served: 100})
	}
	p.Models[700].Served, p.Models[700].BadRate = 50, 0.5
	var b bytes.Buffer
	p.Print(&b)
	lines := strings.Split(b.String(), "\n")
	if !strings.Contains(lines[1], "m-700") || !strings.Contains(b.String(), "and 980 more models") || len(lines) > 30 {
		t.Errorf("the worst is not first, or too much is printed:\n%s", b.String())
	}
	if p.Models[0].Model != "m-0" {
		t.Errorf("printing changed the report: %s is first", p.Models[0].Model)
	}
}

func TestPrint(t *testing.T) {
	p := Report{All: Summary{Answered: 2, Served: 1, Bad: map[string]int64{"shed": 1}}, Batches: map[int]int64{2: 1}, GPUBusy: map[string]float64{"p/0": 0.5, "p/10": 0, "p/2": 0.25}}
	p.Judge()
	var b bytes.Buffer
	p.Print(&b)
	for _, want := range []string{"ALL", "shed 1", "p/0 50 %, p/2 25 %, p/10 0 %", "WITHIN"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}
