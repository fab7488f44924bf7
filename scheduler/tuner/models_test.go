package tuner

import (
	"math"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// small is a tuner of some settings, with models on GPUs that have time to spare.
func small(t *testing.T, models, gpus int, settings ...batching.Setting) *Tuner {
	p, err := profile.Linear(mono.Millisecond, 4*mono.Millisecond, 32)
	if err != nil {
		t.Fatal(err)
	}
	tn := New(Config{Scheduler: policy.Config{RequestsMax: 1 << 12}, Settings: settings, Share: 1})
	for id := range models {
		tn.AddModel(wire.ModelID(id), policy.Model{Profile: p, SLO: 60 * mono.Millisecond})
	}
	tn.SetGPUs(gpus)
	return tn
}

// Where a model goes away between two shadows' replays of the same arrivals, none of them
// fares worse by it; and models that nobody serves are not known.
func TestRemovalBurdensNoShadow(t *testing.T) {
	const pass = 400
	tn := small(t, 2, 8, batching.Setting{}, batching.Setting{Haste: batching.HasteAll, Alone: true})
	now := mono.Time(mono.Second)
	tn.Work(now, 1)
	for i := range pass {
		now = now.Add(mono.Millisecond)
		tn.Arrive(now, wire.ModelID(i%2), now.Add(60*mono.Millisecond))
		tn.Arrive(now, 1<<31, now.Add(60*mono.Millisecond))
	}
	if len(tn.next) != pass || len(tn.dreams.models) != 2 {
		t.Fatalf("%d arrivals of %d are of models that are served, %d models are known", len(tn.next), pass, len(tn.dreams.models))
	}
	for tn.shadow == 0 { // dreams go with them
		now = now.Add(mono.Millisecond)
		tn.Work(now, 100)
	}
	tn.RemoveModel(1)
	for now = now.Add(mono.Millisecond); tn.Work(now, pass) > 0; now = now.Add(mono.Millisecond) {
	}
	for _, o := range tn.Outlooks() {
		if o.Bad != 0 {
			t.Errorf("%v", o)
		}
	}
}

// A list of settings may begin with any: the first is in force until another one is better.
func TestFirstSettingMayBeTheWholeDeferral(t *testing.T) {
	early := batching.Setting{Haste: batching.HasteAll, Alone: true, ByLatest: true}
	tn := small(t, 2, 8, batching.Setting{}, early)
	now := mono.Time(mono.Second)
	for i := range 2000 {
		now = now.Add(mono.Millisecond)
		tn.Arrive(now, wire.ModelID(i%2), now.Add(60*mono.Millisecond))
		if i%100 == 0 {
			tn.Work(now, 1<<20)
			tn.Choose(now)
		}
	}
	if c := tn.Choice(); c.Setting != early || c.Changes != 1 {
		t.Errorf("%+v", c)
	}
}

// Models that come after the GPUs share them, too, and those that went do not.
func TestShareFollowsModels(t *testing.T) {
	tn := small(t, 1, 4, batching.Setting{})
	p, err := profile.Linear(mono.Millisecond, mono.Millisecond, 4)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		tn.AddModel(1000, policy.Model{Profile: p, SLO: mono.Second})
		tn.SetGPUs(4)
		tn.RemoveModel(1000)
		tn.RemoveModel(1000)
		tn.RemoveModel(7777)
	}
	tn.SetGPUs(2)
	if n := tn.shadows[0].sched.GPUs(); n != 2 {
		t.Errorf("%d GPUs", n)
	}
}

// What a model waited goes with it: what is left is the others' mean.
func TestRemovalTakesItsWaitsAlong(t *testing.T) {
	var all tally
	serve := func(id wire.ModelID, n int, wait mono.Dur) {
		for range n {
			r := batching.Request{Deadline: mono.Time(100)}
			r.Input.Length = uint32(id)
			all.serve(&r, mono.Time(wait))
		}
	}
	serve(0, 10_000, 80)
	serve(1, 100, 10)
	if all.remove(0); math.Abs(all.wait()-0.1) > 1e-9 {
		t.Errorf("a mean wait of %v, want 0.1", all.wait())
	}
	if all.remove(1); math.Abs(all.wait()) > 1e-9 {
		t.Errorf("a mean wait of %v after the last model", all.wait())
	}
}

// Delays that are measured move all the time, by little: only what matters makes the past
// count less, also when it comes in small steps.
func TestSmallChangesKeepThePast(t *testing.T) {
	us := mono.Microsecond
	for _, c := range []struct {
		what string
		do   func(*Tuner)
		want loadChange
	}{
		{"the same delay", func(tn *Tuner) { tn.SetDelay(batching.Delay{}) }, loadSame},
		{"a small delay", func(tn *Tuner) { tn.SetDelay(batching.Delay{Ctrl: 100 * us, Data: 20 * us}) }, loadSame},
		{"a long one", func(tn *Tuner) { tn.SetDelay(batching.Delay{Ctrl: 700 * us}) }, loadDrifted},
		{"one that is long for large batches", func(tn *Tuner) { tn.SetDelay(batching.Delay{Data: 150 * us}) }, loadDrifted},
		{"one that grows", func(tn *Tuner) {
			for i := range mono.Dur(7) {
				tn.SetDelay(batching.Delay{Ctrl: 100 * us * (i + 1)})
			}
		}, loadDrifted},
	} {
		tn := small(t, 2, 4)
		tn.news = loadSame
		if c.do(tn); tn.news != c.want {
			t.Errorf("%s: %v, want %v", c.what, tn.news, c.want)
		}
	}
}
