package tuner

import (
	"fmt"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Four models whose budgets are 12 to 80 ms, on one GPU: a deferred batch of a long budget
// holds the GPU while those of short ones run out.
func four(t testing.TB, all float64) []flow {
	return []flow{line(t, 0.3, 2, 20, all/4), line(t, 0.5, 5, 50, all/4), line(t, 1, 8, 80, all/4), line(t, 0.2, 1, 12, all/4)}
}

// eight times one model that batches strongly.
func eight(t testing.TB, all float64) (flows []flow) {
	for range 8 {
		flows = append(flows, line(t, 0.5, 8, 30, all/8))
	}
	return flows
}

// Where the choice ends up, and that it stays there: 0 is the whole deferral, 1 none.
func TestChoiceEndsUp(t *testing.T) {
	long(t)
	for _, c := range []struct {
		what      string
		gpus      int
		flows     []flow
		low, high float64 // mean haste
	}{
		{"four mixed models on one GPU, 250/s", 1, four(t, 250), 0.7, 1},
		{"eight that batch strongly on 16 GPUs, 17,000/s", 16, eight(t, 17_000), 0, 0.3},
		{"the same, 2,000/s", 16, eight(t, 2000), 1, 1},
		{"one request a second on 64 GPUs", 64, []flow{line(t, 0.5, 8, 100, 1)}, 1, 1},
	} {
		for seed := uint64(1); seed < 2; seed++ { // more seeds: the same
			d := newDrive(Config{}, seed, c.gpus, c.flows...)
			d.run(10)
			from := d.Choice().Changes
			haste := d.meanHaste(30)
			changes := d.Choice().Changes - from
			t.Logf("%s, seed %d: mean haste %.2f, %d changes in 30 s; %v", c.what, seed, haste, changes, d.Choice())
			if haste < c.low || haste > c.high {
				t.Errorf("%s, seed %d: mean haste %.2f, want %v to %v", c.what, seed, haste, c.low, c.high)
			}
			if changes > 3 {
				t.Errorf("%s, seed %d: %d changes in 30 s of the same load", c.what, seed, changes)
			}
		}
	}
}

// Invariant 3: the same calls, the same choices.
func TestChoiceIsDeterministic(t *testing.T) {
	long(t)
	choices := func() (all []string) {
		d := newDrive(Config{}, 5, 1, four(t, 300)...)
		d.chose = func() { all = append(all, fmt.Sprint(d.now, d.Choice())) }
		for _, rate := range []float64{20, 300, 40, 75} { // of 75: an overload changes the choice
			d.run(5)
			d.setRate(2, rate)
		}
		return append(all, fmt.Sprintf("%v %+v", d.Choice(), d.Outlooks()))
	}
	first, second := choices(), choices()
	if !slices.Equal(first, second) || len(first) < 2 {
		t.Errorf("the same calls, other choices:\n%v\n%v", first, second)
	}
}

// A Tuner of any settings chooses the one that costs least, also if the first is the zero one.
func TestChoiceOfFewSettings(t *testing.T) {
	none := batching.Setting{Haste: batching.HasteAll, Alone: true, ByLatest: true}
	for _, settings := range [][]batching.Setting{{{}, none}, {none, {}}, {{}}} {
		d := newDrive(Config{Settings: settings}, 1, 16, line(t, 0.5, 8, 100, 50))
		d.run(20)
		c := d.Choice()
		want := none
		if len(settings) == 1 {
			want = settings[0]
		}
		if c.Setting != want || c.Changes > 1 {
			t.Errorf("settings %v on idle GPUs: %v after %d changes, want %v", settings, c.Setting, c.Changes, want)
		}
	}
}

// What has little to choose from is not chosen by the last few requests.
func TestChoiceNeedsMore(t *testing.T) {
	d := newDrive(Config{}, 1, 1, four(t, 100)...)
	cost := func(costs ...float64) bool {
		for i, s := range d.shadows {
			s.tally = tally{}
			s.tally.all = modelTally{served: 1e6}
			s.tally.all.waited = 1e6 * costs[min(i, len(costs)-1)] / waitWeight
		}
		return d.choose(d.now)
	}
	for _, c := range []struct {
		force, other float64
		want         bool
	}{{0.001, 0.00099, false}, {0.001, 0.0008, false}, {0.001, 0.0007, true}, {0.1, 0.096, false}, {0.1, 0.094, true}, {0.1, 0.2, false}} {
		d.choice = Choice{Setting: d.shadows[0].setting}
		if got := cost(c.force, 1, 1, c.other, 1); got != c.want || got != (d.Choice().Setting == d.shadows[3].setting) {
			t.Errorf("in force %v, another %v: changed %v to %v, want %v", c.force, c.other, got, d.Choice().Setting, c.want)
		}
	}
}

// A removed model leaves no trace; requests of models that are not served never make one.
func TestModelsThatAreNotServed(t *testing.T) {
	d := newDrive(Config{}, 1, 2, line(t, 0.5, 2, 40, 200), line(t, 0.5, 2, 40, 200))
	d.run(5)
	d.RemoveModel(1)
	for range 1000 {
		d.run(0.01)
		d.Arrive(d.now, 1<<31, d.now.Add(mono.Second)) // no room is made for it
	}
	for _, s := range d.shadows {
		all, worst := s.tally.badRates()
		if all > 0.01 || worst > 0.01 || s.tally.models[1] != (modelTally{}) || len(s.tally.models) > 2 {
			t.Fatalf("%v: %.1f %% bad, worst model %.1f %%: %+v", s.setting, 100*all, 100*worst, s.tally.models)
		}
	}
	if len(d.dreams.models) > 2 || len(d.dreams.models[1].gaps) > 0 || d.dreams.next.Has(1) {
		t.Errorf("dreams of %d models, of the removed one %d gaps", len(d.dreams.models), len(d.dreams.models[1].gaps))
	}
	d.RemoveModel(7)
	d.AddModel(1, policy.Model{Profile: d.flows[1].model.Profile, SLO: d.flows[1].model.SLO})
	d.run(3)
	if d.shadows[0].tally.models[1].served < 100 {
		t.Errorf("a model that is back: %+v", d.shadows[0].tally.models[1])
	}
}

// Where full batches alone take most of the GPUs, the whole deferral is in force until the
// shadows have run for a while; where they do not, nothing waits from the beginning on.
func TestDeferralWhileItLearns(t *testing.T) {
	for _, c := range []struct {
		rate float64
		want bool
	}{{2 * 1250, true}, {2 * 500, false}} { // a GPU carries 1,777 requests/s in batches of 64
		d := newDrive(Config{}, 1, 2, line(t, 0.5, 4, 40, c.rate))
		d.run(0.9)
		if got := d.Choice().Setting == (batching.Setting{}); got != c.want {
			t.Errorf("%g requests/s: %v in force at first", c.rate, d.Choice().Setting)
		}
	}
}

// What the worst model loses counts in full up to a tenth, and little beyond: who serves more of all requests is better then.
func TestWorstModelBeyondHelp(t *testing.T) {
	cost := func(bad, worst float64) float64 { // of 100,000 requests, a tenth of which are the worst model's
		s := &shadow{}
		s.tally.models = []modelTally{{served: 1e4 * (1 - worst), bad: 1e4 * worst}}
		s.tally.all = modelTally{served: 1e5 * (1 - bad), bad: 1e5 * bad}
		return s.outlook().Cost
	}
	if even, most := cost(0.22, 0.29), cost(0.17, 0.35); most >= even {
		t.Errorf("17 %% of all lost and 35 of the worst model costs %v, 22 and 29 %v", most, even)
	}
	if even, most := cost(0.01, 0.02), cost(0.008, 0.06); most <= even {
		t.Errorf("0.8 %% of all lost and 6 of the worst model costs %v, 1 and 2 %v", most, even)
	}
}

// Far beyond the peak, where the shadows hear a part of the arrivals, the choice does not wait for as much of them as it
// takes to tell losses of one in a hundred. Five models due within 30 ms: so long their queues can become.
func TestOverloadIsLearntSoon(t *testing.T) {
	long(t)
	var flows []flow
	for _, slo := range []float64{4, 8, 14, 20, 29} {
		flows = append(flows, flow{policy.Model{Profile: policytest.Linear(t, 0.2, 1.5, 16), SLO: mono.FromMillis(slo)}, 5100, 0.3})
	}
	d := newDrive(Config{}, 1, 7, flows...)
	d.run(1)
	if d.Choice().Setting != (batching.Setting{}) {
		t.Fatalf("after 1 s: %v, want the whole deferral", d.Choice())
	}
	d.run(7) // about two of the shadows' own seconds
	if d.mirror.now > d.started.Add(learnSpan) {
		t.Fatal("the shadows have heard too much for this to show anything")
	}
	c := d.Choice()
	if t.Log(c); c.Changes < 2 || c.Deferral.Bad <= learnBad || c.Chosen.Cost >= c.Deferral.Cost {
		t.Errorf("%d changes, %v", c.Changes, c)
	}
}
