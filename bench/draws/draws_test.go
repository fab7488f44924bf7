package draws

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// TestDrawIsAFunctionOfSeedAndIndex: also through JSON.
func TestDrawIsAFunctionOfSeedAndIndex(t *testing.T) {
	for i := range 20 {
		a := Draw(7, i)
		if !reflect.DeepEqual(a, Draw(7, i)) {
			t.Fatalf("%s: two mixes", a.Name())
		}
		if a.String() == Draw(8, i).String() || a.String() == Draw(7, i+1).String() {
			t.Errorf("%s is like its neighbour", a.Name())
		}
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		var b Mix
		if err := json.Unmarshal(text, &b); err != nil || !reflect.DeepEqual(a, &b) {
			t.Errorf("%s: %v, another mix after JSON", a.Name(), err)
		}
	}
}

// extremes is how far a quantity goes.
type extremes struct{ low, high float64 }

func (e *extremes) add(v float64) { e.low, e.high = min(e.low, v), max(e.high, v) }

// TestDrawCoversItsRanges and keeps within them.
func TestDrawCoversItsRanges(t *testing.T) {
	if invariants.Enabled {
		t.Skip("arithmetic of one goroutine, ten times as slow under the race detector")
	}
	const n = 800
	none := func() *extremes { return &extremes{math.Inf(1), math.Inf(-1)} }
	models, gpus, per, slo, beta, fluids := none(), none(), none(), none(), none(), none()
	count := map[string]int{}
	for i := range n {
		m := Draw(3, i)
		models.add(float64(len(m.Models)))
		gpus.add(float64(m.GPUs))
		per.add(m.PerModel())
		count[m.Kind]++
		count[m.Arrivals]++
		count[m.Popularity]++
		if m.Change != "" {
			count["change"]++
		}
		if m.Models[0].Table != nil {
			count["tables"]++
		}
		if i < 60 { // the bound is slow
			fluid, err := m.fluid()
			if err != nil {
				t.Fatal(err)
			}
			fluids.add(fluid)
		}
		shares := 0.0
		for k := range m.Models {
			slo.add(float64(m.Models[k].SLO) / float64(m.Models[k].single()))
			beta.add(float64(m.Models[k].Beta) / float64(m.Models[k].Alpha))
			shares += m.Models[k].Share
		}
		if math.Abs(shares-1) > 1e-9 {
			t.Errorf("%s: shares sum to %g", m.Name(), shares)
		}
		checkModels(t, m)
	}
	within := func(what string, e *extremes, low, lowAt, highAt, high float64) {
		t.Helper()
		if e.low < low || e.low > lowAt || e.high < highAt || e.high > high {
			t.Errorf("%s from %g to %g, want from within %g..%g to within %g..%g", what, e.low, e.high, low, lowAt, highAt, high)
		}
	}
	root := math.Sqrt(spreadBeta)
	within("models", models, 1, 1, 95, 100)
	within("GPUs", gpus, 1, 1, 128, 128)
	within("GPUs a model", per, 0.12, 0.23, 7, 8.5)
	within("SLO to l(1)", slo, 1.99, 2.05, 19.5, 20.01)
	within("beta/alpha", beta, betaMin/root*0.99, 0.12, 40, betaMax*root*1.01)
	within("fluid bound", fluids, 1, 500, 0.99*fluidMax, 1.05*fluidMax)
	for what, part := range map[string]float64{oneProfile: 0.5, mixedProfiles: 0.5, "poisson": 0.25, "gamma:0.3": 0.25, "gamma:0.05": 0.25, "uniform": 0.25, "equal": 0.5, "zipf:0.9": 0.5, "tables": 0.25, "change": 0.2} {
		if got := float64(count[what]) / n; math.Abs(got-part) > 0.05 {
			t.Errorf("%s in %g of the mixes, want about %g", what, got, part)
		}
	}
}

// checkModels: a simulation takes them, and those of one profile have one.
func checkModels(t *testing.T, m *Mix) {
	t.Helper()
	list, err := m.models(100)
	if err != nil {
		t.Fatalf("%s: %v", m.Name(), err)
	}
	cfg := sim.Config{Models: list, GPUs: m.GPUs, Duration: mono.Second, NewPolicy: nil}
	if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), "no policy") {
		t.Errorf("%s: %v, want nothing but a policy missing", m.Name(), err)
	}
	for i := range list {
		same := list[i].Profile.Latency(9) == list[0].Profile.Latency(9)
		if m.Kind == oneProfile && !same {
			t.Errorf("%s: model %d has a profile of its own", m.Name(), i)
		}
	}
}

