package paged

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/devices"
	"github.com/symphony-serving/symphony/scheduler/gaps"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Config of a Paged.
type Config struct {
	// Outstanding is how many undone batches a GPU may have, 1 to 4; 0 means 2.
	Outstanding int
	// ByLatest gives no head starts.
	ByLatest bool
	// WholeDeferral: of what is deferred, no candidate's Hold counts.
	WholeDeferral bool
	// Eager: nothing is deferred while GPUs have nothing better to do (patience.go).
	Eager bool
	// NoLead: candidates are due at their exec (lead.go).
	NoLead bool
	// NoCrowd: no batch is preferred or filled up for its size, however many requests are lost (crowd.go).
	NoCrowd   bool
	Residency residency.Config
}

// Out collects the effects of calls; the caller empties it.
type Out struct {
	Grants  []devices.Grant
	Unloads []residency.Unload // happen before the loads
	Loads   []residency.Load
	Floors  []residency.Floor // tell the models before their grants
	Fills   []gaps.Grant      // best effort: whom a GPU is lent
}

// Reset empties the Out and keeps its memory.
func (o *Out) Reset() {
	o.Grants, o.Unloads, o.Loads, o.Floors = o.Grants[:0], o.Unloads[:0], o.Loads[:0], o.Floors[:0]
	o.Fills = o.Fills[:0]
}

// model is one model's candidate and where it stands.
type model struct {
	candidate batching.Candidate
	granting  bool      // a grant is under way: candidates wait for its answer
	ready     bool      // its time has come: it is in the heaps of the holders within reach
	told      mono.Time // when the candidate was
	since     mono.Time // of a ready one: the start that it could have had
	due       mono.Time // likewise: under deferral
	key       mono.Time // by what it is due on them: its latest, less its head start
	gone      bool      // it was removed, and goes when nothing refers to it
	floor     mono.Time // as told last
	queue     mono.Dur  // how long each of its requests is to wait for a holder, once there is one, at least
	usage     devices.Usage
	sizes     sizes
	slack     mono.Dur // by the last answer; 0: not known
	patience  mono.Dur // how long the last request could wait when it came
	places    []place  // its holders, by id
}

// batch is one that a GPU has not reported.
type batch struct {
	id         wire.BatchID
	model      wire.ModelID
	generation residency.Generation
	effort     bool // of best effort
}

// Paged is the matchmaker of one paged sub-cluster.
type Paged struct {
	cfg       Config
	residency *residency.Residency
	gpus      devices.Table
	models    []*model  // by id; nil: nothing is known of it
	timers    pq.Heap   // model -> exec - delay; of a ready one, when its next holder has its weights
	ready     []pq.Heap // by GPU: model -> latest, less its head start
	wakes     pq.Heap   // GPU -> free - delay of its first ready model
	undone    [][]batch // by GPU
	leads     leads
	effects   residency.Out
	now       mono.Time // of the last call
	short     mono.Time // until when pages count as short
	fill      fill
}

// New makes a Paged without models or GPUs.
func New(cfg Config) *Paged {
	return &Paged{cfg: cfg, residency: residency.New(cfg.Residency), now: mono.Past, short: mono.Past,
		gpus: devices.New(devices.Config{Outstanding: cfg.Outstanding, ByLatest: cfg.ByLatest})}
}

// SetByLatest tells whether candidates get no head starts, from the next one on.
func (p *Paged) SetByLatest(on bool) { p.gpus.SetByLatest(on) }

// GPUs is the number of GPUs present.
func (p *Paged) GPUs() int { return p.gpus.Count() }

// Residency is whose weights are where, to look at.
func (p *Paged) Residency() *residency.Residency { return p.residency }

// AddModel begins with a model, which is absent everywhere; call it before its id is used otherwise.
func (p *Paged) AddModel(id wire.ModelID, m residency.Model) {
	for int(id) >= len(p.models) {
		p.models = append(p.models, nil)
	}
	p.residency.AddModel(id, m)
	if p.models[id] == nil {
		p.models[id] = &model{floor: mono.Past}
	}
	p.models[id].gone, p.models[id].floor = false, mono.Past
}

// RemoveModel forgets a model; its weights go as soon as nothing uses them.
func (p *Paged) RemoveModel(now mono.Time, id wire.ModelID, out *Out) {
	m := p.model(id)
	if m == nil || m.gone {
		return
	}
	p.now = now
	p.SetCandidate(now, id, batching.Candidate{})
	m.gone = true
	p.fill.Forget(id)
	p.residency.RemoveModel(now, id, &p.effects)
	p.apply(out)
	p.forget(id)
}

