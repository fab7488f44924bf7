package residency

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// used has models on GPU 0 be used one after the other, a millisecond apart from `from` on.
func (s *story) used(from mono.Dur, ids ...wire.ModelID) *story {
	for i, id := range ids {
		s.at(from + mono.Dur(i)*ms)
		s.r.Ended(s.now, id, 0, s.r.Began(s.now, id, 0, 0))
	}
	return s
}

// Who makes room: models without requests, least recently used first, and no more of them than it takes.
func TestIdleLeastRecentlyUsedMakeRoom(t *testing.T) {
	for _, rule := range []Rule{BySaving, ByPriority, ByPriorityCode} {
		s := tell(t, Config{Rule: rule}, 4, 4, 4, 4, 6).gpu(0, 16, 0, 1, 2, 3).told(
			"place m0 g0 #1 from 0ms", "place m1 g0 #1 from 0ms", "place m2 g0 #1 from 0ms", "place m3 g0 #1 from 0ms")
		s.used(0, 2, 0, 3, 1).arrive(4, 1, 97*ms).step("displace m2 g0 #1", "displace m0 g0 #1", "unload m2 g0 #1", "unload m0 g0 #1",
			"load m4 g0 #2 3ms-11ms", "place m4 g0 #2 from 11ms")
	}
}

// A large model that is reached last makes the small one before it stay.
func TestRoomIsNotMadeForNothing(t *testing.T) {
	s := tell(t, Config{}, 2, 8, 7).gpu(0, 10, 0, 1).step("place m0 g0 #1 from 0ms", "place m1 g0 #1 from 0ms")
	s.arrive(2, 1, 97*ms).step("displace m1 g0 #1", "unload m1 g0 #1", "load m2 g0 #2 0ms-8ms", "place m2 g0 #2 from 8ms")
}

// Nothing leaves that is loading, held for a grant, or in use; once it is not, the load goes out.
func TestWhatIsInUseStays(t *testing.T) {
	s := tell(t, Config{}, 5, 5, 5).gpu(0, 10, 0, 1).step("place m0 g0 #1 from 0ms", "place m1 g0 #1 from 0ms")
	gen := s.r.Hold(0, 0)
	s.began(1, 0, 0, 1).arrive(2, 1, 90*ms).step()
	s.at(ms).step().due(mono.Time(82*ms) + 1) // when it is lost; nothing else can happen by itself
	s.r.Release(s.now, 0, 0, gen+1)           // another generation's
	s.step()
	s.r.Release(s.now, 0, 0, gen)
	s.dueNow().step("displace m0 g0 #1", "unload m0 g0 #1", "load m2 g0 #2 1ms-9ms", "place m2 g0 #2 from 9ms")
	s.at(2*ms).arrive(0, 1, 90*ms).step() // m2 is loading
}

// Where all have requests, one makes room only for a model that is worth more than it would be
// itself, once it is gone. The paper's rule unloads it all the same, and loads it again.
func TestNoThrash(t *testing.T) {
	for _, c := range []struct {
		rule     Rule
		n0, n1   int // requests of the one that is there, and of the other
		swapping bool
	}{{BySaving, 1, 1, false}, {BySaving, 2, 1, false}, {BySaving, 1, 2, true}, {ByPriority, 2, 1, true}, {ByPriorityCode, 2, 1, true}} {
		s := tell(t, Config{Rule: c.rule}, 5, 5).gpu(0, 5, 0).told("place m0 g0 #1 from 0ms").arrive(0, c.n0, 97*ms).arrive(1, c.n1, 97*ms)
		if !c.swapping {
			s.step().due(mono.Time(89*ms) + 1)
			continue
		}
		s.step("displace m0 g0 #1", "unload m0 g0 #1", "load m1 g0 #2 0ms-8ms", "place m1 g0 #2 from 8ms")
	}
}

// Whatever waits, one Step under BySaving loads no model where it unloaded it: on one GPU. (With copies it can:
// a model that left one GPU because others hold it may be worth more once it has left another.)
func TestNothingComesBackAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := New(Config{})
		var out Out
		models := rapid.IntRange(2, 12).Draw(t, "models")
		var held []wire.ModelID
		for id := range wire.ModelID(models) {
			r.AddModel(id, Model{Pages: rapid.IntRange(1, 6).Draw(t, "pages"), LoadTime: mono.Dur(rapid.IntRange(2, 20).Draw(t, "load")) * ms})
			if rapid.IntRange(0, 2).Draw(t, "held") > 0 {
				held = append(held, id)
			}
		}
		r.AddGPU(0, 0, rapid.IntRange(6, 16).Draw(t, "room"), held, &out)
		for id := range wire.ModelID(models) {
			for range rapid.IntRange(0, 8).Draw(t, "requests") {
				r.Arrive(0, id, mono.Dur(rapid.IntRange(1, 90).Draw(t, "work"))*ms, mono.Time(rapid.IntRange(20, 200).Draw(t, "latest"))*mono.Time(ms))
			}
		}
		out.Reset()
		r.Step(0, &out)
		if len(out.Loads) == 0 {
			return
		}
		for _, u := range out.Unloads {
			for _, l := range out.Loads {
				if u.Model == l.Model && u.GPU == l.GPU {
					t.Fatalf("%+v and %+v in one turn", u, l)
				}
			}
		}
	})
}

