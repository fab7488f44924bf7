package standby_test

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport/mono"
)

// calmWorld is a cluster that has come up, and in which nothing goes wrong by itself.
func calmWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := newWorld(seed, plantNone)
	w.startAll()
	w.run(mono.Time(1500 * mono.Millisecond))
	w.check.calm = true
	w.stays(100 * mono.Millisecond)
	w.must(t)
	return w
}

// scenes is how many clusters a scene is played with.
func scenes() uint64 {
	if invariants.Enabled {
		return 5
	}
	return 20
}

func (w *world) must(t *testing.T) {
	t.Helper()
	if w.broken != "" {
		t.Fatal(w.broken)
	}
}

func (w *world) leader() *schedulerNode {
	for _, s := range w.schedulers {
		if s.p.alive && s.core.Role() == standby.Leader {
			return s
		}
	}
	return nil
}

// settles is how long it takes until all follow another leader than before.
func (w *world) settles(t *testing.T, before *schedulerNode, most mono.Dur) mono.Dur {
	t.Helper()
	for began := w.now; ; {
		if now := w.leader(); now != nil && now != before && w.check.settled() == "" {
			return w.now.Sub(began)
		}
		if w.run(w.now.Add(100 * mono.Microsecond)); w.now.Sub(began) > most {
			t.Fatalf("seed %d: after %v: %s", w.seed, most, w.check.settled())
		}
		w.must(t)
	}
}

// Nobody takes over from a leader that is there, busy or idle, although timers and messages are late now and then.
func TestNobodyTakesOverInACalmGroup(t *testing.T) {
	for seed := range scenes() {
		w := calmWorld(t, seed)
		w.stays(2 * mono.Second)
		w.finish()
		w.must(t)
	}
}

// A leader that is killed is followed within milliseconds, and no request is lost.
func TestAKilledLeaderIsFollowedWithinMilliseconds(t *testing.T) {
	longest, sum, kills := mono.Dur(0), mono.Dur(0), 0
	for seed := range scenes() {
		w := calmWorld(t, seed)
		for range 5 {
			before := w.leader()
			before.p.kill(false)
			took := w.settles(t, before, 20*mono.Millisecond)
			longest, sum, kills = max(longest, took), sum+took, kills+1
			w.run(w.now.Add(100 * mono.Millisecond))
			before.p.start()
			w.run(w.now.Add(mono.Second))
		}
		w.finish()
		w.must(t)
	}
	t.Logf("%d kills: %v on average, %v at most", kills, sum/mono.Dur(kills), longest)
}

// One whose host dies, or that stands still, is known by its silence alone.
func TestASilentLeaderIsFollowed(t *testing.T) {
	for seed := range scenes() {
		w := calmWorld(t, seed)
		before := w.leader()
		w.check.calm = false // idle, it may be missed for longer than a request has
		before.p.pause(700 * mono.Millisecond)
		for began := w.now; ; w.run(w.now.Add(mono.Millisecond)) {
			if others := w.leads(before); others != nil {
				break
			}
			if w.must(t); w.now.Sub(began) > 200*mono.Millisecond {
				t.Fatalf("seed %d: nobody leads", seed)
			}
		}
		w.run(w.now.Add(1500 * mono.Millisecond))
		if before.core.Role() != standby.Spare {
			t.Errorf("seed %d: the one that stood still is a %v", seed, before.core.Role())
		}
		w.check.calm = true
		w.stays(100 * mono.Millisecond)
		w.finish()
		w.must(t)
	}
}

// leads is a scheduler that does, other than one.
func (w *world) leads(but *schedulerNode) *schedulerNode {
	for _, s := range w.schedulers {
		if s != but && s.p.alive && s.core.Role() == standby.Leader {
			return s
		}
	}
	return nil
}

// A planned switch loses nothing: what is queued at backends is run, what waits is sent again.
func TestAPlannedSwitchLosesNothing(t *testing.T) {
	longest := mono.Dur(0)
	for seed := range scenes() {
		w := calmWorld(t, seed)
		for i := range 6 {
			before := w.leader()
			if i%2 == 0 {
				if err := before.core.StepDown(before.p.clock(), &before.out); err != nil {
					t.Fatal(err)
				}
				before.carryOut()
				before.p.arm()
			} else {
				next := w.schedulers[(before.index+1)%len(w.schedulers)]
				if err := next.core.Promote(next.p.clock(), &next.out); err != nil {
					t.Fatal(err)
				}
				next.carryOut()
				next.p.arm()
			}
			longest = max(longest, w.settles(t, before, 20*mono.Millisecond))
			w.run(w.now.Add(200 * mono.Millisecond))
		}
		w.finish()
		if w.must(t); w.check.tally.beside > 0 {
			t.Errorf("seed %d: %d requests ran again while they ran", seed, w.check.tally.beside)
		}
	}
	t.Logf("at most %v until all follow", longest)
}
