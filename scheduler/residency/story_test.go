package residency

import (
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// story tells what a Residency does as lines: "load m2 g0 #1 0-8" is a load of model 2 on GPU 0 by
// generation 1, planned from 0 to 8 ms. Models have a load time of 8 ms and requests of 3 ms of work
// unless a test says otherwise.
type story struct {
	t   *testing.T
	r   *Residency
	out Out
	now mono.Time
	ids map[string]LoadID // "m2 g0" -> the last load's
}

func tell(t *testing.T, cfg Config, pages ...int) *story {
	s := &story{t: t, r: New(cfg), ids: map[string]LoadID{}}
	for id, n := range pages {
		s.r.AddModel(wire.ModelID(id), Model{Pages: n, LoadTime: 8 * ms})
	}
	return s
}

// at lets time pass.
func (s *story) at(d mono.Dur) *story { s.now = mono.Time(d); return s }

func (s *story) gpu(id wire.GPUID, pages int, held ...wire.ModelID) *story {
	s.r.AddGPU(s.now, id, pages, held, &s.out)
	return s
}

// arrive has n requests come, which could start until then at the latest.
func (s *story) arrive(id wire.ModelID, n int, latest mono.Dur) *story {
	for range n {
		s.r.Arrive(s.now, id, 3*ms, mono.Time(latest))
	}
	return s
}

// loaded reports a load: it began when the device says, and ends now.
func (s *story) loaded(what string, start mono.Dur, ok bool) *story {
	s.t.Helper()
	if !s.r.Loaded(s.now, Report{ID: s.ids[what], Start: mono.Time(start), End: s.now, OK: ok}, &s.out) {
		s.t.Errorf("at %v: the load of %s is not known", s.now, what)
	}
	return s
}

// step calls Step; the effects since the last one are then what is wanted, one a line.
func (s *story) step(want ...string) *story {
	s.t.Helper()
	s.r.Step(s.now, &s.out)
	return s.told(want...)
}

// told is step without a Step.
func (s *story) told(want ...string) *story {
	s.t.Helper()
	var got []string
	for _, d := range s.out.Displaces {
		got = append(got, fmt.Sprintf("displace m%d g%d #%d", d.Model, d.GPU, d.Generation))
	}
	for _, u := range s.out.Unloads {
		got = append(got, fmt.Sprintf("unload m%d g%d #%d", u.Model, u.GPU, u.Generation))
	}
	for _, l := range s.out.Loads {
		got = append(got, fmt.Sprintf("load m%d g%d #%d %s-%s", l.Model, l.GPU, l.Generation, l.Start, l.Until))
		s.ids[fmt.Sprintf("m%d g%d", l.Model, l.GPU)] = l.ID
	}
	for _, p := range s.out.Places {
		got = append(got, fmt.Sprintf("place m%d g%d #%d from %s", p.Model, p.GPU, p.Generation, p.From))
	}
	for _, f := range s.out.Floors {
		got = append(got, fmt.Sprintf("floor m%d %s", f.Model, f.Until))
	}
	s.out.Reset()
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		s.t.Errorf("at %v:\n%s\nwant\n%s", s.now, g, w)
	}
	if err := s.r.audit(); err != nil {
		s.t.Errorf("at %v: %v", s.now, err)
	}
	return s
}

// due asks NextWake.
func (s *story) due(want mono.Time) *story {
	s.t.Helper()
	if got := s.r.NextWake(); got != want {
		s.t.Errorf("at %v: due at %v, want %v", s.now, got, want)
	}
	return s
}

// dueNow: Step has something to do at once.
func (s *story) dueNow() *story {
	s.t.Helper()
	if got := s.r.NextWake(); got > s.now {
		s.t.Errorf("at %v: due at %v, want at once", s.now, got)
	}
	return s
}

func (s *story) began(id wire.ModelID, gpu wire.GPUID, n int, want Generation) *story {
	s.t.Helper()
	if gen := s.r.Began(s.now, id, gpu, n); gen != want {
		s.t.Errorf("at %v: a batch of m%d on g%d has generation %d, want %d", s.now, id, gpu, gen, want)
	}
	return s
}

