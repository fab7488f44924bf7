package devices

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// plain is a GPU as the reference has it: what was planned in order, without a table.
type plain struct {
	life    Life
	present bool
	granted *Grant
	free    mono.Time // before the first of runs
	late    mono.Time // a batch was reported then before the one that it was sent behind
	runs    []plainRun
}

type plainRun struct {
	batch  wire.BatchID
	exec   mono.Time // planned, or when what is before it ends, if that is later
	length mono.Dur
}

// freeAt is when the last of the runs ends.
func (p *plain) freeAt() mono.Time {
	if n := len(p.runs); n > 0 {
		return max(p.late, p.runs[n-1].exec.Add(p.runs[n-1].length))
	}
	return p.free
}

// follow moves the runs behind one that ended late.
func (p *plain) follow() {
	at := p.free
	for i := range p.runs {
		p.runs[i].exec = max(at, p.runs[i].exec)
		at = p.runs[i].exec.Add(p.runs[i].length)
	}
}

// history is a table beside its reference.
type history struct {
	r      *rapid.T
	cfg    Config
	table  Table
	gpus   []plain
	usage  [3]Usage
	needs  [3]float64
	now    mono.Time
	batch  wire.BatchID
	old    []Grant // of lives that ended, or answered
	grants []Grant
}

// Whatever comes, goes, is granted, answered and reported, in whatever order, the table says of each
// GPU what a walk through its batches says.
func TestTableAgainstReference(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		h := &history{r: r, cfg: Config{Outstanding: rapid.IntRange(0, 5).Draw(r, "outstanding")}, gpus: make([]plain, 5)}
		h.table = New(h.cfg)
		for range rapid.IntRange(1, 60).Draw(r, "events") {
			h.now = h.now.Add(mono.Dur(rapid.IntRange(0, 9).Draw(r, "passes")))
			h.event(wire.GPUID(rapid.IntRange(0, len(h.gpus)-1).Draw(r, "gpu")))
			h.check()
		}
	})
}

func (h *history) event(id wire.GPUID) {
	p := &h.gpus[id]
	switch rapid.IntRange(0, 9).Draw(h.r, "event") {
	case 0:
		h.forget(p)
		h.table.Remove(id)
	case 1, 2:
		h.forget(p)
		*p = plain{life: p.life + 1, present: true, free: h.now.Add(mono.Dur(rapid.IntRange(0, 20).Draw(h.r, "free")))}
		if life := h.table.Add(id, p.free); life != p.life {
			h.r.Fatalf("GPU %d begins life %d, want %d", id, life, p.life)
		}
	case 3, 4, 5:
		h.grant(id, p)
	case 6, 7:
		h.answer(id, p)
	case 8:
		h.report(id, p)
	case 9: // of a life that ended, or answered twice
		if len(h.old) > 0 {
			g := h.old[rapid.IntRange(0, len(h.old)-1).Draw(h.r, "old")]
			if h.gpus[g.GPU].life != g.Life && h.table.Answer(&Answer{Grant: g, Batch: 99, Until: 9}, &h.usage[g.Model]) {
				h.r.Fatalf("the answer to %+v, of an earlier life, counts", g)
			}
			if h.table.Done(g.GPU, g.Life, 1<<40, h.now) {
				h.r.Fatal("a batch that never was is reported, and counts")
			}
		}
	}
}

// forget ends a GPU's life.
func (h *history) forget(p *plain) {
	if p.granted != nil {
		h.old = append(h.old, *p.granted)
	}
	*p = plain{life: p.life}
}

func (h *history) most() int {
	if h.cfg.Outstanding == 0 {
		return 2
	}
	return min(h.cfg.Outstanding, outstandingMax)
}

// idle: the reference says that the GPU can be granted.
func (h *history) idle(p *plain) bool { return p.present && p.granted == nil && len(p.runs) < h.most() }

func (h *history) grant(id wire.GPUID, p *plain) {
	if !h.idle(p) {
		return
	}
	model := wire.ModelID(rapid.IntRange(0, len(h.usage)-1).Draw(h.r, "model"))
	c := batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: h.now.Add(3), Latest: h.now.Add(9), Delay: 2}
	g := h.table.Grant(model, &h.usage[model], &c, uint32(id), true, h.now, nil)[0]
	if g.Life != p.life || g.GPU != id || g.Model != model || g.FreeAt != p.freeAt() || g.Ready != g.FreeAt.Add(-2) || g.Due != max(g.Ready, h.now.Add(1)) {
		h.r.Fatalf("GPU %d, free at %v: grant %+v", id, p.freeAt(), g)
	}
	p.granted = &g
}

