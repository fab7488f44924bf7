package engine

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/paged"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// stage is a paged engine whose loops are turned by hand, under a virtual clock, with devices that do at once what they are
// ordered: a load takes 8 ms, a batch l(b), and each device does one of either after the other.
type stage struct {
	t       *testing.T
	e       *Engine
	now     mono.Time
	loading []mono.Time // GPU -> when it has done all loads
	running []mono.Time // GPU -> when it has done all batches
	ready   map[stageWeights]mono.Time
	reports []stageReport // in the order of time
	served  int
	dropped int
	loads   int
}

type stageWeights struct {
	gpu   wire.GPUID
	model wire.ModelID
}

// stageReport is what a device says at an instant.
type stageReport struct {
	at   mono.Time
	load *LoadReport
	done Done
}

const stageLoad = 8 * mono.Millisecond

var stageProfile = must(profile.Linear(mono.Millisecond, 2*mono.Millisecond, 16))

func must(p *profile.Profile, err error) *profile.Profile {
	if err != nil {
		panic(err)
	}
	return p
}

// newStage has models of 7 pages, on GPUs with room for so many; held: they are there from the beginning.
func newStage(t *testing.T, models, gpus, room int, slo mono.Dur, headroom rank.Headroom, held bool) *stage {
	t.Helper()
	s := &stage{t: t, now: mono.Now(), loading: make([]mono.Time, gpus), running: make([]mono.Time, gpus), ready: map[stageWeights]mono.Time{}}
	e, err := New(Config{ModelLoops: 2, GPUsMax: 8, RequestsMax: 1024, Headroom: headroom, Paged: &paged.Config{}}, s)
	if err != nil {
		t.Fatal(err)
	}
	s.e = e
	e.SetDelay(batching.Delay{Ctrl: 200 * mono.Microsecond})
	var has []residency.Weights
	for id := range wire.ModelID(models) {
		if err := e.AddPagedModel(id, batching.Config{Profile: stageProfile, SLO: slo, QueueMax: 64}, residency.Model{Pages: 7, LoadTime: stageLoad}); err != nil {
			t.Fatal(err)
		}
		if held {
			has = append(has, residency.Weights{Model: id, Generation: 1})
		}
	}
	s.turn()
	for id := range wire.GPUID(gpus) {
		for _, w := range has {
			s.ready[stageWeights{id, w.Model}] = s.now
		}
		if _, err := e.AddPagedGPU(id, s.now, 7*room, has); err != nil {
			t.Fatal(err)
		}
		s.turn()
	}
	return s
}

func (s *stage) turn() {
	for worked := true; worked; {
		worked = false
		for _, l := range s.e.loops {
			worked = l.turn(s.now) || worked
		}
		worked = s.e.rank.turn(s.now) || worked
	}
}

// ask submits a request of each model, gap apart.
func (s *stage) ask(models int, slo, gap mono.Dur) {
	for id := range wire.ModelID(models) {
		s.until(s.now.Add(gap))
		q := batching.Request{ID: wire.RequestID(id) + 1, Model: id, Arrival: s.now, Deadline: s.now.Add(slo)}
		if !s.e.Submit(id, &q) {
			s.t.Fatalf("model %d: refused", id)
		}
	}
}

// until lets time pass.
func (s *stage) until(end mono.Time) {
	for {
		s.turn()
		next := min(end, s.e.rank.nextWake())
		for _, l := range s.e.loops {
			next = min(next, l.nextWake())
		}
		if len(s.reports) > 0 {
			next = min(next, s.reports[0].at)
		}
		s.now = max(s.now, next)
		for len(s.reports) > 0 && s.reports[0].at <= s.now {
			r := s.reports[0]
			s.reports = s.reports[1:]
			if r.load != nil {
				s.e.Loaded(*r.load)
			} else {
				s.served += r.done.Ran
				s.e.Done(r.done)
			}
		}
		if s.now >= end {
			s.turn()
			return
		}
	}
}

func (s *stage) report(r stageReport) {
	i := len(s.reports)
	for s.reports = append(s.reports, r); i > 0 && s.reports[i-1].at > r.at; i-- {
		s.reports[i] = s.reports[i-1]
	}
	s.reports[i] = r
}

