package rank

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// walk drives a rank at random: candidates that come, change and go, GPUs that come and go,
// answers and reports that are late.
type walk struct {
	*rand.Rand
	t      *testing.T
	seed   uint64
	rank   *Rank
	change func(c batching.Candidate) batching.Candidate // what the rank is told of a candidate
	now    mono.Time
	models []batching.Candidate // as drawn
	grants []Grant              // not answered
	runs   []walkRun
	batch  wire.BatchID
	log    []Grant
	early  int // grants before the deferred start
}

type walkRun struct {
	gpu   wire.GPUID
	life  Life
	batch wire.BatchID
	end   mono.Time
}

const (
	walkModels, walkGPUs = 6, 8
	walkDelay            = 20 * mono.Microsecond
)

func newWalk(t *testing.T, seed uint64, h Headroom) *walk {
	return &walk{Rand: rand.New(rand.NewPCG(seed, 7)), t: t, seed: seed, rank: New(Config{Headroom: h}),
		change: func(c batching.Candidate) batching.Candidate { return c }, models: make([]batching.Candidate, walkModels)}
}

func (w *walk) run(events int) {
	for range walkGPUs {
		w.rank.AddGPU(wire.GPUID(w.IntN(walkGPUs)), 0)
	}
	for range events {
		w.now = w.now.Add(mono.Dur(w.IntN(60)) * mono.Microsecond)
		w.report()
		w.event()
		w.step()
	}
}

// event is something that happens; it draws the same whatever the rank has decided.
func (w *walk) event() {
	what, id, gpu := w.IntN(20), wire.ModelID(w.IntN(walkModels)), wire.GPUID(w.IntN(walkGPUs))
	exec := w.now.Add(walkDelay + mono.Dur(w.IntN(400))*mono.Microsecond)
	hold := uint32(max(0, w.IntN(600)-200))
	latest := exec.Add(mono.Dur(hold+uint32(w.IntN(300))) * mono.Microsecond)
	c := batching.Candidate{Batch: batching.Batch{Size: 1, Hold: hold}, Exec: exec, Latest: latest, Delay: walkDelay}
	switch {
	case what == 0:
		w.rank.RemoveGPU(gpu)
	case what <= 3:
		w.rank.AddGPU(gpu, w.now.Add(mono.Dur(w.IntN(100))*mono.Microsecond))
	case what == 4:
		w.tell(id, batching.Candidate{})
	case what <= 9:
		w.answer()
	default:
		w.tell(id, c)
	}
}

func (w *walk) tell(id wire.ModelID, c batching.Candidate) {
	if slices.ContainsFunc(w.grants, func(g Grant) bool { return g.Model == id }) {
		c = batching.Candidate{} // the call is void
	}
	w.models[id] = c
	w.rank.SetCandidate(id, w.change(c))
}

// answer takes or refuses the oldest grant.
func (w *walk) answer() {
	if len(w.grants) == 0 {
		return
	}
	g := w.grants[0]
	w.grants = w.grants[1:]
	a := Answer{Grant: g}
	if g.GPU%8 != wire.GPUID(w.batch%8) { // no draw: see event
		w.batch++
		a.Batch, a.Exec = w.batch, max(w.now.Add(walkDelay), g.FreeAt)
		a.Until = a.Exec.Add(mono.Dur(100+37*(w.batch%5)) * mono.Microsecond)
		a.Need = float64(1+g.Model) / 6
		a.Slack = 10 * mono.Microsecond << (2 * g.Model) // tells something where room is left only
		w.runs = append(w.runs, walkRun{g.GPU, g.Life, a.Batch, a.Until})
	}
	w.rank.Answer(a)
}

func (w *walk) report() {
	w.runs = slices.DeleteFunc(w.runs, func(r walkRun) bool {
		if r.end <= w.now {
			w.rank.Done(r.gpu, r.life, r.batch, r.end)
		}
		return r.end <= w.now
	})
}

// step steps the rank, and checks what it granted and what it left.
func (w *walk) step() {
	var out Out
	w.rank.Step(w.now, &out)
	if wake := w.rank.NextWake(); wake <= w.now {
		w.t.Fatalf("seed %d: at %v next wake is %v", w.seed, w.now, wake)
	}
	for _, g := range out.Grants {
		w.granted(g)
	}
	for id, c := range w.models {
		if c.Size > 0 {
			w.waits(wire.ModelID(id), w.change(c))
		}
	}
}

