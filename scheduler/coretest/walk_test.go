package coretest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// walk is a random run: models, GPUs and a script of events drawn from a seed.
// The script is data, so that a test can play it twice with a change: other
// model ids, another scale of time.
type walk struct {
	seed   uint64
	scale  mono.Dur // all times are multiples of it
	models []walkModel
	paper  bool // the paper's own rules: nothing that is learnt from the past
	gpus   int
	delay  batching.Delay
	events []walkEvent
}

type walkModel struct {
	line   [2]mono.Dur
	table  []mono.Dur
	slo    mono.Dur
	policy batching.Policy
	window batching.Window
	queue  int
}

type walkKind uint8

const (
	walkSubmit walkKind = iota
	walkLose
	walkAdd
	walkRemoveModel
	walkSetDelay
)

type walkEvent struct {
	at    mono.Time
	kind  walkKind
	model int
	gpu   wire.GPUID
	slo   mono.Dur
	delay batching.Delay
}

// draw makes a walk of n events; troubles are GPUs that come and go, models
// that go, delays that change.
func draw(seed uint64, n int, troubles bool) *walk {
	r := rand.New(rand.NewPCG(seed, 77))
	span := func(low, high int64) mono.Dur { return mono.Dur(low + r.Int64N(high-low)) }
	w := &walk{seed: seed, scale: 1, gpus: 1 + r.IntN(6)}
	if r.IntN(2) == 0 {
		w.delay = batching.Delay{Ctrl: span(1, 300_000), Data: span(1, 50_000)}
	}
	load := 0.0 // GPU seconds a second at one request a model and second, batched a little
	for range 1 + r.IntN(5) {
		m := walkModel{line: [2]mono.Dur{span(100_000, 4_000_000), span(1, 15_000_000)}, policy: batching.Policy(r.IntN(2)),

			window: []batching.Window{batching.WindowDeferred, batching.WindowFrontrun, batching.WindowEager, batching.WindowTimeout}[r.IntN(4)], queue: 1 + r.IntN(60)}
		if r.IntN(3) == 0 {
			for l, b := span(1_000_000, 9_000_000), 0; b < 1+r.IntN(30); b++ {
				m.table = append(m.table, l)
				l += span(0, 3_000_000)
			}
		}
		m.slo = m.profile(1).Latency(1)*2 + span(0, 80_000_000)
		load += m.profile(1).Latency(m.profile(1).MaxBatch()).Seconds() / float64(m.profile(1).MaxBatch())
		w.models = append(w.models, m)
	}
	rate := float64(len(w.models)) * float64(w.gpus) / load * (0.2 + 2*r.Float64())
	now := mono.Time(0)
	for range n {
		now = now.Add(mono.FromSeconds(r.ExpFloat64()/rate) + 1)
		w.events = append(w.events, drawEvent(r, w, now, troubles))
	}
	return w
}

func drawEvent(r *rand.Rand, w *walk, now mono.Time, troubles bool) walkEvent {
	e := walkEvent{at: now, model: r.IntN(len(w.models)), gpu: wire.GPUID(r.IntN(w.gpus + 2))}
	e.slo = w.models[e.model].slo
	if r.IntN(4) == 0 { // requests of one model with other deadlines than most
		e.slo = mono.Dur(float64(e.slo) * (0.3 + 2*r.Float64()))
	}
	if !troubles {
		return e
	}
	switch r.IntN(120) {
	case 0, 1:
		e.kind = walkLose
	case 2, 3, 4:
		e.kind = walkAdd
	case 5:
		e.kind = walkRemoveModel
	case 6:
		e.kind, e.delay = walkSetDelay, batching.Delay{Ctrl: mono.Dur(r.Int64N(400_000)), Data: mono.Dur(r.Int64N(40_000))}
	}
	return e
}

func (m *walkModel) profile(scale mono.Dur) *profile.Profile {
	var p *profile.Profile
	var err error
	if m.table != nil {
		table := make([]mono.Dur, len(m.table))
		for i, l := range m.table {
			table[i] = l * scale
		}
		p, err = profile.Table(table)
	} else {
		p, err = profile.Linear(m.line[0]*scale, m.line[1]*scale, 24)
	}
	if err != nil {
		panic(err)
	}
	return p
}

// ledger is what a run of a walk left behind, and the checks on the way.
type ledger struct {
	t       *testing.T
	w       *walk
	c       *Cluster
	exact   bool
	delay   batching.Delay // in force
	answers map[wire.RequestID]int
	runs    []Run
	ends    map[wire.GPUID]mono.Time
	served  int
	reasons map[wire.Reason]int
}

// failf reports with the seed.
func (l *ledger) failf(format string, args ...any) {
	l.t.Helper()
	l.t.Fatalf("seed %d: %s", l.w.seed, fmt.Sprintf(format, args...))
}

