package fleet

import (
	"math/rand/v2"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Window is a stretch of the day that is simulated request by request, at the full rate, by the
// cores that serve.
type Window struct {
	From    mono.Time // of the counted span
	Epoch   int       // the roll-out that it is of, by its place in Day.Epochs; -1: none
	Subs    []int     // the sub-clusters: all, or those that the stretch touches
	Still   bool      // nothing happens in it: the twin of one in which steps are taken
	Changes []Change
}

// WindowResult is what became of the requests that arrived in the counted span.
type WindowResult struct {
	Arrived, Served, Late, Dropped int64
	Lost                           int64 // answered in no way at all, or refused because their model had moved
	Moved, MovedBad                int64 // that waited when their model moved; of them late or dropped
	Cut                            int64 // batches lost with a GPU that died
	Routes, Drains, Seats, Died    int   // in the counted span
}

// Add sums up.
func (w *WindowResult) Add(o WindowResult) {
	w.Arrived, w.Served, w.Late, w.Dropped, w.Lost = w.Arrived+o.Arrived, w.Served+o.Served, w.Late+o.Late, w.Dropped+o.Dropped, w.Lost+o.Lost
	w.Moved, w.MovedBad, w.Cut = w.Moved+o.Moved, w.MovedBad+o.MovedBad, w.Cut+o.Cut
	w.Routes, w.Drains, w.Seats, w.Died = w.Routes+o.Routes, w.Drains+o.Drains, w.Seats+o.Seats, w.Died+o.Died
}

// BadRate is the share of the requests that were not served in time.
func (w *WindowResult) BadRate() float64 {
	if w.Arrived == 0 {
		return 0
	}
	return float64(w.Arrived-w.Served) / float64(w.Arrived)
}

// Windows are the stretches of the day that the configuration asks for: evenly spread ones of
// all sub-clusters; and for roll-outs, evenly spread too, the sub-clusters that the seconds
// around the first route touch, and those around the first drain or seat; each of these also
// with nothing happening in it, for comparison.
func (d *Day) Windows() (out []Window) {
	all := make([]int, d.cfg.SubClusters)
	for j := range all {
		all[j] = j
	}
	span := d.cfg.Length - d.cfg.Stretch
	for i := range d.cfg.Regular {
		from := mono.Time(d.cfg.Warmup).Add(mono.Dur(float64(span-d.cfg.Warmup) * (float64(i) + 0.5) / float64(d.cfg.Regular)))
		out = append(out, d.window(from, -1, all))
	}
	for _, routes := range [...]bool{true, false} {
		first := d.firsts(routes)
		for _, i := range spread(len(first), d.cfg.RollOuts) {
			c := first[i]
			from := c.At.Add(-d.cfg.Stretch / 4)
			if from < mono.Time(d.cfg.Warmup) || from > mono.Time(span) {
				continue
			}
			w := d.window(from, c.Epoch, nil)
			twin := w
			twin.Still, twin.Changes = true, nil
			out = append(out, w, twin)
		}
	}
	return out
}

// firsts are the first changes of the roll-outs that move models between sub-clusters, or the
// first of those that drain or seat GPUs.
func (d *Day) firsts(routes bool) (out []Change) {
	last := -1
	for _, c := range d.Log {
		if c.Kind == died || c.Epoch == last || (c.Kind == plan.Route) != routes || routes && (c.From < 0 || c.To < 0) {
			continue
		}
		last = c.Epoch
		out = append(out, c)
	}
	return out
}

// spread picks k of n, evenly.
func spread(n, k int) (out []int) {
	for i := range min(n, k) {
		out = append(out, i*n/min(n, k))
	}
	return out
}

// window makes one; with subs nil of those that are touched.
func (d *Day) window(from mono.Time, epoch int, subs []int) Window {
	w := Window{From: from, Epoch: epoch, Subs: subs}
	begin, end := from.Add(-d.cfg.Warmup), from.Add(d.cfg.Stretch)
	touched := make([]bool, d.cfg.SubClusters)
	for _, c := range d.Log {
		if c.At < begin || c.At >= end {
			continue
		}
		w.Changes = append(w.Changes, c)
		for _, j := range [...]int{c.From, c.To} {
			if j >= 0 {
				touched[j] = true
			}
		}
	}
	if subs == nil {
		for j, t := range touched {
			if t {
				w.Subs = append(w.Subs, j)
			}
		}
	}
	return w
}

// Simulate runs a window. It changes nothing of the day, so several may run at a time.
func (d *Day) Simulate(w Window) (WindowResult, error) {
	s, err := d.newScene(w)
	if err != nil {
		return WindowResult{}, err
	}
	s.run()
	return s.result, nil
}

// scene is a window under way.
type scene struct {
	d        *Day
	w        Window
	begin    mono.Time // of the warm-up, on the day's clock; the scene's begins at 0
	now      mono.Time
	from, to mono.Time // the counted span
	stop     mono.Time // arrivals end

	source  *workload.Mix
	streams []int // stream -> number of the model
	heads   []int // number -> model that its requests are for
	arrival mono.Time
	stream  int
	serial  uint64
	routed  []int

	parts   []*part // by sub-cluster; nil: not in the window
	due     pq.Heap // sub-cluster -> when it is due
	changes []Change
	out     policy.Out
	open    int64 // counted requests without an answer
	result  WindowResult
}

// part is a sub-cluster in a scene.
type part struct {
	sched  *deferred.Scheduler
	local  []int // model -> id here, -1: none
	models []int // id -> model
	gpus   []lane
	ids    []int   // GPU -> id here, -1: none
	ends   pq.Heap // id of GPU -> end of its first batch
}

// lane is a GPU's batches, one after the other.
type lane struct {
	runs []batch
	dead bool
}

type batch struct {
	id       wire.BatchID
	end      mono.Time
	requests []batching.Request
}

// movedBit marks requests that waited when their model moved.
const movedBit = 1 << 31

func (d *Day) newScene(w Window) (*scene, error) {
	s := &scene{d: d, w: w, begin: w.From.Add(-d.cfg.Warmup), from: mono.Time(d.cfg.Warmup), to: mono.Time(d.cfg.Warmup + d.cfg.Stretch), changes: w.Changes}
	st, _ := d.stateAt(s.begin)
	s.routed = st.routed
	s.parts = make([]*part, d.cfg.SubClusters)
	for _, j := range w.Subs {
		s.parts[j] = d.newPart(w.Epoch)
	}
	tail := mono.Dur(0)
	numbers := 0
	for _, m := range d.models {
		numbers = max(numbers, m.number+1)
	}
	s.heads = make([]int, numbers)
	for n := range s.heads {
		s.heads[n] = -1
	}
	var streams []workload.Stream
	for k, m := range d.models {
		p := s.part(s.routed[k])
		if p == nil {
			continue
		}
		p.add(d, k)
		if s.heads[m.number] < 0 {
			s.streams = append(s.streams, m.number)
			streams = append(streams, workload.Stream{Process: workload.Poisson, Rate: m.popularity(w.From)})
		}
		s.heads[m.number] = k // the newest
		tail = max(tail, m.base.SLO)
	}
	for i, j := range st.in {
		if p := s.part(j); p != nil {
			p.join(0, i, &s.out)
		}
	}
	s.stop = s.to.Add(tail)
	if len(streams) == 0 {
		s.arrival = mono.Never
		return s, nil
	}
	mix, err := workload.NewMix(streams, rand.New(rand.NewPCG(d.cfg.Seed, uint64(w.From))).Uint64())
	if err != nil {
		return nil, err
	}
	s.source = mix
	s.nextArrival()
	return s, nil
}

func (s *scene) part(j int) *part {
	if j < 0 {
		return nil
	}
	return s.parts[j]
}

func (d *Day) newPart(epoch int) *part {
	p := &part{sched: deferred.New(policy.Config{RequestsMax: 1 << 17, Frontends: 1, Seed: d.cfg.Seed}, deferred.Options{Policy: batching.PolicyTarget, Window: batching.WindowDeferred})}
	p.local, p.ids = make([]int, len(d.models)), make([]int, len(d.gpus))
	for i := range p.local {
		p.local[i] = -1
	}
	for i := range p.ids {
		p.ids[i] = -1
	}
	return p
}

// add begins to serve a model.
func (p *part) add(d *Day, k int) {
	if p.local[k] < 0 {
		p.local[k] = len(p.models)
		p.models = append(p.models, k)
	}
	m := d.models[k]
	p.sched.AddModel(wire.ModelID(p.local[k]), policy.Model{Profile: m.base.Profile, SLO: m.base.SLO, Rate: m.rate})
}

// join seats a GPU: under an id of its own, each time.
func (p *part) join(now mono.Time, gpu int, out *policy.Out) {
	p.ids[gpu] = len(p.gpus)
	p.gpus = append(p.gpus, lane{})
	p.sched.AddGPU(now, wire.GPUID(p.ids[gpu]), out)
}
