package residency

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// fails reports that a load was not done, and why; free: the pages that the device has, as it says.
func (s *story) fails(what string, why wire.Reason, free int) *story {
	s.t.Helper()
	if !s.r.Loaded(s.now, Report{ID: s.ids[what], Start: s.now, End: s.now, Reason: why, Tells: true, Free: free}, &s.out) {
		s.t.Errorf("at %v: the load of %s is not known", s.now, what)
	}
	return s
}

// has reports that a load was done.
func (s *story) has(what string, free int) *story {
	s.t.Helper()
	if !s.r.Loaded(s.now, Report{ID: s.ids[what], Start: s.now.Add(-8 * ms), End: s.now, OK: true, Tells: true, Free: free}, &s.out) {
		s.t.Errorf("at %v: the load of %s is not known", s.now, what)
	}
	return s
}

// A load that its device had no room or no time for says nothing of the model: the next one is planned as long as before,
// and comes when the device has been left alone for a moment. One that the device failed at is planned twice as long.
func TestFailuresOfTheDevice(t *testing.T) {
	for _, why := range []wire.Reason{wire.ReasonLate, wire.ReasonMemory, wire.ReasonCold, wire.ReasonFull} {
		s := tell(t, Config{}, 4).gpu(0, 10)
		s.at(0).arrive(0, 1, 80*ms)
		s.step("load m0 g0 #2 0ms-8ms", "place m0 g0 #2 from 8ms")
		s.at(2*ms).fails("m0 g0", why, 10).step("displace m0 g0 #2")
		s.due(mono.Time(12 * ms))
		s.at(12*ms).step("load m0 g0 #3 12ms-20ms", "place m0 g0 #3 from 20ms")
	}
	for _, why := range []wire.Reason{wire.ReasonNone, wire.ReasonExecution, wire.ReasonUnknownModel} {
		s := tell(t, Config{}, 4).gpu(0, 10)
		s.at(0).arrive(0, 1, 80*ms)
		s.step("load m0 g0 #2 0ms-8ms", "place m0 g0 #2 from 8ms")
		s.at(2*ms).fails("m0 g0", why, 10).step("displace m0 g0 #2", "load m0 g0 #3 2ms-18ms", "place m0 g0 #3 from 18ms")
	}
}

// Engines' loads have numbers of their own, also those of an engine that follows another one.
func TestNumbersOfLoads(t *testing.T) {
	seen := map[LoadID]bool{}
	for _, cfg := range []Config{{}, {Index: 1}, {Index: 255}, {Serial: 1 << 20}, {Index: 7, Serial: 1<<serialBits - 1}} {
		s := tell(t, cfg, 4, 4).gpu(0, 10).gpu(1, 10)
		for id := range wire.ModelID(2) {
			s.arrive(id, 1, 80*ms)
			s.r.Step(s.now, &s.out)
		}
		for _, l := range s.out.Loads {
			if seen[l.ID] || l.ID == 0 {
				t.Errorf("%+v: load %d is there twice", cfg, l.ID)
			}
			seen[l.ID] = true
			if m, g, gen, ok := s.r.Underway(l.ID); !ok || m != l.Model || g != l.GPU || gen != l.Generation {
				t.Errorf("load %d is that of model %d on GPU %d of generation %d (%v), want %+v", l.ID, m, g, gen, ok, l)
			}
		}
	}
	if len(seen) != 10 {
		t.Errorf("%d loads, want 10", len(seen))
	}
	if _, _, _, ok := New(Config{}).Underway(1 << gpuBits); ok {
		t.Error("a load is under way where there is no GPU")
	}
}

// A device that holds what nobody told of: a load that it refuses for that is not ordered again into the same pages, others
// make room; it is ordered to forget what has no name; and when it says that it has them again, they count again.
func TestPagesThatAreMissing(t *testing.T) {
	s := tell(t, Config{}, 4, 4, 4).gpu(0, 10, 0)
	s.step("place m0 g0 #1 from 0ms")
	s.at(0).arrive(1, 1, 200*ms)
	s.step("load m1 g0 #2 0ms-8ms", "place m1 g0 #2 from 8ms") // 4 of the 6 that are free
	s.at(1*ms).fails("m1 g0", wire.ReasonMemory, 3).step("displace m1 g0 #2", "unload m4294967295 g0 #0")
	if n := s.r.Missed(0); n != 3 {
		t.Fatalf("%d pages are missing, want 3", n)
	}
	s.at(11*ms).step("displace m0 g0 #1", "unload m0 g0 #1", "load m1 g0 #3 11ms-19ms", "place m1 g0 #3 from 19ms")
	s.at(19*ms).has("m1 g0", 6).step("place m1 g0 #3 from 19ms") // it forgot them
	if n := s.r.Missed(0); n != 0 {
		t.Fatalf("%d pages are missing, want none", n)
	}
}

// One report alone proves nothing, for others may have crossed it; and what is missing is forgotten after a while, lest
// a device that no load fits into is never asked again.
func TestPagesAreMissingTwice(t *testing.T) {
	s := tell(t, Config{}, 4, 4, 4).gpu(0, 14)
	for id, want := range []int{0, 2, 2} {
		s.at(mono.Dur(20*id)*ms).arrive(wire.ModelID(id), 1, 200*ms)
		s.r.Step(s.now, &s.out)
		l := s.out.Loads[0]
		s.out.Reset()
		s.now = s.now.Add(8 * ms)
		s.r.Loaded(s.now, Report{ID: l.ID, Start: l.Start, End: s.now, OK: true, Tells: true, Free: 14 - 4*(id+1) - 2}, &s.out)
		s.out.Reset()
		if n := s.r.Missed(0); n != want {
			t.Fatalf("%d pages are missing after %d reports, want %d", n, id+1, want)
		}
	}
	s.r.AddModel(3, Model{Pages: 14, LoadTime: 8 * ms})
	s.at(100*ms).arrive(3, 1, 5000*ms)
	s.r.Step(s.now, &s.out)
	if len(s.out.Loads) > 0 {
		t.Fatalf("%+v where two pages are missing", s.out.Loads)
	}
	s.now = s.now.Add(2 * healing)
	s.arrive(3, 1, 5000*ms)
	s.r.Step(s.now, &s.out)
	if len(s.out.Loads) != 1 {
		t.Fatal("a device is never asked again")
	}
}