// TestTablesStep: a table of steps of 4 or 8 is flat within a step, but for
// noise, and rises between them.
func TestTablesStep(t *testing.T) {
	k := &shape{step: 8, weight: 1, noise: make([]float64, 32)}
	for i := range k.noise {
		k.noise[i] = 1
	}
	p, err := profile.Table(k.of(mono.Millisecond, 5*mono.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	for b := 1; b <= 32; b++ {
		want := mono.Dur(5+(b+7)/8*8) * mono.Millisecond
		if p.Latency(b) != want {
			t.Errorf("l(%d) = %v, want %v", b, p.Latency(b), want)
		}
	}
}

// TestSpan: longer for rare models and bursts, shorter for many requests, whole
// periods where the rate changes.
func TestSpan(t *testing.T) {
	mix := func(arrivals, change string, shares ...float64) *Mix {
		m := &Mix{Arrivals: arrivals, Change: change, GPUs: 1}
		for _, s := range shares {
			m.Models = append(m.Models, Model{Alpha: 1, Beta: 1, SLO: 10, Share: s})
		}
		return m
	}
	for _, c := range []struct {
		m       *Mix
		rate    float64
		seconds float64
	}{
		{mix("poisson", "", 0.5, 0.5), 1000, 60},
		{mix("poisson", "", 0.99, 0.01), 1000, 100},
		{mix("gamma:0.25", "", 0.99, 0.01), 1000, 200},
		{mix("poisson", "", 0.99, 0.01), 1, 600},
		{mix("poisson", "", 0.5, 0.5), 20_000, 20},
		{mix("poisson", "", 0.5, 0.5), 10_000, 30},
		{mix("poisson", "", 0.5, 0.5), 1e6, 20},
		{mix("poisson", "burst:period=20s,length=10s,height=2", 0.5, 0.5), 10_000, 40},
		{mix("poisson", "", 1), 0, 600},
	} {
		got, err := Defaults().span(c.m, c.rate)
		if err != nil || got.Seconds != c.seconds || got.Warmup != max(20, math.Ceil(c.seconds/3)) {
			t.Errorf("%s, %s at %g r/s: %+v, %v, want %g s", c.m.Arrivals, c.m.Change, c.rate, got, err, c.seconds)
		}
	}
	half := Settings{Seconds: 30, Requests: 300_000, Tolerance: 0.01}
	if got, _ := half.span(mix("poisson", "", 0.99, 0.01), 1); got.Seconds != 300 {
		t.Errorf("half of everything: %g s, want 300", got.Seconds)
	}
}

func outcome(rates map[string]float64) *Outcome {
	o := &Outcome{Ours: Ours, Mix: Draw(1, 1), Found: map[string]Found{}}
	for name, rate := range rates {
		o.Found[name] = Found{Rate: rate}
	}
	return o
}

func TestRatios(t *testing.T) {
	all := []*Outcome{
		outcome(map[string]float64{Ours: 90, Today: 100, "eager": 80}),
		outcome(map[string]float64{Ours: 110, Today: 55, "eager": 100}),
		outcome(map[string]float64{Ours: 0, "eager": 0}), // nobody has any
		outcome(map[string]float64{Ours: 5, "eager": 0}),
		outcome(map[string]float64{"eager": 10}),
	}
	if got := ratios(all, Ours); !reflect.DeepEqual(got, []float64{0.9, 1.1, ratioMax}) {
		t.Errorf("ours: %v", got)
	}
	// Ours is no other of today's.
	if got := ratios(all, Today); !reflect.DeepEqual(got, []float64{0.55, 1.25}) {
		t.Errorf("today's: %v", got)
	}
	if got := shareOf([]float64{0.9, 0.99, 1.1, 1.2}, Line); got != 0.75 {
		t.Errorf("share %g", got)
	}
	// Measured again: that counts, and of nobody else.
	o := outcome(map[string]float64{Ours: 90, "eager": 100, "clockwork": 95})
	o.Again = outcome(map[string]float64{Ours: 99, "eager": 90})
	if v, _ := o.Ratio(Ours); math.Abs(v-1.1) > 1e-9 {
		t.Errorf("measured again: %g", v)
	}
	if v, _ := o.first().Ratio(Ours); v != 0.9 {
		t.Errorf("first: %g", v)
	}
	// Nobody has any when measured again.
	o.Again = outcome(map[string]float64{Ours: 0, "eager": 0})
	if v, ok := o.Ratio(Ours); ok {
		t.Errorf("nobody has a goodput when measured again: %g", v)
	}
	// Today's, which is measured again beside ours alone: with the others as first measured.
	o = outcome(map[string]float64{Ours: 90, Today: 100, "eager": 80})
	o.Again = outcome(map[string]float64{Ours: 92, Today: 101})
	if v, _ := o.Ratio(Today); v != 1.25 {
		t.Errorf("today's: %g", v)
	}
}

// TestRatioWhereOneIsMeasured: what is measured again is all that the ratio compares,
// though --policies names ours alone and the others' first goodputs are kept ones.
func TestRatioWhereOneIsMeasured(t *testing.T) {
	o := small(t.TempDir())
	o.Policies, o.Tolerance = []string{Ours}, 0.3
	r, err := newRunner(o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.store.Close()
	mix := Draw(o.Seed, o.Mixes[0])
	got := outcome(map[string]float64{Ours: 90, "eager": 100, "timeout:0.2": 50})
	got.Mix, got.Span = mix, Span{Seconds: 0.5, Warmup: 0.1}
	if err := r.again(got, nil); err != nil {
		t.Fatal(err)
	}
	if one := got.Again; one == nil {
		t.Fatal("not measured again")
	} else if _, ours := one.Found[Ours]; !ours || one.Found["eager"].Runs == 0 || len(one.Found) != 2 {
		t.Errorf("measured again: %v, want ours and the best other", one.Found)
	}
	if v, ok := got.Ratio(Ours); !ok || v >= ratioMax {
		t.Errorf("ratio %g", v)
	}
}

// small is a quick benchmark of two mixes in a folder, which are quick to simulate.
func small(out string) Options {
	return Options{Settings: Settings{Seconds: 0.5, Requests: 1000, Tolerance: 0.05}, Seed: 5, Mixes: []int{3, 13}, Policies: []string{"eager", Ours}, Out: out, Parallel: 2}
}

// TestResume: what is kept is not simulated again; what is not, is; and the
// report has both.
func TestResume(t *testing.T) {
	out := t.TempDir()
	run := func(o Options) []*Outcome {
		t.Helper()
		r, err := newRunner(o)
		if err != nil {
			t.Fatal(err)
		}
		defer r.store.Close()
		all, err := r.all(context.Background())
		if err != nil || len(all) != 2 {
			t.Fatalf("%d outcomes, %v", len(all), err)
		}
		return all
	}
	o := small(out)
	first := run(o)
	second := run(o)
	for i := range first {
		if first[i].Ran.Runs == 0 || second[i].Ran.Runs != 0 || !reflect.DeepEqual(first[i].Found, second[i].Found) || !reflect.DeepEqual(first[i].Over, second[i].Over) {
			t.Errorf("mix %d: %+v, then %+v", i, first[i], second[i])
		}
	}
	o.Policies = []string{"timeout:0.2"}
	third := run(o)
	for i := range third {
		if len(third[i].Found) != 3 || third[i].Found[Ours] != first[i].Found[Ours] {
			t.Errorf("mix %d: %+v, want one policy more", i, third[i].Found)
		}
	}
	o.Policies, o.Again = []string{"eager", Ours}, true
	var said bytes.Buffer
	if err := Bench(context.Background(), o, &said); err != nil || !strings.Contains(said.String(), "symphony to the best other, 2 mixes") {
		t.Errorf("%v, said %q", err, said.String())
	}
	for _, name := range []string{"REPORT.md", "draws.csv", "draws.svg", "draws.png"} {
		if s, err := os.Stat(filepath.Join(out, name)); err != nil || s.Size() < 100 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInterrupted: the error says how to go on.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Bench(ctx, small(t.TempDir()), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "run again to go on") {
		t.Errorf("%v", err)
	}
}

func TestRefuses(t *testing.T) {
	o := small(t.TempDir())
	for _, names := range [][]string{{"nobody"}, {"eager", "eager"}} {
		o.Policies = names
		if err := Bench(context.Background(), o, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "--policies: ") {
			t.Errorf("%v: %v", names, err)
		}
	}
}