// A cold request's walk: it is loaded at once, its model is placed from the planned end, then from the
// real one; a batch takes it, and with no requests nothing is due.
func TestColdWalk(t *testing.T) {
	s := tell(t, Config{}, 7).gpu(0, 20).due(mono.Never)
	s.arrive(0, 1, 97*ms).dueNow() // at once
	s.step("load m0 g0 #2 0ms-8ms", "place m0 g0 #2 from 8ms").due(mono.Never)
	s.at(ms).arrive(0, 2, 98*ms).step()
	s.at(7*ms).loaded("m0 g0", 0, true).step("place m0 g0 #2 from 7ms")
	s.at(20*ms).began(0, 0, 3, 2).step().due(mono.Never)
	if h, ok := s.r.Held(0, 0); !ok || h.Uses != 1 || h.Loading || h.Used != s.now {
		t.Errorf("%+v, %v", h, ok)
	}
	s.at(30*ms).r.Ended(s.now, 0, 0, 2)
	if h, _ := s.r.Held(0, 0); h.Uses != 0 {
		t.Errorf("%+v", h)
	}
	if free, all := s.r.Pages(0); free != 13 || all != 20 {
		t.Errorf("%d pages free of %d", free, all)
	}
	if s.r.LoadTime(0) != 7990*us { // of 8 ms, the seed, and 7 ms
		t.Errorf("load time %v", s.r.LoadTime(0))
	}
}

// A loader has two loads at most, and gets the next when it has less than 5 ms of work.
func TestLoaderBacklog(t *testing.T) {
	s := tell(t, Config{}, 1, 1, 1, 1, 1).gpu(0, 9)
	for id := range wire.ModelID(5) {
		s.arrive(id, 1, 90*ms+mono.Dur(id)*ms)
	}
	s.step("load m0 g0 #2 0ms-8ms", "place m0 g0 #2 from 8ms").due(mono.Time(3*ms) + 1)
	s.at(3 * ms).step().due(mono.Time(3*ms) + 1)
	s.at(3*ms+1).step("load m1 g0 #3 8ms-16ms", "place m1 g0 #3 from 16ms")
	s.at(14 * ms).step() // 2 ms of work, but two are not reported
	s.at(15*ms).loaded("m0 g0", 0, true).step(
		"place m0 g0 #2 from 15ms", "place m1 g0 #3 from 30.168ms") // at 23 ms, or as much later as this one was
	s.due(mono.Time(18*ms) + 1)
	s.at(19*ms).step("load m2 g0 #4 23ms-31ms", "place m2 g0 #4 from 38.168ms")
	// It ends 3 ms earlier than was planned at last: so does what follows.
	s.at(20*ms).loaded("m1 g0", 15*ms, true).step("place m1 g0 #3 from 20ms", "place m2 g0 #4 from 35.168ms")
}

// Requests that no load can save are told of at once, those behind them not.
func TestFloorOfColdRequests(t *testing.T) {
	s := tell(t, Config{}, 7).gpu(0, 20)
	s.arrive(0, 1, 5*ms).arrive(0, 1, 7999*us).step("floor m0 8ms").due(mono.Never) // nobody could be helped: no load
	s.at(ms).arrive(0, 1, 50*ms).step("load m0 g0 #2 1ms-9ms", "place m0 g0 #2 from 9ms")
	s.r.Doomed(s.now, 0, 2)
	// What comes while it is loading, and cannot wait for that, is lost as well; what can, waits.
	s.at(2*ms).arrive(0, 1, 9*ms).step()
	s.arrive(0, 1, 8*ms).step("floor m0 9ms").due(mono.Never)
	s.arrive(0, 1, 8*ms).step() // is told of already
	if _, n := s.r.Demand(0); n != 4 {
		t.Errorf("%d wait", n)
	}
}