func (w *walk) granted(g Grant) {
	if slices.ContainsFunc(w.grants, func(k Grant) bool { return k.Model == g.Model || k.GPU == g.GPU && k.Life == g.Life }) {
		w.t.Fatalf("seed %d: at %v %+v is granted beside %+v", w.seed, w.now, g, w.grants)
	}
	c := w.change(w.models[g.Model])
	switch leave := c.Deferred().Add(-c.Delay); {
	case c.Size == 0 || c.Exec.Add(-c.Delay) > w.now:
		w.t.Fatalf("seed %d: at %v model %d is granted with %+v", w.seed, w.now, g.Model, c)
	case w.now < leave && int(g.GPU) >= w.rank.Kept():
		w.t.Fatalf("seed %d: at %v an early batch, deferred until %v, gets GPU %d; %d are kept", w.seed, w.now, leave, g.GPU, w.rank.Kept())
	case w.now < leave:
		w.early++
	}
	w.models[g.Model] = batching.Candidate{}
	w.grants, w.log = append(w.grants, g), append(w.log, g)
}

// waits: no candidate waits while a GPU is there that it may take.
func (w *walk) waits(id wire.ModelID, c batching.Candidate) {
	if c.Exec.Add(-c.Delay) > w.now || c.Latest.Add(-c.Delay) < w.now {
		return
	}
	for gpu := range w.rank.gpus.Len() {
		may := (gpu < w.rank.Kept() || c.Deferred().Add(-c.Delay) <= w.now) && uint32(gpu) < w.rank.room.below
		if free := w.rank.gpus.FreeAt(uint32(gpu)); may && free.Add(-c.Delay) <= w.now {
			w.t.Fatalf("seed %d: at %v model %d waits with %+v, GPU %d is free from %v, %d are kept", w.seed, w.now, id, c, gpu, free, w.rank.Kept())
		}
	}
}

func TestHeadroomWalk(t *testing.T) {
	for seed := range uint64(100) {
		h := Headroom{Limited: true, Share: []float64{0.1, 0.25, 0.5, 1, 3}[seed%5]}
		if seed%7 == 0 {
			h = Headroom{}
		}
		w := newWalk(t, seed, h)
		w.run(2000)
		if len(w.log) < 100 || w.early < 10 {
			t.Errorf("seed %d, headroom %v: %d grants, %d early: the walk shows too little", seed, h, len(w.log), w.early)
		}
	}
}

// sameGrants walks two ranks and compares what they grant, but for Due, which decides nothing.
func sameGrants(t *testing.T, a, b *walk) {
	t.Helper()
	a.run(2000)
	b.run(2000)
	for _, w := range []*walk{a, b} {
		for i := range w.log {
			w.log[i].Due = 0
		}
	}
	if !slices.Equal(a.log, b.log) || len(a.log) < 100 {
		t.Errorf("seed %d: %d and %d grants, not the same", a.seed, len(a.log), len(b.log))
	}
}

// Without headroom early candidates are what they would be under the whole deferral.
func TestHeadroomNoneIsTheWholeDeferral(t *testing.T) {
	for seed := range uint64(20) {
		whole := newWalk(t, seed, Headroom{})
		whole.change = func(c batching.Candidate) batching.Candidate {
			c.Exec, c.Hold = c.Deferred(), 0
			return c
		}
		none := newWalk(t, seed, Headroom{Limited: true})
		sameGrants(t, none, whole)
		if none.early > 0 {
			t.Errorf("seed %d: %d early grants without headroom", seed, none.early)
		}
	}
}

// Where all GPUs are kept the headroom changes nothing, nor does Hold.
func TestHeadroomAllIsNoLimit(t *testing.T) {
	for seed := range uint64(20) {
		wide := newWalk(t, seed, Headroom{Limited: true, Share: 100})
		wide.rank.SetCandidate(100, batching.Candidate{})
		wide.rank.gpus.SetNeed(&wide.rank.models[100].usage, walkGPUs, 0)
		sameGrants(t, wide, newWalk(t, seed, Headroom{}))

		eager := newWalk(t, seed, Headroom{})
		eager.change = func(c batching.Candidate) batching.Candidate {
			c.Hold = 0
			return c
		}
		sameGrants(t, eager, newWalk(t, seed, Headroom{}))
	}
}
