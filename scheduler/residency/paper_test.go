package residency

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	ms = mono.Millisecond
	us = mono.Microsecond
)

// The three models and two GPUs of the worked example of appendix B: B on g0 only, A on both,
// X nowhere.
const (
	modelA, modelB, modelX wire.ModelID = 0, 1, 2
	g0, g1                 wire.GPUID   = 0, 1
)

func example(rule Rule, demandB mono.Dur) *Residency {
	r := New(Config{Rule: rule})
	var out Out
	for id := range wire.ModelID(3) {
		r.AddModel(id, Model{Pages: 7, LoadTime: 8330 * us})
	}
	r.AddGPU(0, g0, 21, []wire.ModelID{modelA, modelB}, &out)
	r.AddGPU(0, g1, 21, []wire.ModelID{modelA}, &out)
	late := mono.Time(1000 * ms)
	r.Arrive(0, modelB, demandB, late)
	r.Arrive(0, modelA, 60*ms, late)
	r.Arrive(0, modelX, 20*ms, late)
	return r
}

// Appendix B, with weights capacity / l of that moment, capacity 100 ms and l from 1 ms on.
func TestWorkedExample(t *testing.T) {
	r := example(ByPriority, 90*ms)
	is := func(what string, got, want mono.Dur) {
		t.Helper()
		if got != want {
			t.Errorf("%s = %.6f ms, want %.6f", what, got.Millis(), want.Millis())
		}
	}
	demand := func(id wire.ModelID) mono.Dur { d, _ := r.Demand(id); return d }
	is("d_A", demand(modelA), 60*ms)
	is("a_B0", r.Share(modelB, g0), 90*ms)
	is("a_B1", r.Share(modelB, g1), 0)
	is("a_A0", r.Share(modelA, g0), 652174)
	is("a_A1", r.Share(modelA, g1), 59347826)
	is("l_0", r.LoadOf(g0), 91652174)
	is("l_1", r.LoadOf(g1), 60347826)
	is("p_A", r.Priority(0, modelA), -39054514)
	is("p_B", r.Priority(0, modelB), -8197343)
	is("p_X", r.Priority(0, modelX), 20*ms)

	r = example(ByPriority, 150*ms)
	is("a_A0", r.Share(modelA, g0), 394737)
	is("l_0", r.LoadOf(g0), 151394737)
	is("p_B", r.Priority(0, modelB), 50921259)
	is("p_X", r.Priority(0, modelX), 20*ms)
}

// What is loaded in it: X only, where the holders of A and B can do what waits (by the paper's rule on
// both GPUs, for the first one has no time for it); and B on g1, once g0 cannot.
func TestWorkedExampleLoads(t *testing.T) {
	for _, c := range []struct {
		rule    Rule
		demandB mono.Dur
		want    [][2]uint32 // model, GPU
	}{
		{ByPriority, 90 * ms, [][2]uint32{{2, 0}, {2, 1}}},
		{ByPriority, 150 * ms, [][2]uint32{{2, 0}, {1, 1}}},
		{BySaving, 90 * ms, [][2]uint32{{2, 1}}},          // g0's load would exceed what it can do
		{BySaving, 150 * ms, [][2]uint32{{1, 1}, {2, 0}}}, // B first: all loads take as long
	} {
		r := example(c.rule, c.demandB)
		var out Out
		r.Step(0, &out)
		var got [][2]uint32
		for _, l := range out.Loads {
			got = append(got, [2]uint32{uint32(l.Model), uint32(l.GPU)})
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("rule %d, d_B %v: loads %v, want %v", c.rule, c.demandB, got, c.want)
		}
	}
}

// Of work that a load could help in part only, the holders do their part of that: B has 150 ms, of which
// 100 ms can wait for a load.
func TestPriorityOfWhatCanWait(t *testing.T) {
	r := New(Config{})
	var out Out
	r.AddModel(modelB, Model{Pages: 7, LoadTime: 8 * ms})
	r.AddGPU(0, g0, 21, []wire.ModelID{modelB}, &out)
	r.Arrive(0, modelB, 50*ms, mono.Time(8*ms)-1)
	r.Arrive(0, modelB, 100*ms, mono.Time(8*ms))
	// 100 - 100 * (150 * 100/151) / 150
	if p := r.Priority(0, modelB); p != 33774835 {
		t.Errorf("p_B = %.6f ms, want 33.774835", p.Millis())
	}
	if p := r.Priority(1, modelB); p != 0 {
		t.Errorf("p_B = %.6f ms a nanosecond later, want 0", p.Millis())
	}
	if d, n := r.Demand(modelB); d != 150*ms || n != 2 || r.Share(modelB, g0) != d {
		t.Errorf("d_B = %v of %d requests, a_B0 = %v", d, n, r.Share(modelB, g0))
	}
}
