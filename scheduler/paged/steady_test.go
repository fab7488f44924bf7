package paged

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/devices"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// steady drives a matchmaker with models that batch, on GPUs and loaders that keep to the plan.
type steady struct {
	p       *Paged
	r       *rand.Rand
	now     mono.Time
	gap     mono.Dur
	models  []*batching.Model
	profile *profile.Profile
	ends    pq.Heap // GPU -> end of its first batch
	runs    [][]devices.Answer
	loads   []residency.Load
	out     Out
	slots   []uint32
	drops   []batching.Dropped
	batch   wire.BatchID
	calls   int
	served  int
	loaded  int
}

const (
	steadySLO   = 100 * ms
	steadyPages = 7 // of a ResNet50
)

// newSteady has so many models on GPUs with room for some of them, at a load.
func newSteady(t testing.TB, models, gpus, room, copies int, load float64, eager bool) *steady {
	l, err := profile.Linear(ms, 2*ms, 16)
	if err != nil {
		t.Fatal(err)
	}
	s := &steady{p: New(Config{Eager: eager, Residency: residency.Config{Copies: copies}}), r: rand.New(rand.NewPCG(1, 2)), profile: l,
		gap: mono.Dur(float64(l.Latency(16)) / 16 / float64(gpus) / load), runs: make([][]devices.Answer, gpus)}
	for id := range models {
		s.models = append(s.models, batching.NewModel(batching.Config{Profile: l, SLO: steadySLO, QueueMax: 1 << 10, Share: batching.ShareOf(gpus, models), Delay: batching.Delay{Ctrl: ms / 10}}))
		s.p.AddModel(wire.ModelID(id), residency.Model{Pages: steadyPages, LoadTime: 8 * ms})
	}
	for gpu := range gpus {
		var held []wire.ModelID
		for id := range models {
			if (id+gpu)%gpus < copies && len(held) < room {
				held = append(held, wire.ModelID(id))
			}
		}
		s.p.AddGPU(0, wire.GPUID(gpu), 0, room*steadyPages, held, &s.out)
	}
	s.carry()
	return s
}

// request is one more request, and all that is due until then.
func (s *steady) request() {
	next := s.now.Add(mono.Dur(s.r.ExpFloat64()*float64(s.gap)) + 1)
	for {
		at, what := next, -1
		if s.ends.Len() > 0 {
			if id, end := s.ends.Min(); mono.Time(end) < at {
				at, what = mono.Time(end), int(id)
			}
		}
		wake := s.p.NextWake()
		for id, m := range s.models { // few: a heap would be the shard's
			if m.NextWake() < min(at, wake) {
				at, what = m.NextWake(), -2-id
			}
		}
		if len(s.loads) > 0 && s.loads[0].Until < min(at, wake) {
			s.now = max(s.now, s.loads[0].Until)
			s.report()
			continue
		}
		if wake < at {
			s.now = max(s.now, wake)
			s.step()
			continue
		}
		s.now = max(s.now, at)
		switch {
		case what >= 0:
			s.end(what)
		case what < -1:
			s.update(wire.ModelID(-2 - what))
		default:
			s.arrive()
			return
		}
	}
}

func (s *steady) arrive() {
	id := wire.ModelID(s.r.IntN(len(s.models)))
	d := s.now.Add(steadySLO)
	if s.models[id].Push(s.now, d, 0, 0) {
		s.calls++
		s.p.Arrive(s.now, id, s.profile.Latency(1), d.Add(-s.profile.Latency(1)))
		s.update(id)
	}
}

// update forms the model's candidate and tells it.
func (s *steady) update(id wire.ModelID) {
	m := s.models[id]
	s.drops = m.Update(s.now, s.drops[:0])
	if len(s.drops) > 0 {
		s.calls++
		s.p.Doomed(s.now, id, len(s.drops))
	}
	s.calls++
	s.p.SetCandidate(s.now, id, m.Candidate())
}

func (s *steady) step() {
	s.calls++
	s.p.Step(s.now, &s.out)
	s.carry()
}

// carry carries out what the matchmaker orders.
func (s *steady) carry() {
	for len(s.out.Floors) > 0 {
		f := s.out.Floors[0]
		s.out.Floors = append(s.out.Floors[:0], s.out.Floors[1:]...)
		s.models[f.Model].SetFloor(f.Until)
		s.update(f.Model)
	}
	for _, l := range s.out.Loads {
		i := len(s.loads)
		for s.loads = append(s.loads, l); i > 0 && s.loads[i-1].Until > l.Until; i-- {
			s.loads[i] = s.loads[i-1]
		}
		s.loads[i] = l
	}
	for i := range s.out.Grants {
		s.answer(&s.out.Grants[i])
	}
	s.out.Reset()
}