// A load that takes longer than planned makes what follows it too late for some.
func TestFloorBehindSlowLoad(t *testing.T) {
	s := tell(t, Config{}, 1, 1).gpu(0, 9).arrive(0, 1, 90*ms).step("load m0 g0 #2 0ms-8ms", "place m0 g0 #2 from 8ms")
	s.at(4*ms).arrive(1, 1, 20*ms).arrive(1, 1, 60*ms).step("load m1 g0 #3 8ms-16ms", "place m1 g0 #3 from 16ms")
	s.at(16*ms).loaded("m0 g0", 0, true).step("place m0 g0 #2 from 16ms", "place m1 g0 #3 from 32.192ms", "floor m1 32.192ms")
}

// A report that comes late: the next load did not begin before it was ordered.
func TestLateReport(t *testing.T) {
	s := tell(t, Config{}, 1, 1).gpu(0, 9).arrive(0, 1, 90*ms).step("load m0 g0 #2 0ms-8ms", "place m0 g0 #2 from 8ms")
	s.at(4*ms).arrive(1, 1, 60*ms).step("load m1 g0 #3 8ms-16ms", "place m1 g0 #3 from 16ms")
	if !s.r.Loaded(mono.Time(6*ms), Report{ID: s.ids["m0 g0"], Start: 0, End: mono.Time(2 * ms), OK: true}, &s.out) {
		t.Error("not known")
	}
	s.at(6*ms).step("place m0 g0 #2 from 2ms", "place m1 g0 #3 from 12ms")
}

// With its loaders busy a cold model's requests are given up when the last useful moment passes,
// not at their deadlines, and not before.
func TestFloorBehindBusyLoader(t *testing.T) {
	s := tell(t, Config{Outstanding: 1}, 1, 1).gpu(0, 9)
	s.arrive(0, 1, 90*ms).step("load m0 g0 #2 0ms-8ms", "place m0 g0 #2 from 8ms")
	s.at(ms).arrive(1, 1, 12*ms).arrive(1, 1, 30*ms).step().due(mono.Time(4*ms) + 1)
	s.at(4 * ms).step()
	// A load begun now would end at 8 + 8 ms.
	s.at(4*ms + 1).step("floor m1 16ms").due(mono.Time(22*ms) + 1)
	s.r.Doomed(s.now, 1, 1)
	s.at(8*ms).loaded("m0 g0", 0, true).step("load m1 g0 #3 8ms-16ms", "place m0 g0 #2 from 8ms", "place m1 g0 #3 from 16ms")
}

// No GPU has the pages: what waits is given up, but not what comes for good.
func TestFloorWithoutPages(t *testing.T) {
	s := tell(t, Config{}, 30).gpu(0, 20).arrive(0, 1, 50*ms).step("floor m0 50.000001ms")
	s.r.Doomed(s.now, 0, 1)
	s.at(60*ms).arrive(0, 1, 99*ms).gpu(1, 40).step("load m0 g1 #2 60ms-68ms", "place m0 g1 #2 from 68ms")
}

// A load that fails gives its pages back, displaces, and is tried again as long as it can help,
// each time planned to take twice as long; a second later as at first.
func TestFailedLoads(t *testing.T) {
	s := tell(t, Config{}, 7).gpu(0, 20).arrive(0, 1, 40*ms)
	s.step("load m0 g0 #2 0ms-8ms", "place m0 g0 #2 from 8ms")
	s.at(ms).loaded("m0 g0", 0, false).step("displace m0 g0 #2", "load m0 g0 #3 1ms-17ms", "place m0 g0 #3 from 17ms")
	s.at(2*ms).loaded("m0 g0", ms, false).step("displace m0 g0 #3", "load m0 g0 #4 2ms-34ms", "place m0 g0 #4 from 34ms")
	s.at(3*ms).loaded("m0 g0", 2*ms, false).step("displace m0 g0 #4", "floor m0 67ms") // 64 ms: too late
	if free, _ := s.r.Pages(0); free != 20 {
		t.Errorf("%d pages free", free)
	}
	s.r.Doomed(s.now, 0, 1)
	s.at(4100*ms).arrive(0, 1, 4150*ms).step("load m0 g0 #5 4100ms-4108ms", "place m0 g0 #5 from 4108ms")
	s.at(4108*ms).loaded("m0 g0", 4100*ms, true).step("place m0 g0 #5 from 4108ms")
	if c := s.r.Counts(); c != (Counts{Loads: 4, Failed: 3, Floors: 1}) {
		t.Errorf("%+v", c)
	}
}