// forget drops the row of a model that is gone, if nothing refers to it any more.
func (p *Paged) forget(id wire.ModelID) {
	if m := p.models[id]; m != nil && m.gone && !m.granting && len(m.places) == 0 {
		p.gpus.Forget(&m.usage)
		p.models[id] = nil
	}
}

// model is the model's row, or nil.
func (p *Paged) model(id wire.ModelID) *model {
	if int(id) >= len(p.models) {
		return nil
	}
	return p.models[id]
}

// least is how long a request counts for loads at least: until a load that begins so long after its arrival
// could end. A loader's backlog and as much again (Clockwork's code: "ahead + 5 ms").
//
// Rejected: its own latest start alone. A model that takes longer to load and run than its SLO is would never
// be loaded, and all of its requests be refused beside idle GPUs, for each comes too late for a load.
const least = 10 * mono.Millisecond

// Arrive tells of a request that waits from now on: the work that it counts as (residency.Weigh), and the latest
// instant at which a batch of it alone could start in time.
func (p *Paged) Arrive(now mono.Time, id wire.ModelID, work mono.Dur, latest mono.Time) {
	p.now = now
	m := p.model(id)
	if m == nil {
		return
	}
	until := latest
	if !p.cfg.NoLead {
		until = latest.Add(-max(0, min(queues*p.leads.mean, latest.Sub(now)/2)))
	}
	until = max(until, now.Add(least+p.residency.LoadTime(id)+p.residency.Slack(now)))
	queue := max(0, latest.Sub(until))
	if _, n := p.residency.Demand(id); n > 0 {
		queue = min(queue, m.queue)
	}
	m.queue, m.patience = queue, latest.Sub(now)
	p.residency.Arrive(now, id, work, until)
}

// Doomed tells that the model's first n requests were dropped.
func (p *Paged) Doomed(now mono.Time, id wire.ModelID, n int) {
	p.now = now
	p.residency.Doomed(now, id, n)
	if m := p.model(id); m != nil && m.ready && n > 0 {
		p.missed(m)
	}
}

// SetCandidate replaces the model's candidate; Size 0 takes it away. While a
// grant to the model is under way the call is void: the candidate was formed
// before the model knew of the grant. (inform_candidate)
func (p *Paged) SetCandidate(now mono.Time, id wire.ModelID, c batching.Candidate) {
	p.now = now
	m := p.model(id)
	if m == nil || m.granting {
		return
	}
	m.candidate, m.told = c, now
	leave := p.exec(m).Add(-c.Delay)
	if m.ready && (c.Size == 0 || leave > p.now) {
		p.unready(id, m)
	}
	if c.Size == 0 {
		p.timers.Remove(uint32(id))
		return
	}
	p.timers.Set(uint32(id), int64(leave)) // of one that stays ready it fires at once: its keys follow
}

// retime follows a change of the model's holders: of a candidate that waits for its exec, that of its
// lead; one that is ready is looked at anew, at the next Step.
func (p *Paged) retime(id wire.ModelID, m *model) {
	switch {
	case m.granting || m.candidate.Size == 0:
	case m.ready:
		p.timers.Set(uint32(id), int64(p.now))
	default:
		p.timers.Set(uint32(id), int64(p.exec(m).Add(-m.candidate.Delay)))
	}
}

// Answer takes a model's reply to a grant, with the number of requests that its batch has: the GPU is
// busy until then, and the model may be granted again. (inform_gpu)
func (p *Paged) Answer(now mono.Time, a devices.Answer, requests int) {
	p.now = now
	id, gpu, held := a.Grant.Model, a.Grant.GPU, residency.Generation(a.Grant.Generation)
	m := p.models[id]
	m.granting = false
	alive := p.gpus.Answer(&a, &m.usage)
	switch {
	case a.Batch == 0:
	case alive:
		p.leads.ran(a.Until.Sub(a.Exec))
		m.slack = a.Slack
		m.sizes.ran(requests)
		p.fill.Ran(a.Exec, a.Slack)
		gen := p.residency.Began(now, id, gpu, requests)
		if gen != held { // the model was removed and is back: the batch counts on its weights of before, which stay held for it
			p.residency.Ended(now, id, gpu, gen)
			gen, held = held, 0
		}
		p.undone[gpu] = append(p.undone[gpu], batch{a.Batch, id, gen, false})
	default: // it goes to a life of the GPU that has ended: what it has comes back, and arrives again
		p.residency.Doomed(now, id, requests)
	}
	if alive { // else what was held is gone, and a later life may have weights of that generation again (Adopt)
		p.touch(uint32(gpu))
		p.residency.Release(now, id, gpu, held)
	}
	p.forget(id)
}

