package residency

import (
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// traffic is a cluster in virtual time: requests for models drawn from a seed, loads that take what they
// are planned to take, and batches that start as soon as their model is there.
type traffic struct {
	r       *Residency
	rand    *rand.Rand
	now     mono.Time
	gap     mono.Dur // between two requests
	models  int
	hot     int // so many models have 9 of 10 requests; 0: all alike
	out     Out
	loading []Load // of all GPUs, by their ends nearly
	running []running
	stuck   bool // batches do not end any more
	holders []Holder
	began   int
}

type running struct {
	use
	end mono.Time
}

const (
	benchSLO  = 100 * ms
	benchExec = 2610 * us
)

func newTraffic(cfg Config, models, gpus, pages, hot int, gap mono.Dur) *traffic {
	t := &traffic{r: New(cfg), rand: rand.New(rand.NewPCG(1, 0)), gap: gap, models: models, hot: hot}
	for id := range models {
		t.r.AddModel(wire.ModelID(id), Model{Pages: 5 + id%5, LoadTime: 6*ms + mono.Dur(id%5)*ms})
	}
	for id := range gpus {
		t.r.AddGPU(0, wire.GPUID(id), pages, nil, &t.out)
	}
	return t
}

// request is one request's part in all: it arrives, and what is due meanwhile is done.
func (t *traffic) request() {
	t.now = t.now.Add(t.gap)
	for n := len(t.running); n > 0 && !t.stuck && t.running[0].end <= t.now; n-- {
		b := t.running[0]
		t.running = append(t.running[:0], t.running[1:]...)
		t.r.Ended(t.now, b.model, b.gpu, b.gen)
	}
	for n := len(t.loading); n > 0; n-- {
		l := t.loading[0]
		t.loading = append(t.loading[:0], t.loading[1:]...)
		if l.Until > t.now {
			t.loading = append(t.loading, l)
			continue
		}
		t.r.Loaded(t.now, Report{ID: l.ID, Start: l.Start, End: l.Until, OK: true}, &t.out)
		t.begin(l.Model)
	}
	id := wire.ModelID(t.rand.IntN(t.models))
	if t.hot > 0 && t.rand.IntN(10) > 0 {
		id = wire.ModelID(t.rand.IntN(t.hot))
	}
	t.r.Arrive(t.now, id, benchExec, t.now.Add(benchSLO-benchExec))
	t.begin(id)
	t.r.Step(t.now, &t.out)
	t.loading = append(t.loading, t.out.Loads...)
	for _, f := range t.out.Floors {
		t.drop(f)
	}
	t.out.Reset()
}

// begin sends all that waits to a holder that is ready.
func (t *traffic) begin(id wire.ModelID) {
	_, n := t.r.Demand(id)
	t.holders = t.r.Holders(id, t.holders[:0])
	for _, h := range t.holders {
		if h.Loading || n == 0 || t.stuck {
			continue
		}
		gen := t.r.Began(t.now, id, h.GPU, n)
		t.running = append(t.running, running{use{model: id, gpu: h.GPU, gen: gen}, t.now.Add(benchExec)})
		t.began += n
		return
	}
}

// drop gives up those that a floor leaves no time.
func (t *traffic) drop(f Floor) {
	m := &t.r.models[f.Model]
	t.r.Doomed(t.now, f.Model, m.waiting.Below(int64(f.Until)))
}

// The traffics of the benchmarks: 4,000 models and 20 GPUs. Calm: all but a few requests find their model.
// Churn: GPUs have pages for half of the models, and all are asked for alike: loaders are never idle.
func traffics() map[string]func(Rule) *traffic {
	return map[string]func(Rule) *traffic{
		"calm":  func(r Rule) *traffic { return newTraffic(Config{Rule: r}, 4000, 20, 1376, 400, 100*us) },
		"churn": func(r Rule) *traffic { return newTraffic(Config{Rule: r}, 4000, 20, 688, 0, 100*us) },
	}
}

// TestSteadyStateAllocatesNothing: loads, evictions, floors and all.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for name, f := range traffics() {
		for rule := range Rule(3) {
			w := f(rule)
			hot := w.hot
			w.hot = 0 // each model is asked for once at least: its queue has memory
			for range 60_000 {
				w.request()
			}
			w.hot = hot
			before := w.r.Counts()
			n := testing.AllocsPerRun(1, func() {
				for range 20_000 {
					w.request()
				}
			})
			if n != 0 {
				t.Errorf("%s, rule %d: %v allocations", name, rule, n)
			}
			after := w.r.Counts()
			if name == "churn" && (after.Loads == before.Loads || after.Unloads == before.Unloads || after.Floors == before.Floors) {
				t.Errorf("%s, rule %d: it did not load, unload and tell floors: %+v, %+v", name, rule, before, after)
			}
			if err := w.r.audit(); err != nil {
				t.Errorf("%s, rule %d: %v", name, rule, err)
			}
		}
	}
}

// A request arrives, a batch of it begins and ends, Step is called after each, loads and unloads
// included.
func BenchmarkRequest(b *testing.B) {
	for _, name := range []string{"calm", "churn"} {
		for rule, of := range []string{"saving", "priority", "code"} {
			b.Run(name+"/"+of, func(b *testing.B) {
				w := traffics()[name](Rule(rule))
				for range 200_000 {
					w.request()
				}
				before, began := w.r.Counts(), w.began
				b.ReportAllocs()
				for b.Loop() {
					w.request()
				}
				c := w.r.Counts()
				b.ReportMetric(float64(c.Loads-before.Loads)/float64(b.N), "loads/op")
				b.ReportMetric(float64(c.Floors-before.Floors)/float64(b.N), "floors/op")
				b.ReportMetric(float64(w.began-began)/float64(b.N), "served/op")
			})
		}
	}
}

// The dearest choice: everything on the GPUs is in use for good, so no loader finds a model that it
// could load, though a thousand are worth it.
func BenchmarkNoRoom(b *testing.B) {
	w := traffics()["churn"](BySaving)
	for range 50_000 {
		w.request()
	}
	for id := range w.r.models {
		for _, h := range w.r.Holders(wire.ModelID(id), nil) {
			w.r.Hold(wire.ModelID(id), h.GPU)
		}
	}
	w.stuck = true
	for range 50_000 {
		w.request()
	}
	before, open := w.r.Counts().Loads, 0
	for id := range w.r.gpus {
		if w.r.open(w.now, &w.r.gpus[id]) {
			open++
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		w.request()
	}
	b.ReportMetric(float64(w.r.board.len()), "candidates")
	b.ReportMetric(float64(open), "idle-loaders")
	b.ReportMetric(float64(w.r.Counts().Loads-before)/float64(b.N), "loads/op")
}