func (h *history) answer(id wire.GPUID, p *plain) {
	if p.granted == nil {
		return
	}
	a := Answer{Grant: *p.granted}
	h.old, p.granted = append(h.old, a.Grant), nil
	if used := rapid.Bool().Draw(h.r, "used"); used {
		h.batch++
		length := mono.Dur(rapid.IntRange(1, 20).Draw(h.r, "length"))
		a.Batch, a.Exec = h.batch, max(h.now.Add(2), a.Grant.FreeAt)
		a.Until, a.Need = a.Exec.Add(length), float64(rapid.IntRange(0, 9).Draw(h.r, "need"))
		p.runs, p.late = append(p.runs, plainRun{h.batch, max(a.Exec, p.freeAt()), length}), 0
		h.needs[a.Grant.Model] = a.Need
	}
	if !h.table.Answer(&a, &h.usage[a.Grant.Model]) {
		h.r.Fatalf("the answer for GPU %d, life %d, does not count", id, p.life)
	}
}

// report ends the GPU's first batch, or its second one before it.
func (h *history) report(id wire.GPUID, p *plain) {
	if len(p.runs) == 0 {
		return
	}
	at := rapid.IntRange(0, len(p.runs)-1).Draw(h.r, "ended")
	run := p.runs[at]
	if at > 0 && at < len(p.runs)-1 {
		return // devices run in order: one report may overtake another, not more
	}
	p.runs = slices.Delete(p.runs, at, at+1)
	if at == 0 {
		p.free, p.late = h.now, 0
		p.follow()
	} else {
		p.late = h.now
	}
	if !h.table.Done(id, p.life, run.batch, h.now) {
		h.r.Fatalf("batch %d of GPU %d is not known", run.batch, id)
	}
	if h.table.Done(id, p.life, run.batch, h.now) {
		h.r.Fatalf("batch %d of GPU %d ends twice", run.batch, id)
	}
}

func (h *history) check() {
	count, soonest, sum := 0, mono.Never, 0.0
	var holding []uint32
	for id := range h.gpus[:h.table.Len()] {
		p := &h.gpus[id]
		want := mono.Never
		if h.idle(p) {
			want = p.freeAt()
		}
		if got := h.table.FreeAt(uint32(id)); got != want {
			h.r.Fatalf("at %v GPU %d is free at %v, want %v: %+v", h.now, id, got, want, p)
		}
		if h.table.Present(wire.GPUID(id)) != p.present || h.table.Life(wire.GPUID(id)) != p.life {
			h.r.Fatalf("GPU %d, life %d, present %v: want %+v", id, h.table.Life(wire.GPUID(id)), h.table.Present(wire.GPUID(id)), p)
		}
		soonest = min(soonest, want)
		if p.present {
			count++
			holding = append(holding, uint32(id+1))
		}
	}
	for n, want := range holding {
		if got := h.table.Holding(n + 1); n+1 < len(holding) && got != want {
			h.r.Fatalf("%d GPUs are present below id %d, want %d", n+1, got, want)
		}
	}
	if h.table.Count() != count || h.table.Soonest() != soonest {
		h.r.Fatalf("%d GPUs, the first free at %v: want %d, %v", h.table.Count(), h.table.Soonest(), count, soonest)
	}
	for _, need := range h.needs {
		sum += need
	}
	if got := h.table.Need(); math.Abs(got-sum) > 1e-9 {
		h.r.Fatalf("need %v, want %v", got, sum)
	}
}

// A grant, its answer and its report allocate nothing.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	table, u, dst := New(Config{}), Usage{}, []Grant(nil)
	for id := range wire.GPUID(20) {
		table.Add(id, 0)
	}
	now, batch := mono.Time(1), wire.BatchID(0)
	turn := func() {
		batch++
		now = now.Add(mono.Millisecond)
		gpu, _ := table.FirstBy(now)
		c := batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: now, Latest: now}
		dst = table.Grant(1, &u, &c, gpu, true, now, dst[:0])
		table.Answer(&Answer{Grant: dst[0], Batch: batch, Exec: now, Until: now.Add(1), Need: 1}, &u)
		table.Done(dst[0].GPU, dst[0].Life, batch, now)
	}
	turn()
	if n := testing.AllocsPerRun(1000, turn); n != 0 {
		t.Errorf("%v allocations a batch, want 0", n)
	}
}
