package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Paging makes the memory of a GPU a cache of weights, which a scheduler fills by its
// orders. The zero Paging: every model is on every GPU.
type Paging struct {
	Pages int // of each GPU
	// PerLink is how many GPUs, by consecutive ids, share one link to the host: their loads
	// take turns on it, in the order in which they were sent. 0 means 1, a link for each.
	// (In turns, and not side by side at a part of the speed: the last byte of two loads
	// comes at the same instant, and the first load's weights are there sooner.)
	PerLink int
	// LoadErrors is how far loads are off their models' LoadTime; the zero Errors is none.
	LoadErrors Errors
	// Held are the models that the GPUs of Config.GPUs have at the beginning, by GPU; nil: none.
	Held [][]wire.ModelID
}

func (c *Config) checkPaging() error {
	p := &c.Paging
	if p.Pages == 0 {
		return nil
	}
	if p.Pages < 0 || p.PerLink < 0 {
		return fmt.Errorf("%w: %d pages, %d GPUs to a link: must not be negative", ErrInvalid, p.Pages, p.PerLink)
	}
	for i := range c.Models {
		if m := &c.Models[i]; m.Pages < 1 || m.Pages > p.Pages || m.LoadTime <= 0 {
			return fmt.Errorf("%w: model %s: %d pages and %v to load: must be 1 to %d pages and above 0", ErrInvalid, m.Name, m.Pages, m.LoadTime, p.Pages)
		}
	}
	for id, held := range p.Held {
		pages := 0
		for i, m := range held {
			if int(m) >= len(c.Models) || slices.Contains(held[:i], m) {
				return fmt.Errorf("%w: GPU %d holds model %d, which is none or is there twice", ErrInvalid, id, m)
			}
			pages += c.Models[m].Pages
		}
		if id >= c.GPUs || pages > p.Pages {
			return fmt.Errorf("%w: GPU %d holds %d pages at the beginning: there are %d GPUs of %d pages", ErrInvalid, id, pages, c.GPUs, p.Pages)
		}
	}
	return p.LoadErrors.check()
}

// Loads counts what became of load orders, within the counted span.
type Loads struct {
	Done     int64 // loads that ended
	Refused  int64 // that found too few pages, or could not begin in time
	Unloads  int64
	Waited   int64      // batches that stood at their GPU until their weights were there
	Copying  []mono.Dur // link -> time that it copied
	Resident int64      // models times GPUs, at the end
	Pages    int64      // taken, at the end
}

// Copy is a load that ended, or was cut with its GPU (Kept false).
type Copy struct {
	Load       policy.LoadID
	Model      wire.ModelID
	GPU        wire.GPUID
	Start, End mono.Time
	Kept       bool
}

// presence is what a GPU has of a model.
type presence struct {
	undone  uint16    // batches there that have not ended
	taken   bool      // it has pages: from the order to load it until it is unloaded
	loading bool      // and the weights are not there yet
	from    mono.Time // when they are
}

// link carries the loads of one or more GPUs, one after the other.
type link struct {
	copies []Copy // under way, in order
	last   mono.Time
}

// pager is the memory of the GPUs and the links that fill it. It is the devices' side:
// an order that the scheduler should not have given fails as it would there, or is a
// breach that ends the run.
//
// Invariants: the pages of a GPU and those that its models take add up to Paging.Pages; a
// model with a batch on a GPU is there or being loaded.
type pager struct {
	cfg     *Paging
	models  []Model
	free    []int        // GPU -> pages
	rows    [][]presence // [GPU][model]
	holders []int32      // model -> GPUs on which its weights are
	links   []link
	ends    pq.Heap // link -> end of what it copies
	random  *rand.Rand
}

func newPager(cfg *Config) *pager {
	if cfg.Paging.Pages == 0 {
		return nil
	}
	return &pager{cfg: &cfg.Paging, models: cfg.Models, holders: make([]int32, len(cfg.Models)), random: rand.New(rand.NewPCG(cfg.Seed, 0x6c6f6164))}
}

func (p *pager) linkOf(id wire.GPUID) int { return int(id) / max(1, p.cfg.PerLink) }