// Done takes a backend's report: the batch ended at end, early or late.
func (p *Paged) Done(now mono.Time, id wire.GPUID, life devices.Life, done wire.BatchID, end mono.Time) {
	p.done(now, id, life, done, end)
}

// Refused takes a backend's report that it did not run the batch, and was free again at end. cold: it had no
// weights of the batch's generation.
func (p *Paged) Refused(now mono.Time, id wire.GPUID, life devices.Life, done wire.BatchID, end mono.Time, cold bool, out *Out) {
	if b, ok := p.done(now, id, life, done, end); ok && cold {
		p.residency.Missing(now, b.model, id, b.generation, &p.effects)
		p.apply(out)
	}
}

// done is the batch that ended; false: the GPU has none such.
func (p *Paged) done(now mono.Time, id wire.GPUID, life devices.Life, done wire.BatchID, end mono.Time) (batch, bool) {
	p.now = now
	if !p.gpus.Done(id, life, done, end) {
		return batch{}, false
	}
	p.fill.Ended(id, done)
	p.touch(uint32(id))
	list := p.undone[id]
	for i, b := range list {
		if b.id == done {
			p.undone[id] = append(list[:i], list[i+1:]...)
			if b.effort {
				p.residency.Return(now, b.model, id, b.generation)
				p.fill.freed = append(p.fill.freed, uint32(id))
			} else {
				p.residency.Ended(now, b.model, id, b.generation)
			}
			return b, true
		}
	}
	invariants.Check(false, "paged: a batch is undone in one table, and not in the other")
	return batch{}, false
}

// AddGPU begins a new life of a GPU that is free from freeAt on, has so many pages, and holds these models,
// least recently used first, of the generation that is returned.
func (p *Paged) AddGPU(now mono.Time, id wire.GPUID, freeAt mono.Time, pages int, held []wire.ModelID, out *Out) (devices.Life, residency.Generation) {
	weights := make([]residency.Weights, len(held))
	for i, name := range held {
		weights[i].Model = name
	}
	return p.Adopt(now, id, freeAt, pages, weights, out)
}

// Adopt is AddGPU of a GPU whose backend tells of which generations its weights are (residency.Adopt).
func (p *Paged) Adopt(now mono.Time, id wire.GPUID, freeAt mono.Time, pages int, held []residency.Weights, out *Out) (devices.Life, residency.Generation) {
	p.RemoveGPU(now, id, out)
	for int(id) >= len(p.ready) {
		p.ready, p.undone = append(p.ready, pq.Heap{}), append(p.undone, nil)
	}
	life := p.gpus.Add(id, freeAt)
	p.fill.Lost(id)
	generation := p.residency.Adopt(now, id, pages, held, &p.effects)
	p.apply(out)
	return life, generation
}

// RemoveGPU ends a GPU's life and forgets what it holds. An answer to a grant under way, and reports of
// its batches and loads, are ignored later.
func (p *Paged) RemoveGPU(now mono.Time, id wire.GPUID, out *Out) {
	p.now = now
	if !p.gpus.Present(id) {
		return
	}
	p.gpus.Remove(id)
	p.fill.Lost(id)
	p.undone[id] = p.undone[id][:0]
	p.residency.RemoveGPU(now, id, &p.effects)
	p.apply(out)
	p.touch(uint32(id))
}

// Loaded takes a loader's report; false: of a load that is not under way.
func (p *Paged) Loaded(now mono.Time, r residency.Report, out *Out) bool {
	p.now = now
	known := p.residency.Loaded(now, r, &p.effects)
	p.apply(out)
	return known
}

// Need is the GPUs that deferral alone would keep busy with what arrived lately, summed over
// the models.
func (p *Paged) Need(now mono.Time) float64 {
	if p.gpus.Sweeping(now) {
		for _, m := range p.models {
			if m != nil {
				p.gpus.Sweep(&m.usage)
			}
		}
	}
	return p.gpus.Need()
}