// Load implements Loader.
func (s *stage) Load(o *LoadOrder) {
	k := stageWeights{o.GPU, o.Model}
	if o.ID == 0 {
		delete(s.ready, k)
		return
	}
	s.loads++
	start := max(s.now, s.loading[o.GPU])
	end := start.Add(stageLoad)
	s.loading[o.GPU], s.ready[k] = end, end
	s.report(stageReport{at: end, load: &LoadReport{residency.Report{ID: o.ID, Start: start, End: end, OK: true}, GPU{o.GPU, o.Life}, o.Model, o.Generation}})
}

// Dispatch implements Sink.
func (s *stage) Dispatch(_ int, d *shard.Dispatch) {
	from, ok := s.ready[stageWeights{d.GPU, d.Model}]
	if !ok {
		s.t.Errorf("a batch of model %d on GPU %d, which has not its weights", d.Model, d.GPU)
	}
	start := max(s.now, s.running[d.GPU], from)
	end := start.Add(stageProfile.Latency(len(d.Requests)))
	if end > d.Requests[0].Deadline {
		s.t.Errorf("a batch of model %d ends %v too late", d.Model, end.Sub(d.Requests[0].Deadline))
	}
	s.running[d.GPU] = end
	s.report(stageReport{at: end, done: Done{Batch: d.Batch, Start: start, End: end, Ran: len(d.Requests)}})
}

// Drop implements Sink.
func (s *stage) Drop(int, *batching.Drop) { s.dropped++ }

// FlushLoads implements Loader, Completed and Flush the rest of Sink.
func (s *stage) FlushLoads()                      {}
func (s *stage) Completed(int, *shard.Run, *Done) {}
func (s *stage) Flush(int)                        {}

// Thirty models with room for ten: asked at once, and one after the other, twice. All are served, and no model is loaded
// more often than it is asked for; with a headroom of 0, too, for pages are short.
func TestMoreModelsAskedThanFit(t *testing.T) {
	const models, room, slo = 30, 10, 500 * mono.Millisecond
	for _, headroom := range []rank.Headroom{{}, {Limited: true}} {
		for _, gap := range []mono.Dur{0, 5 * mono.Millisecond, 20 * mono.Millisecond, 40 * mono.Millisecond} {
			s := newStage(t, models, 1, room, slo, headroom, false)
			for range 2 {
				s.ask(models, slo, gap)
				s.until(s.now.Add(max(0, slo-30*gap)))
			}
			s.until(s.now.Add(slo))
			if s.served != 2*models || s.dropped != 0 || s.loads > 2*models {
				t.Errorf("headroom %v, %v apart: %d served and %d dropped of %d, %d loads", headroom, gap, s.served, s.dropped, 2*models, s.loads)
			}
		}
	}
}

// Eight models that are there, asked at one instant: two GPUs serve them all within 20 ms, which has room for each.
func TestManyModelsAtOneInstant(t *testing.T) {
	const models, slo = 8, 20 * mono.Millisecond
	s := newStage(t, models, 2, 10, slo, rank.Headroom{}, true)
	s.ask(models, slo, 0)
	s.until(s.now.Add(slo))
	if s.served != models || s.loads != 0 {
		t.Errorf("%d served and %d dropped of %d, %d loads", s.served, s.dropped, models, s.loads)
	}
}

// What is said of the deferral is what is in force: none of it, until best effort waits, and all of it with a headroom that is limited.
func TestPatienceIsTold(t *testing.T) {
	const slo = 500 * mono.Millisecond
	for _, headroom := range []rank.Headroom{{}, {Limited: true}} {
		s := newStage(t, 2, 1, 2, slo, headroom, true)
		s.ask(2, slo, 0)
		s.until(s.now.Add(slo))
		if eager := s.e.Stats().Paging.Eager; eager == headroom.Limited {
			t.Errorf("headroom %v: eager %v", headroom, eager)
		}
		for id := range 200 {
			q := batching.Request{ID: wire.RequestID(1000 + id), Arrival: s.now, Deadline: s.now.Add(3600 * mono.Second), Class: wire.ClassBestEffort}
			if !s.e.Submit(0, &q) {
				t.Fatal("best effort is refused")
			}
		}
		s.until(s.now.Add(5 * mono.Millisecond))
		if s.e.Stats().Paging.Eager {
			t.Errorf("headroom %v: eager while best effort waits", headroom)
		}
		s.until(s.now.Add(10 * mono.Second))
		if eager := s.e.Stats().Paging.Eager; eager == headroom.Limited {
			t.Errorf("headroom %v: eager %v once best effort has run", headroom, eager)
		}
	}
}