// next is when a load ends.
func (p *pager) next() mono.Time {
	if p == nil || p.ends.Len() == 0 {
		return mono.Never
	}
	_, at := p.ends.Min()
	return mono.Time(at)
}

// begin makes the memory of a GPU that begins a life, and tells the scheduler of it.
func (d *driver) begin(id wire.GPUID) {
	p := d.pager
	if p == nil {
		d.sched.AddGPU(d.now, id, &d.out)
		return
	}
	for int(id) >= len(p.rows) {
		p.rows = append(p.rows, make([]presence, len(p.models)))
		p.free = append(p.free, 0)
	}
	for p.linkOf(id) >= len(p.links) {
		p.links = append(p.links, link{})
		d.result.Loads.Copying = append(d.result.Loads.Copying, 0)
	}
	clear(p.rows[id])
	p.free[id] = p.cfg.Pages
	var held []wire.ModelID
	if int(id) < len(p.cfg.Held) && d.gpus[id].life == 1 {
		held = p.cfg.Held[id]
	}
	for _, m := range held {
		p.rows[id][m].taken = true
		p.holders[m]++
		p.free[id] -= p.models[m].Pages
	}
	d.loader.AddGPUWith(d.now, id, held, &d.out)
}

// forget is the end of a GPU's life: what it held is gone, and what was being copied.
func (d *driver) forget(id wire.GPUID) {
	p := d.pager
	if p == nil {
		return
	}
	for m := range p.rows[id] {
		if r := &p.rows[id][m]; r.taken && !r.loading {
			p.holders[m]--
		}
	}
	clear(p.rows[id])
	l := &p.links[p.linkOf(id)]
	l.copies = slices.DeleteFunc(l.copies, func(c Copy) bool {
		if c.GPU != id {
			return false
		}
		c.End = min(c.End, max(d.now, c.Start))
		d.copied(&c)
		return true
	})
	l.last = 0 // what was to be copied no longer holds up the next life's loads
	if n := len(l.copies); n > 0 {
		l.last = l.copies[n-1].End
	}
	d.armLink(p.linkOf(id))
}

// load carries out an order.
func (d *driver) load(k *policy.Load) {
	p := d.pager
	if p == nil {
		d.breached("GPU %d is to load model %d, and has every model", k.GPU, k.Model)
		return
	}
	if !d.gpus[k.GPU].alive {
		return // lost with the GPU: the scheduler will learn of it
	}
	r, need := &p.rows[k.GPU][k.Model], p.models[k.Model].Pages
	if r.taken {
		d.breached("GPU %d is to load model %d, which it has", k.GPU, k.Model)
		return
	}
	l := &p.links[p.linkOf(k.GPU)]
	start := max(d.now.Add(d.ctrl()), l.last)
	if p.free[k.GPU] < need || start > k.Latest {
		if d.counted(d.now) {
			d.result.Loads.Refused++
		}
		d.tellLoaded(k.GPU, policy.LoadReport{ID: k.ID, Start: d.now, End: d.now})
		return
	}
	p.free[k.GPU] -= need
	end := start.Add(p.cfg.LoadErrors.length(p.models[k.Model].LoadTime, p.random))
	*r = presence{taken: true, loading: true, from: end}
	l.last = end
	l.copies = append(l.copies, Copy{Load: k.ID, Model: k.Model, GPU: k.GPU, Start: start, End: end})
	d.armLink(p.linkOf(k.GPU))
}

// ctrl is how long an order takes.
func (d *driver) ctrl() mono.Dur {
	if !d.wired {
		return 0
	}
	return d.cfg.Network.Ctrl.draw(d.net)
}

// unload gives pages back.
func (d *driver) unload(k *policy.Unload) {
	p := d.pager
	if p == nil {
		d.breached("GPU %d is to unload model %d, and has every model for good", k.GPU, k.Model)
		return
	}
	if !d.gpus[k.GPU].alive {
		return
	}
	r := &p.rows[k.GPU][k.Model]
	switch {
	case !r.taken || r.loading:
		d.breached("GPU %d is to unload model %d, which it has not", k.GPU, k.Model)
		return
	case r.undone > 0:
		d.breached("GPU %d is to unload model %d, which has %d batches there", k.GPU, k.Model, r.undone)
		return
	}
	*r = presence{}
	p.holders[k.Model]--
	p.free[k.GPU] += p.models[k.Model].Pages
	if d.counted(d.now) {
		d.result.Loads.Unloads++
	}
}