// Loads gather on low ids while these have pages, load and loader to spare; then they go to higher ones.
func TestLoadsGatherOnLowIDs(t *testing.T) {
	s := tell(t, Config{}, 5, 5, 5, 5).gpu(0, 10).gpu(1, 10).gpu(2, 10)
	s.arrive(0, 1, 97*ms).step("load m0 g0 #2 0ms-8ms", "place m0 g0 #2 from 8ms")
	s.arrive(1, 1, 97*ms).step("load m1 g1 #2 0ms-8ms", "place m1 g1 #2 from 8ms") // g0's loader has work for 8 ms
	s.at(4*ms).arrive(2, 1, 97*ms).step("load m2 g0 #3 8ms-16ms", "place m2 g0 #3 from 16ms")
	s.at(8*ms).loaded("m0 g0", 0, true).loaded("m1 g1", 0, true).step("place m0 g0 #2 from 8ms", "place m1 g1 #2 from 8ms")
	s.at(16*ms).loaded("m2 g0", 8*ms, true).step("place m2 g0 #3 from 16ms")
	for id, gpu := range []wire.GPUID{0, 1, 0} {
		s.r.Ended(s.now, wire.ModelID(id), gpu, s.r.Began(s.now, wire.ModelID(id), gpu, 1))
	}
	// g0 is full of idle models, g1 has free pages.
	s.arrive(3, 1, 97*ms).step("load m3 g1 #3 16ms-24ms", "place m3 g1 #3 from 24ms")
}

// With Packed it is the low id all the same.
func TestPackedLoadsStayOnLowIDs(t *testing.T) {
	s := tell(t, Config{Packed: true}, 5, 5, 5).gpu(0, 10, 0, 1).gpu(1, 10).step("place m0 g0 #1 from 0ms", "place m1 g0 #1 from 0ms")
	s.arrive(2, 1, 97*ms).step("displace m0 g0 #1", "unload m0 g0 #1", "load m2 g0 #2 0ms-8ms", "place m2 g0 #2 from 8ms")
}

// Where no GPU has free pages, that one makes room whose model was used longest ago; where none has time
// for what waits, the one that has the least to do.
func TestWhereRoomIsMade(t *testing.T) {
	s := tell(t, Config{}, 5, 5, 5, 5).gpu(0, 5, 0).at(ms).gpu(1, 5, 1).at(2*ms).gpu(2, 5, 2).told(
		"place m0 g0 #1 from 0ms", "place m1 g1 #1 from 1ms", "place m2 g2 #1 from 2ms").used(5*ms, 0)
	s.arrive(3, 1, 97*ms).step("displace m1 g1 #1", "unload m1 g1 #1", "load m3 g1 #2 5ms-13ms", "place m3 g1 #2 from 13ms")

	s = tell(t, Config{Copies: 1}, 1, 1, 1).gpu(0, 5, 0).gpu(1, 5, 1).told("place m0 g0 #1 from 0ms", "place m1 g1 #1 from 0ms")
	s.arrive(0, 50, 900*ms).arrive(1, 40, 900*ms).arrive(2, 1, 97*ms) // 150 and 120 ms of work
	s.step("load m2 g1 #2 0ms-8ms", "place m2 g1 #2 from 8ms")
}

// A GPU that has time for what waits comes before one that has none, whatever their models' last use.
func TestRoomWhereThereIsTime(t *testing.T) {
	s := tell(t, Config{}, 5, 1, 5, 5).gpu(1, 6, 1, 3).at(ms).gpu(0, 5, 2).told(
		"place m1 g1 #1 from 0ms", "place m3 g1 #1 from 0ms", "place m2 g0 #1 from 1ms").arrive(1, 30, 900*ms) // 90 ms of work
	s.r.Ended(s.now, 1, 1, s.r.Began(s.now, 1, 1, 0))
	s.arrive(0, 4, 97*ms).step("displace m2 g0 #1", "unload m2 g0 #1", "load m0 g0 #2 1ms-9ms", "place m0 g0 #2 from 9ms")
}