func (s *steady) answer(g *devices.Grant) {
	m := s.models[g.Model]
	var start mono.Time
	s.slots, s.drops, start = m.Take(s.now, g.Offer, s.slots[:0], s.drops[:0])
	if len(s.drops) > 0 {
		s.calls++
		s.p.Doomed(s.now, g.Model, len(s.drops))
	}
	a, n := devices.Answer{Grant: *g}, len(s.slots)
	if n > 0 {
		s.batch++
		a.Batch, a.Exec, a.Until, a.Forgone, a.Need = s.batch, start, start.Add(s.profile.Latency(n)), m.Forgone(), m.Need()
		s.runs[g.GPU] = append(s.runs[g.GPU], a)
		s.ends.Set(uint32(g.GPU), int64(s.runs[g.GPU][0].Until))
		s.served += n
	}
	s.calls++
	s.p.Answer(s.now, a, n)
	s.update(g.Model)
}

func (s *steady) end(gpu int) {
	a := s.runs[gpu][0]
	s.runs[gpu] = append(s.runs[gpu][:0], s.runs[gpu][1:]...)
	if s.ends.Remove(uint32(gpu)); len(s.runs[gpu]) > 0 {
		s.ends.Set(uint32(gpu), int64(s.runs[gpu][0].Until))
	}
	s.calls++
	s.p.Done(s.now, a.Grant.GPU, a.Grant.Life, a.Batch, s.now)
}

func (s *steady) report() {
	l := s.loads[0]
	s.loads = append(s.loads[:0], s.loads[1:]...)
	s.calls++
	s.loaded++
	s.p.Loaded(s.now, residency.Report{ID: l.ID, Start: l.Start, End: l.Until, OK: true}, &s.out)
	s.carry()
}

// Nothing is allocated per request: with everything resident, in overload, and with models that come and go.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, c := range []struct {
		models, room int
		load         float64
		loads, eager bool
	}{{20, 20, 0.8, false, false}, {20, 20, 0.8, false, true}, {20, 20, 1.5, false, true}, {60, 10, 0.8, true, false}, {60, 10, 0.8, true, true}} {
		s := newSteady(t, c.models, 4, c.room, 4, c.load, c.eager)
		for range 100_000 {
			s.request()
		}
		s.served, s.loaded = 0, 0
		n := 1.0
		for turn := 0; turn < 20 && n != 0; turn++ { // in some a queue is longer than it ever was
			n = testing.AllocsPerRun(1, func() {
				for range 20_000 {
					s.request()
				}
			})
		}
		if n != 0 {
			t.Errorf("%+v: %v allocations in 20,000 requests, want none", c, n)
		}
		if s.served < 10_000 || c.loads != (s.loaded > 100) {
			t.Errorf("%+v: %d requests served, %d loads: the measured state is not the steady one", c, s.served, s.loaded)
		}
	}
}

// The cost of a call, with its driver, at 16 copies on 20 GPUs: all resident, in overload, and with loads.
func BenchmarkCall(b *testing.B) {
	for _, c := range []struct {
		models, room int
		load         float64
		eager        bool
	}{{20, 20, 0.8, false}, {20, 20, 0.8, true}, {20, 20, 1.5, false}, {20, 20, 1.5, true}, {150, 20, 0.8, false}, {150, 20, 0.8, true}} {
		b.Run(fmt.Sprintf("%d models, room for %d, load %v, eager %v", c.models, c.room, c.load, c.eager), func(b *testing.B) {
			s := newSteady(b, c.models, 20, c.room, 16, c.load, c.eager)
			for range 50_000 {
				s.request()
			}
			s.calls, s.loaded, s.served = 0, 0, 0
			b.ReportAllocs()
			for b.Loop() {
				s.request()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(s.calls), "ns/call")
			b.ReportMetric(float64(s.calls)/float64(b.N), "calls/op")
			b.ReportMetric(float64(s.loaded)/float64(b.N), "loads/op")
			b.ReportMetric(float64(s.served)/float64(b.N), "served/op")
		})
	}
}
