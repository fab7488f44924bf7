package sim

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const ms = mono.Millisecond

// loadScript is a scheduler that does what a list says, and dispatches each request alone, at
// once, to the GPU that has the request's model by the last line of the list.
type loadScript struct {
	t       *testing.T
	lines   []order
	home    []wire.GPUID // by model
	ends    map[wire.GPUID]mono.Time
	batches wire.BatchID
	reports []policy.LoadReport
	added   [][]wire.ModelID // what GPUs held as they joined
}

// order is a line of it, at an instant.
type order struct {
	at   mono.Time
	load bool // else unload
	gpu  wire.GPUID
	of   wire.ModelID
}

func (s *loadScript) AddModel(id wire.ModelID, m policy.Model) { s.home = append(s.home, 0) }
func (s *loadScript) AddGPU(mono.Time, wire.GPUID, *policy.Out) {
	s.t.Error("AddGPU of a GPU that has pages")
}
func (s *loadScript) AddGPUWith(_ mono.Time, _ wire.GPUID, held []wire.ModelID, _ *policy.Out) {
	s.added = append(s.added, held)
}
func (s *loadScript) RemoveGPU(mono.Time, wire.GPUID, *policy.Out) {}
func (s *loadScript) Submit(now mono.Time, id wire.ModelID, r batching.Request, out *policy.Out) {
	s.batches++
	gpu := s.home[id]
	exec := max(now, s.ends[gpu])
	s.ends[gpu] = exec.Add(6 * ms)
	out.AddDispatch(policy.Dispatch{Batch: s.batches, Model: id, GPU: gpu, Exec: exec, Until: s.ends[gpu], Requests: []batching.Request{r}})
}
func (s *loadScript) Done(mono.Time, wire.BatchID, mono.Time, *policy.Out) {}
func (s *loadScript) Step(now mono.Time, out *policy.Out) {
	for len(s.lines) > 0 && s.lines[0].at <= now {
		k := s.lines[0]
		s.lines = s.lines[1:]
		if k.load {
			out.Loads = append(out.Loads, policy.Load{ID: policy.LoadID(len(s.lines) + 1), Model: k.of, GPU: k.gpu, Latest: mono.Never})
			s.home[k.of] = k.gpu
		} else {
			out.Unloads = append(out.Unloads, policy.Unload{Model: k.of, GPU: k.gpu})
		}
	}
}
func (s *loadScript) NextWake() mono.Time {
	if len(s.lines) == 0 {
		return mono.Never
	}
	return s.lines[0].at
}
func (s *loadScript) Loaded(_ mono.Time, r policy.LoadReport, _ *policy.Out) {
	s.reports = append(s.reports, r)
}

// at is a line's instant.
func at(millis int64) mono.Time { return mono.Time(millis) * mono.Time(ms) }

// instants is a Source of requests of given models.
type instants []struct {
	at    mono.Time
	model int
}

func (s *instants) Next() (mono.Time, int, bool) {
	if len(*s) == 0 {
		return mono.Never, 0, false
	}
	k := (*s)[0]
	*s = (*s)[1:]
	return k.at, k.model, true
}

// scripted runs three models of 4 pages and 8 ms to load, l(1) = 6 ms, on GPUs of 10 pages.
func scripted(t *testing.T, change func(*Config), requests instants, lines ...order) (*loadScript, *Result, []Execution, error) {
	t.Helper()
	s := &loadScript{t: t, lines: lines, ends: map[wire.GPUID]mono.Time{}}
	cfg := &Config{GPUs: 2, Duration: 100 * ms, Source: &requests, Paging: Paging{Pages: 10}, NewPolicy: func(c policy.Config) policy.Scheduler {
		if c.Pages != 10 {
			t.Errorf("the scheduler is told of %d pages, want 10", c.Pages)
		}
		return s
	}}
	for range 3 {
		cfg.Models = append(cfg.Models, Model{Profile: linear(t, 1, 5), SLO: 40 * ms, Pages: 4, LoadTime: 8 * ms})
	}
	var ran []Execution
	cfg.Observer.Executed = func(e *Execution) { ran = append(ran, *e) }
	if change != nil {
		change(cfg)
	}
	r, err := Run(cfg, nil)
	return s, r, ran, err
}