// The end of a batch counts as use, too.
func TestEndOfBatchIsUse(t *testing.T) {
	s := tell(t, Config{}, 5, 5, 5).gpu(0, 10, 0, 1).told("place m0 g0 #1 from 0ms", "place m1 g0 #1 from 0ms").began(0, 0, 0, 1).began(1, 0, 0, 1)
	s.r.Ended(s.now, 1, 0, 1)
	s.r.Ended(s.now, 0, 0, 1)
	s.arrive(2, 1, 97*ms).step("displace m1 g0 #1", "unload m1 g0 #1", "load m2 g0 #2 0ms-8ms", "place m2 g0 #2 from 8ms")
}

// A model has Copies holders at most, however much waits for it.
func TestCopies(t *testing.T) {
	s := tell(t, Config{Copies: 2}, 1).gpu(0, 9).gpu(1, 9).gpu(2, 9).arrive(0, 200, 900*ms)
	s.step("load m0 g0 #2 0ms-8ms", "load m0 g1 #2 0ms-8ms", "place m0 g0 #2 from 8ms", "place m0 g1 #2 from 8ms").due(mono.Never)
}

// Among models that are worth the same the load that is due first goes first; those whose load takes
// less go before those that have as much work.
func TestOrderOfLoads(t *testing.T) {
	s := tell(t, Config{}, 1, 1, 1).gpu(0, 9)
	s.r.AddModel(3, Model{Pages: 1, LoadTime: 4 * ms})
	s.arrive(0, 1, 60*ms).arrive(1, 1, 50*ms).arrive(2, 1, 97*ms).arrive(3, 1, 97*ms)
	s.step("load m3 g0 #2 0ms-4ms", "load m1 g0 #3 4ms-12ms", "place m3 g0 #2 from 4ms", "place m1 g0 #3 from 12ms")
	s.at(4*ms).loaded("m3 g0", 0, true).arrive(2, 1, 97*ms).step("place m3 g0 #2 from 4ms")
	s.at(8*ms).step("load m2 g0 #4 12ms-20ms", "place m2 g0 #4 from 20ms") // now twice the work of m0
}

// The paper's program loads models whose demand is met, the paper does not.
func TestReadingsOfThePaper(t *testing.T) {
	for _, rule := range []Rule{ByPriority, ByPriorityCode} {
		s := tell(t, Config{Rule: rule}, 1).gpu(0, 9, 0).gpu(1, 9).step("place m0 g0 #1 from 0ms").arrive(0, 1, 97*ms)
		if rule == ByPriority {
			s.step()
		} else {
			s.step("load m0 g1 #2 0ms-8ms", "place m0 g1 #2 from 8ms")
		}
	}
}

// A further copy of a model that has more work than its holder does goes to a GPU with time for it, and to none that has as much
// work as it can do itself.
func TestNoCopyWhereItWouldWaitAsLong(t *testing.T) {
	for other, copied := range map[mono.Dur]int{90 * ms: 1, 110 * ms: 0} {
		r, out := New(Config{}), Out{}
		for id := range wire.ModelID(2) {
			r.AddModel(id, Model{Pages: 4, LoadTime: 8 * ms})
			r.AddGPU(0, wire.GPUID(id), 10, []wire.ModelID{id}, &out)
		}
		r.Arrive(0, 1, other, mono.Time(500*ms))
		r.Arrive(0, 0, 300*ms, mono.Time(500*ms))
		r.Step(0, &out)
		if len(out.Loads) != copied {
			t.Errorf("%v of work beside: loads %+v, want %d", other, out.Loads, copied)
		}
	}
}

// Tight tells of pages that requests keep, not of those that an idle model gives.
func TestTight(t *testing.T) {
	for _, waits := range []bool{false, true} {
		r, out, now := New(Config{}), Out{}, mono.Time(3*ms)
		for id := range wire.ModelID(2) {
			r.AddModel(id, Model{Pages: 8, LoadTime: 8 * ms})
		}
		r.AddGPU(0, 0, 10, []wire.ModelID{0}, &out)
		if waits {
			r.Arrive(now, 0, 3*ms, mono.Time(90*ms))
		}
		r.Arrive(now, 1, 3*ms, mono.Time(90*ms))
		r.Step(now, &out)
		if tight := r.Tight() == now; tight != waits || len(out.Loads) != map[bool]int{false: 1}[waits] {
			t.Errorf("requests wait %v: tight %v, loads %+v", waits, tight, out.Loads)
		}
	}
}