// One load that stood still must not make its model, or all, unloadable for good: who would measure
// that it was one? For ten seconds it counts.
func TestOnePauseIsForgotten(t *testing.T) {
	s := tell(t, Config{}, 7, 7).gpu(0, 7).arrive(0, 1, 97*ms)
	s.step("load m0 g0 #2 0ms-8ms", "place m0 g0 #2 from 8ms")
	s.at(300*ms).loaded("m0 g0", 0, true).step("place m0 g0 #2 from 300ms")
	s.r.Doomed(s.now, 0, 1)
	if s.r.Slack(s.now) != 10*ms { // no order is later and still carried out
		t.Errorf("slack %v", s.r.Slack(s.now))
	}
	s.arrive(1, 1, 397*ms).step("displace m0 g0 #2", "unload m0 g0 #2", "load m1 g0 #3 300ms-308ms", "place m1 g0 #3 from 318ms")
	s.at(308*ms).loaded("m1 g0", 300*ms, true).step("place m1 g0 #3 from 308ms")
	s.began(1, 0, 1, 3).r.Ended(s.now, 1, 0, 3)
	s.arrive(0, 1, 400*ms).step("floor m0 615.08ms") // it takes nearly 300 ms
	s.r.Doomed(s.now, 0, 1)
	s.at(10309*ms).arrive(0, 1, 10400*ms).step("displace m1 g0 #3", "unload m1 g0 #3", "load m0 g0 #4 10309ms-10325ms", "place m0 g0 #4 from 10325ms")
}

// Loads that take long are off by more than Lag: a model's weights are counted on so much later than planned, and a load may begin as
// late as it helps anybody. Whether one can help is reckoned with Lag, and so is all of the paper's rules.
func TestLongLoadsAreLate(t *testing.T) {
	for _, rule := range []Rule{BySaving, ByPriority} {
		s := &story{t: t, r: New(Config{Rule: rule}), ids: map[string]LoadID{}}
		for id := range wire.ModelID(3) {
			s.r.AddModel(id, Model{Pages: 4, LoadTime: 80 * ms})
		}
		s.gpu(0, 12).arrive(0, 1, 900*ms).step("load m0 g0 #2 0ms-80ms", "place m0 g0 #2 from 80ms")
		s.at(120*ms).loaded("m0 g0", 0, true).step("place m0 g0 #2 from 120ms")
		s.began(0, 0, 1, 2)
		if s.r.Slack(s.now) != 10*ms {
			t.Errorf("%v", s.r.Slack(s.now))
		}
		s.arrive(1, 1, 900*ms)
		s.r.Step(s.now, &s.out)
		lag, latest := 10*ms, mono.Time(130*ms)
		if rule == BySaving {
			lag, latest = s.r.errors.Over(1), mono.Time(900*ms-80*ms) // 40 ms and what a histogram adds
		}
		if l, p := s.out.Loads, s.out.Places; len(l) != 1 || len(p) != 1 || l[0].Latest != latest || p[0].From != l[0].Until.Add(lag) {
			t.Errorf("rule %d: %+v, %+v, want latest %v and %v late", rule, l, p, latest, lag)
		}
	}
	// Nobody waits: it may begin as late as it takes.
	s := tell(t, Config{}, 4).gpu(0, 12)
	s.r.AddModel(1, Model{Pages: 4, LoadTime: 80 * ms, Pinned: true})
	s.r.Step(s.now, &s.out)
	if l := s.out.Loads; len(l) != 1 || l[0].Latest != mono.Time(80*ms) {
		t.Errorf("%+v", l)
	}
}
