package residency

import (
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// world is what is outside of a Residency: devices with pages, and a matchmaker that uses them. It keeps
// books of its own and says where an effect contradicts them.
type world struct {
	r       *Residency
	cfg     Config
	now     mono.Time
	devices map[wire.GPUID]*device
	models  map[wire.ModelID]int // pages, of those that are known
	pinned  map[wire.ModelID]bool
	uses    []use // batches and holds
	floors  map[wire.ModelID]mono.Time
	foreign int      // generations beyond all that were used
	log     []string // of all effects
	keep    bool     // the log
	err     error
}

// device is a GPU as its backend sees it.
type device struct {
	pages, used int
	weights     map[key]int // resident or being copied -> pages
	loads       []Load      // not reported
	newest      Generation
}

type key struct {
	model wire.ModelID
	gen   Generation
}

type use struct {
	model wire.ModelID
	gpu   wire.GPUID
	gen   Generation
	held  bool
	spare bool // of best effort
}

func newWorld(cfg Config) *world {
	return &world{r: New(cfg), cfg: cfg.withDefaults(), devices: map[wire.GPUID]*device{}, models: map[wire.ModelID]int{}, pinned: map[wire.ModelID]bool{}, floors: map[wire.ModelID]mono.Time{}}
}

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// check looks at effects and books after a call.
func (w *world) check(out *Out) {
	if w.keep {
		w.log = append(w.log, fmt.Sprintf("%d %+v", w.now, *out))
	}
	for _, u := range out.Unloads {
		if u.Why == Room && w.pinned[u.Model] && w.models[u.Model] > 0 {
			w.fail("%+v of a model that is pinned", u)
		}
		w.unload(u)
	}
	for _, l := range out.Loads {
		w.load(l)
	}
	for _, d := range out.Displaces {
		if _, ok := w.r.Held(d.Model, d.GPU); ok && w.held(d.Model, d.GPU) == d.Generation {
			w.fail("%+v, and it holds it still", d)
		}
	}
	for _, p := range out.Places {
		if d := w.devices[p.GPU]; d == nil || d.weights[key{p.Model, p.Generation}] == 0 && !slices.ContainsFunc(out.Displaces, func(d Displace) bool { return d.Generation == p.Generation && d.Model == p.Model }) {
			w.fail("%+v of weights that are not there", p)
		}
	}
	for _, f := range out.Floors {
		if before, ok := w.floors[f.Model]; ok && f.Until <= before {
			w.fail("%+v after one of %v", f, before)
		}
		w.floors[f.Model] = f.Until
	}
	for id, d := range w.devices {
		if free, all := w.r.Pages(id); all != d.pages || all-free != d.used {
			w.fail("GPU %d: %d pages free of %d, the device has %d used of %d", id, free, all, d.used, d.pages)
		}
	}
	if err := w.r.audit(); err != nil && w.err == nil {
		w.err = err
	}
	out.Reset()
}

func (w *world) held(id wire.ModelID, gpu wire.GPUID) Generation {
	h, _ := w.r.Held(id, gpu)
	return h.Generation
}

// unload: invariant 3, of the device's and the matchmaker's books.
func (w *world) unload(u Unload) {
	d := w.devices[u.GPU]
	if d == nil {
		w.fail("%+v of a GPU that is gone", u)
		return
	}
	if _, there := d.weights[key{u.Model, u.Generation}]; !there {
		return // it has said that it has not
	}
	if slices.ContainsFunc(w.uses, func(x use) bool { return x.model == u.Model && x.gpu == u.GPU && x.gen == u.Generation }) {
		w.fail("%+v while it is in use", u)
	}
	if slices.ContainsFunc(d.loads, func(l Load) bool { return l.Generation == u.Generation }) {
		w.fail("%+v while it is loading", u)
	}
	d.used -= d.weights[key{u.Model, u.Generation}]
	delete(d.weights, key{u.Model, u.Generation})
}

// load: invariants 2, 4, 5.
func (w *world) load(l Load) {
	d := w.devices[l.GPU]
	if d == nil {
		w.fail("%+v on a GPU that is gone", l)
		return
	}
	for k := range d.weights {
		if k.model == l.Model {
			w.fail("%+v, whose model is there as %+v", l, k)
		}
	}
	d.used += l.Pages
	d.weights[key{l.Model, l.Generation}] = l.Pages
	d.loads = append(d.loads, l)
	switch {
	case d.used > d.pages:
		w.fail("%+v: %d pages used of %d", l, d.used, d.pages)
	case l.Pages != w.models[l.Model]:
		w.fail("%+v: the model has %d pages", l, w.models[l.Model])
	case l.Generation <= d.newest:
		w.fail("%+v after generation %d", l, d.newest)
	case len(d.loads) > w.cfg.Outstanding || l.Start.Sub(w.now) >= w.cfg.Ahead || l.Until <= l.Start:
		w.fail("%+v at %v with %d loads before it", l, w.now, len(d.loads)-1)
	}
	d.newest = l.Generation
}

// report ends the device's load i.
func (w *world) report(gpu wire.GPUID, i int, off mono.Dur, ok bool, out *Out) Report {
	d := w.devices[gpu]
	l := d.loads[i]
	d.loads = slices.Delete(d.loads, i, i+1)
	w.now = max(w.now, l.Until.Add(off))
	rep := Report{ID: l.ID, Start: l.Start, End: w.now, OK: ok, Tells: true}
	if !ok {
		rep.Reason = []wire.Reason{wire.ReasonNone, wire.ReasonExecution, wire.ReasonLate, wire.ReasonMemory, wire.ReasonFull}[int(l.Generation)%5]
		d.used -= d.weights[key{l.Model, l.Generation}]
		delete(d.weights, key{l.Model, l.Generation})
	}
	rep.Free = d.pages - d.used
	for _, waits := range d.loads { // they are not begun, and take nothing yet
		rep.Free += waits.Pages
	}
	if m, g, gen, ok := w.r.Underway(l.ID); !ok || m != l.Model || g != l.GPU || gen != l.Generation {
		w.fail("load %d is that of model %d on GPU %d of generation %d (%v), want %+v", l.ID, m, g, gen, ok, l)
	}
	if !w.r.Loaded(w.now, rep, out) {
		w.fail("the report of %+v is not known", l)
	}
	if n := w.r.Missed(gpu); n != 0 {
		w.fail("%d pages of GPU %d are missing, whose device has all", n, gpu)
	}
	return rep
}

func (w *world) addGPU(id wire.GPUID, pages int, held []wire.ModelID, out *Out) {
	w.foreign += 1000
	var told []Weights
	for i, name := range held { // by turns without a generation, and of one that was given by somebody else
		told = append(told, Weights{name, Generation(i % 2 * (w.foreign + i))})
	}
	gen := w.r.Adopt(w.now, id, pages, told, out)
	d := &device{pages: pages, weights: map[key]int{}, newest: gen}
	w.devices[id] = d
	for _, p := range out.Places {
		if p.GPU == id {
			d.weights[key{p.Model, p.Generation}] = w.models[p.Model]
			d.used += w.models[p.Model]
		}
	}
}

// misses: the device does not have what it is said to hold, and a batch has told.
func (w *world) misses(id wire.ModelID, gpu wire.GPUID, out *Out) {
	h, ok := w.r.Held(id, gpu)
	if !ok {
		w.r.Missing(w.now, id, gpu, 7, out) // of a generation that it has not
		return
	}
	if d := w.devices[gpu]; !h.Loading {
		d.used -= d.weights[key{id, h.Generation}]
		delete(d.weights, key{id, h.Generation})
	}
	w.r.Missing(w.now, id, gpu, h.Generation, out)
	if after, ok := w.r.Held(id, gpu); ok != h.Loading || ok && after.From < w.now.Add(w.cfg.Lag) {
		w.fail("it was told that %+v is missing, and has %v %+v", h, ok, after)
	}
}

func (w *world) removeGPU(id wire.GPUID, out *Out) {
	delete(w.devices, id) // what used it stays: its ends come later, and must be ignored
	w.r.RemoveGPU(w.now, id, out)
}

func (w *world) step(out *Out) {
	w.r.Step(w.now, out)
	w.check(out)
	if wake := w.r.NextWake(); wake <= w.now {
		w.fail("at %d Step has done all, and is due again at %d", w.now, wake)
	}
}
