package gpu

import (
	"math"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// at is an instant, in milliseconds.
func at(millis float64) mono.Time { return mono.Time(millis * float64(ms)) }

// A batch counts when it was planned and ran while somebody listened, once, in order of start.
func TestRecorder(t *testing.T) {
	r := &Recorder{}
	r.Dispatched(1, 0, 0, 4, at(0), at(5))
	r.Done(1, at(0), at(5), 4)
	r.begin()
	r.Dispatched(2, 0, 0, 4, at(10), at(15))
	r.Dispatched(3, 1, 0, 2, at(5), at(9))
	r.Dispatched(4, 1, 0, 2, at(5), at(9))
	r.Done(9, at(1), at(2), 1) // of nobody here
	r.Done(2, at(11), at(16), 4)
	r.Done(2, at(11), at(16), 4)
	r.Done(3, at(6), at(9), 2)
	r.Done(4, at(6), at(9), 0) // it did not run
	runs := r.take()
	if len(runs) != 2 || runs[0].size != 2 || runs[1].end != at(16) || runs[1].until != at(15) {
		t.Errorf("%+v", runs)
	}
	r.Dispatched(5, 0, 0, 4, at(10), at(15))
	if runs := r.take(); len(runs) != 0 {
		t.Errorf("nobody listened: %+v", runs)
	}
}

// madeLive is a load of two models on one GPU: batches of 5 ms one after the other, every
// second of them late by its model's lateness and 1 ms longer than planned.
func madeLive() *live {
	l := &live{workload: Workload{Name: "mix"}, gpus: 1, rate: 100, report: &report.Report{}, models: []asked{{name: "a", id: 7}, {name: "b", id: 9}}}
	for k := range 100 {
		start := float64(10 * k)
		b := batchRun{model: 7, size: 2, exec: at(start), until: at(start + 5), start: at(start), end: at(start + 5)}
		if k%2 == 1 {
			b.model, b.size, b.start, b.end = 9, 4, at(start+1), at(start+7)
		}
		l.runs = append(l.runs, b)
	}
	return l
}

func TestPredictionOf(t *testing.T) {
	p := &prediction{}
	p.of(madeLive())
	if p.Batches != 100 || p.End.P1MS != 0 || p.End.P99MS != 2 || p.End.Late != 0.5 || math.Abs(p.End.MeanMS-1) > 1e-9 || p.Length.P99MS != 1 {
		t.Errorf("%+v", p)
	}
	if a, b := p.Models[0], p.Models[1]; a.Batches != 50 || a.End.MaxMS != 0 || b.End.P50MS != 2 || b.Length.P50MS != 1 || b.Model != "b" {
		t.Errorf("%+v, %+v", a, b)
	}
	if len(p.pictures()) != 1 || len(p.table()) < 3 {
		t.Error("no histogram")
	}
}

func TestTimelineOf(t *testing.T) {
	l := madeLive()
	l.runs = append(l.runs, batchRun{model: 1234, size: 1, start: at(600), end: at(601)}) // of no model that was asked
	s := &timeline{GPUs: 1}
	s.of(l)
	// 550 ms of 997 are busy, and a window of 200 ms has 20 batches.
	if math.Abs(s.Busy[0]-0.55) > 0.01 || s.Batches < 20 || s.Batches > 21 || math.Abs(s.Mean-3) > 0.05 {
		t.Errorf("%+v", s)
	}
	for _, b := range s.shown {
		if b.End <= 0 || b.Start >= mono.Time(window) || b.Model > 1 {
			t.Errorf("%+v is not in the window", b)
		}
	}
	if len(s.pictures()) != 1 {
		t.Error("no picture")
	}
	// A load shorter than the window is shown whole.
	l.runs = l.runs[:5]
	short := &timeline{GPUs: 1}
	if short.of(l); short.Batches != 5 {
		t.Errorf("%+v", short)
	}
}

func TestBounds(t *testing.T) {
	p, err := profile.Linear(mono.Millisecond, 5*mono.Millisecond, 64)
	if err != nil {
		t.Fatal(err)
	}
	m := asked{name: "a", slo: 50 * ms, profile: p}
	if rate, what := bounds([]asked{m}, 1); what != "staggered" || math.Abs(rate-800) > 1 { // b = 20: 2 * 25 ms
		t.Errorf("%v %s", rate, what)
	}
	if rate, what := bounds([]asked{m, m}, 1); what != "fluid" || rate < 500 || rate > 1000 {
		t.Errorf("%v %s", rate, what)
	}
	m.slo = 3 * ms
	if rate, _ := bounds([]asked{m}, 1); rate != 0 {
		t.Errorf("an SLO that nothing meets: %v", rate)
	}
}

// A rate is carried when no model has too many bad requests, and the load was as it should be.
func TestJudge(t *testing.T) {
	r := &report.Report{Valid: true, Models: []report.Summary{{BadRate: 0.002}, {BadRate: 0.009}}}
	if k := judge(100, r); !k.Held || k.Bad != 0.009 || k.Rate != 100 {
		t.Errorf("%+v", k)
	}
	r.Models[0].BadRate = 0.02
	if k := judge(100, r); k.Held || k.Bad != 0.02 {
		t.Errorf("%+v", k)
	}
	if k := judge(100, &report.Report{Models: []report.Summary{{}}}); k.Held {
		t.Error("a load that lagged was carried")
	}
}

// Policies that have no rate yet are drawn and written as such.
func TestGoodputText(t *testing.T) {
	g := &goodput{GPUs: 1, Workloads: []*goodputOf{
		{Workload: "a", Bound: 1000, Kind: "staggered", Policies: []goodputPolicy{{Policy: "Symphony", found: found{Best: 900, Worse: 930, Tried: []tried{{Rate: 900, Held: true, P99: 31}}}}, {Policy: "eager", Error: "no rate was carried"}}},
		{Workload: "b", Bound: 500, Kind: "fluid", Policies: []goodputPolicy{{Policy: "Symphony", found: found{Best: 400}}}}}}
	text := g.text()
	for _, want := range []string{"| a | Symphony | 900 | 930 | 90.0 % of 1,000 (staggered) | 100.0 % | 31.0 | 1 |", "no rate was carried", "| b | Symphony | 400 | nothing |"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	r := &Result{Parts: []Outcome{{Part: "goodput", Status: Failed, Error: "x"}}, Sections: map[string]section{"goodput": g}}
	out := t.TempDir()
	o := Options{Out: out}
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	if err := r.write(out); err != nil || len(files(t, out, "plots/goodput.svg")) != 1 {
		t.Errorf("%v", err)
	}
}