// copies ends the loads that are through by now.
func (d *driver) copies() {
	p := d.pager
	if p == nil {
		return
	}
	for p.ends.Len() > 0 {
		i, at := p.ends.Min()
		if mono.Time(at) > d.now {
			return
		}
		l := &p.links[i]
		c := l.copies[0]
		l.copies = slices.Delete(l.copies, 0, 1)
		d.armLink(int(i))
		p.rows[c.GPU][c.Model].loading = false
		p.holders[c.Model]++
		c.Kept = true
		d.copied(&c)
		d.tellLoaded(c.GPU, policy.LoadReport{ID: c.Load, Start: c.Start, End: c.End, OK: true})
	}
}

// copied counts a load whose fate is known.
func (d *driver) copied(c *Copy) {
	d.result.Loads.Copying[d.pager.linkOf(c.GPU)] += max(0, min(c.End, d.to).Sub(max(c.Start, d.from)))
	if c.Kept && d.counted(c.End) {
		d.result.Loads.Done++
	}
	if f := d.cfg.Observer.Copied; f != nil {
		f(c)
	}
}

// tellLoaded reports a load to the scheduler: at once where messages need no time, but
// not from within the scheduler's own call.
func (d *driver) tellLoaded(gpu wire.GPUID, r policy.LoadReport) {
	d.mail.send(message{at: d.now.Add(d.ctrl()), kind: loaded, gpu: gpu, life: d.gpus[gpu].life, load: r})
}

// hear hands the scheduler the report of a load, if it still counts on that life of the GPU.
func (d *driver) hear(m *message) {
	if g := &d.gpus[m.gpu]; g.known && g.life == m.life {
		d.loader.Loaded(d.now, m.load, &d.out)
	}
}

func (d *driver) armLink(i int) {
	if l := &d.pager.links[i]; len(l.copies) > 0 {
		d.pager.ends.Set(uint32(i), int64(l.copies[0].End))
	} else {
		d.pager.ends.Remove(uint32(i))
	}
}

// ready is when the weights are there that a batch needs which could start at start. The
// batch counts as undone on its GPU from now on.
func (d *driver) ready(k *policy.Dispatch, start mono.Time) mono.Time {
	p := d.pager
	if p == nil {
		return start
	}
	r := &p.rows[k.GPU][k.Model]
	if !r.taken {
		d.breached("GPU %d is to run a batch of model %d, which it has not", k.GPU, k.Model)
	}
	r.undone++
	if r.loading && r.from > start {
		if d.counted(d.now) {
			d.result.Loads.Waited++
		}
		return r.from
	}
	return start
}

// idle: a batch is over, or cut.
func (d *driver) idle(r *run) {
	if p := d.pager; p != nil {
		p.rows[r.GPU][r.Model].undone--
	}
}

// cold tells whether no GPU has the model's weights.
func (p *pager) cold(model int) bool { return p != nil && p.holders[model] == 0 }

// breached notes the first thing that the scheduler should not have done.
func (d *driver) breached(format string, args ...any) {
	if d.breach == nil {
		d.breach = fmt.Errorf("simulation: at %v: %s: a bug in the policy", d.now, fmt.Sprintf(format, args...))
	}
}

// balance checks that pages add up, and counts them for the result.
func (d *driver) balance() {
	p := d.pager
	if p == nil {
		return
	}
	for id := range p.rows {
		if !d.gpus[id].alive {
			continue
		}
		taken := 0
		for m := range p.rows[id] {
			if p.rows[id][m].taken {
				taken += p.models[m].Pages
				d.result.Loads.Resident++
			}
		}
		if taken+p.free[id] != p.cfg.Pages {
			d.breached("GPU %d has %d pages free and %d taken of %d", id, p.free[id], taken, p.cfg.Pages)
		}
		d.result.Loads.Pages += int64(taken)
	}
}