// play runs the walk. ids maps the walk's models to model ids; length says how
// long runs really take, nil: as planned.
func (w *walk) play(t *testing.T, ids []int, length func(Run) mono.Dur) *ledger {
	t.Helper()
	l := &ledger{t: t, w: w, exact: length == nil, answers: map[wire.RequestID]int{}, ends: map[wire.GPUID]mono.Time{}, reasons: map[wire.Reason]int{}}
	c := newBy(rank.Config{ByLatest: w.paper}, w.gpus, shard.Config{RequestsMax: 100, BatchesMax: 20})
	c.Models, c.Length, l.c = len(w.models), length, c
	c.Obs = Observer{Dispatch: l.dispatched, Complete: l.completed, Drop: l.dropped}
	add := func(i int) {
		m := w.models[i]
		if w.paper {
			m.policy = batching.PolicyHead
			if m.window == batching.WindowDeferred {
				m.window = batching.WindowFrontrun
			}
		}
		c.Shard.AddModel(wire.ModelID(ids[i]), shard.ModelConfig{Config: batching.Config{Profile: m.profile(w.scale), SLO: m.slo * w.scale,
			Policy: m.policy, Window: m.window, Timeout: m.slo / 8 * w.scale, QueueMax: m.queue}})
	}
	for i := range w.models {
		add(i)
	}
	l.setDelay(w.delay)
	c.setGPUs()
	for i := range w.events {
		e := &w.events[i]
		now := e.at * mono.Time(w.scale)
		c.AdvanceTo(now)
		switch e.kind {
		case walkSubmit:
			c.Submit(wire.ModelID(ids[e.model]), batching.Request{ID: wire.RequestID(i), Arrival: now, Deadline: now.Add(e.slo * w.scale)})
		case walkLose:
			if int(e.gpu) < len(c.gpus) {
				delete(l.ends, e.gpu)
				c.LoseGPU(e.gpu)
			}
		case walkAdd:
			if !c.Alive(e.gpu) {
				c.AddGPU(e.gpu)
			}
		case walkRemoveModel:
			c.Shard.RemoveModel(wire.ModelID(ids[e.model]), wire.ReasonUnavailable, &c.out)
			c.apply()
			add(e.model)
		case walkSetDelay:
			l.setDelay(e.delay)
		}
		c.Settle()
		if next := c.NextEvent(); next <= now {
			l.failf("event %d: after all is settled at %v something is due at %v", i, now, next)
		}
	}
	c.Advance(c.Now.Add(mono.Dur(w.scale) * 10 * mono.Second))
	l.close()
	return l
}

func (l *ledger) setDelay(d batching.Delay) {
	l.delay = batching.Delay{Ctrl: d.Ctrl * l.w.scale, Data: d.Data * l.w.scale}
	l.c.Shard.SetDelay(l.c.Now, l.delay, &l.c.out)
}

// close: each request has exactly one answer and holds nothing.
func (l *ledger) close() {
	l.t.Helper()
	for i, e := range l.w.events {
		if n := l.answers[wire.RequestID(i)]; e.kind == walkSubmit && n != 1 {
			l.failf("request %d has %d answers, want 1", i, n)
		}
	}
	if n := l.c.Shard.Used(); n != 0 {
		l.failf("%d slots are held after all requests are answered", n)
	}
	if next := l.c.NextEvent(); next != mono.Never {
		l.failf("nothing is left to do, but something is due at %v", next)
	}
}

func (l *ledger) answer(id wire.RequestID) {
	if l.answers[id]++; l.answers[id] > 1 {
		l.failf("request %d is answered twice", id)
	}
}

func (l *ledger) dropped(_ mono.Time, d batching.Drop) {
	l.answer(d.Request.ID)
	l.reasons[d.Reason]++
}

func (l *ledger) completed(r Run) {
	l.ends[r.GPU] = r.End
	for _, q := range r.Requests {
		l.answer(q.ID)
		l.served++
		if l.exact && r.End > q.Deadline {
			l.failf("request %d ends at %v, after its deadline %v", q.ID, r.End, q.Deadline)
		}
	}
}

// dispatched: the plan keeps every deadline, the order is sent early enough,
// and the GPU is free at the planned start.
func (l *ledger) dispatched(now mono.Time, r Run) {
	l.runs = append(l.runs, r)
	for _, q := range r.Requests {
		if r.Until > q.Deadline {
			l.failf("batch of %d planned to end at %v, after deadline %v", len(r.Requests), r.Until, q.Deadline)
		}
	}
	if r.Exec < now.Add(l.delay.Of(len(r.Requests))) {
		l.failf("at %v a batch of %d is planned to start at %v: the order takes %v", now, len(r.Requests), r.Exec, l.delay.Of(len(r.Requests)))
	}
	if l.exact && r.Start != r.Exec {
		l.failf("GPU %d: a batch planned for %v can only start at %v: two batches at a time", r.GPU, r.Exec, r.Start)
	}
}