// Loads of a GPU take turns; a batch waits for its weights; what is not there is cold.
func TestLoads(t *testing.T) {
	s, r, ran, err := scripted(t, nil, instants{{at(4), 0}, {at(30), 0}, {at(31), 1}, {at(32), 2}},
		order{0, true, 0, 0}, order{0, true, 0, 1}, order{at(1), true, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	want := []policy.LoadReport{{ID: 3, Start: 0, End: at(8), OK: true}, {ID: 1, Start: at(1), End: at(9), OK: true}, {ID: 2, Start: at(8), End: at(16), OK: true}}
	if !reflect.DeepEqual(s.reports, want) {
		t.Errorf("reports %v, want %v", s.reports, want)
	}
	if len(ran) != 4 || ran[0].Start != at(8) || ran[0].End != at(14) {
		t.Errorf("batches %+v: the first was to wait for its weights until 8 ms", ran)
	}
	l := r.Loads
	if l.Done != 3 || l.Waited != 1 || l.Refused != 0 || l.Resident != 3 || l.Pages != 12 || !reflect.DeepEqual(l.Copying, []mono.Dur{16 * ms, 8 * ms}) {
		t.Errorf("%+v", l)
	}
	if r.All.Cold != 1 || r.Models[0].Cold != 1 || r.All.Served != 4 {
		t.Errorf("%+v: the request at 4 ms alone is cold", r.All)
	}
}

// GPUs of one host share the link: the second GPU's load begins when the first one's ends.
func TestSharedLink(t *testing.T) {
	s, r, _, err := scripted(t, func(c *Config) { c.Paging.PerLink = 2 }, nil, order{0, true, 0, 0}, order{0, true, 1, 1})
	if err != nil || len(s.reports) != 2 || s.reports[1].Start != at(8) || s.reports[1].End != at(16) {
		t.Errorf("%v, %v", s.reports, err)
	}
	if !reflect.DeepEqual(r.Loads.Copying, []mono.Dur{16 * ms}) {
		t.Errorf("links copied %v", r.Loads.Copying)
	}
}

// What happens before the counted span is in no count, whether loads are done, are refused, or are waited for.
func TestLoadsOfTheWarmup(t *testing.T) {
	for _, warmup := range []mono.Dur{0, 50 * ms} {
		_, r, _, err := scripted(t, func(c *Config) { c.Warmup = warmup }, instants{{at(4), 0}, {at(90), 0}}, order{0, true, 0, 0}, order{0, true, 0, 1},
			order{at(1), true, 0, 2}, order{at(20), false, 0, 1})
		if err != nil {
			t.Fatal(err)
		}
		want := [4]int64{2, 1, 1, 1}
		if warmup > 0 {
			want = [4]int64{}
		}
		if l := r.Loads; [4]int64{l.Done, l.Refused, l.Waited, l.Unloads} != want || l.Resident != 1 {
			t.Errorf("warm-up %v: %+v, want %v done, refused, waited for, unloaded", warmup, l, want)
		}
	}
}

// A load without pages fails; pages of an unload count at once.
func TestPagesAreCounted(t *testing.T) {
	s, r, _, err := scripted(t, nil, instants{{at(90), 0}}, order{0, true, 0, 0}, order{0, true, 0, 1}, order{at(1), true, 0, 2},
		order{at(20), false, 0, 1}, order{at(20), true, 0, 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.reports) != 4 || s.reports[0].OK || s.reports[0].End != at(1) || !s.reports[3].OK {
		t.Errorf("reports %+v: the third load was to fail at 1 ms, and the last not", s.reports)
	}
	if r.Loads.Refused != 1 || r.Loads.Unloads != 1 || r.Loads.Resident != 2 || r.Loads.Pages != 8 {
		t.Errorf("%+v", r.Loads)
	}
}

// What a scheduler must not do ends the run.
func TestBreaches(t *testing.T) {
	for name, k := range map[string]struct {
		requests instants
		lines    []order
	}{
		"which it has not":    {instants{{at(5), 1}}, []order{{0, true, 0, 0}}},
		"1 batches":           {instants{{at(20), 0}}, []order{{0, true, 0, 0}, {at(21), false, 0, 0}}},
		"which it has:":       {nil, []order{{0, true, 0, 0}, {at(21), true, 0, 0}}},
		"to unload model 0, ": {nil, []order{{0, true, 0, 0}, {at(2), false, 0, 0}}},
	} {
		if _, _, _, err := scripted(t, nil, append(k.requests, instants{{at(90), 0}}...), k.lines...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// With its GPU go its weights and its loads; it comes back empty. What it held at the
// beginning the scheduler is told.
func TestMemoryGoesWithItsGPU(t *testing.T) {
	s, r, _, err := scripted(t, func(c *Config) {
		c.Paging.Held = [][]wire.ModelID{{2, 0}}
		c.Events = []GPUEvent{{At: at(14), GPU: 0, Kind: Fail}, {At: at(30), GPU: 0, Kind: Join}}
		c.Detection = 5 * ms
	}, instants{{at(1), 0}, {at(50), 0}, {at(80), 1}}, order{at(2), false, 0, 2}, order{at(10), true, 0, 1}, order{at(40), true, 0, 1}, order{at(40), true, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	if want := [][]wire.ModelID{{2, 0}, nil, nil}; !reflect.DeepEqual(s.added, want) {
		t.Errorf("GPUs joined with %v, want %v", s.added, want)
	}
	if len(s.reports) != 2 || s.reports[0].End != at(48) || s.reports[1].End != at(56) {
		t.Errorf("reports %+v: the load that was cut was reported, or the link was not free", s.reports)
	}
	if r.Loads.Pages != 8 || r.Loads.Resident != 2 || r.Loads.Copying[0] != 4*ms+16*ms || r.All.Cold != 1 {
		t.Errorf("%+v, %d cold", r.Loads, r.All.Cold)
	}
}

func TestPagingRefused(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"too large":  func(c *Config) { c.Models[1].Pages = 11 },
		"no pages":   func(c *Config) { c.Models[1].Pages = 0 },
		"no time":    func(c *Config) { c.Models[1].LoadTime = 0 },
		"held twice": func(c *Config) { c.Paging.Held = [][]wire.ModelID{{1, 1}} },
		"held":       func(c *Config) { c.Paging.Held = [][]wire.ModelID{{0, 1, 2}} },
		"policy":     func(c *Config) { c.NewPolicy = symphony },
	} {
		if _, _, _, err := scripted(t, change, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Errors have the quantiles that they are given.
func TestErrors(t *testing.T) {
	e := LoadLike()
	if err := e.check(); err != nil {
		t.Fatal(err)
	}
	const n = 400_000
	r := rand.New(rand.NewPCG(3, 0))
	below, over := map[mono.Dur]int{}, 0
	marks := []mono.Dur{-338, -40, 0, 40, 240, 1000}
	for range n {
		off := e.length(10*ms, r) - 10*ms
		for _, m := range marks {
			if off < m*mono.Microsecond {
				below[m]++
			}
		}
		if off > 5*ms {
			over++
		}
	}
	for i, want := range []float64{0.01, 0.1, 0.5, 0.9, 0.99, 0.9999} {
		if got := float64(below[marks[i]]) / n; got < want-0.003 || got > want+0.003 {
			t.Errorf("%g of the draws are below %d us, want %g", got, marks[i], want)
		}
	}
	if over > 5 {
		t.Errorf("%d of %d draws are over 5 ms, want one in a million", over, n)
	}
	if d := (Errors{}).length(7, nil); d != 7 {
		t.Errorf("no errors: %v of 7", d)
	}
	if err := ErrorQuantiles([9]mono.Dur{2, 1}).check(); !errors.Is(err, ErrInvalid) {
		t.Errorf("quantiles that fall: %v", err)
	}
}

// Closed-loop clients: each has one request open, and asks again 1 ms after its answer.
func TestClosedLoop(t *testing.T) {
	clients, err := workload.NewClients([]int{1}, ms, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	open := 0
	cfg := &Config{GPUs: 1, Duration: 700 * ms, Source: clients, NewPolicy: symphony,
		Models: []Model{{Profile: linear(t, 1, 5), SLO: 20 * ms}}}
	cfg.Observer.Arrive = func(mono.Time, wire.ModelID) {
		if open++; open > 1 {
			t.Fatal("the client has two requests open")
		}
	}
	cfg.Observer.Executed = func(e *Execution) { open-- }
	cfg.Observer.Drop = func(mono.Time, *batching.Drop) { open-- }
	r, err := Run(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	// A batch of one waits for a second request until 13 ms and takes 6: 20 ms a turn.
	if r.All.Arrived != 700/20 || r.All.Served != r.All.Arrived {
		t.Errorf("%d requests in 700 ms, %d served", r.All.Arrived, r.All.Served)
	}
}
