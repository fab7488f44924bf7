package residency

import (
	"github.com/symphony-serving/symphony/scheduler/estimate"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Hold keeps the model on the GPU until Release: a grant is under way. It is the model's generation
// there; 0, and nothing is held, if the model is neither there nor loading.
func (r *Residency) Hold(id wire.ModelID, gpu wire.GPUID) Generation {
	m := r.model(id)
	if m == nil {
		return 0
	}
	p := r.places.of(m, gpu)
	if p == none {
		return 0
	}
	r.use(p, 1)
	return r.places.all[p].generation
}

// Release ends a Hold; one of another generation is ignored.
func (r *Residency) Release(_ mono.Time, id wire.ModelID, gpu wire.GPUID, gen Generation) {
	if p := r.find(id, gpu, gen); p != none {
		r.use(p, -1)
		r.changed = true
	}
}

// Began tells that a batch of the model's first n requests was sent to the GPU: they wait no longer, and
// the model is used there until Ended. It is the generation that the batch is to carry; 0, and only the
// requests are taken, if the model is neither there nor loading.
func (r *Residency) Began(now mono.Time, id wire.ModelID, gpu wire.GPUID, n int) Generation {
	m := r.model(id)
	if m == nil {
		return 0
	}
	r.take(m, n)
	m.asked = now
	gen := Generation(0)
	if p := r.places.of(m, gpu); p != none {
		r.use(p, 1)
		r.touch(now, p)
		gen = r.places.all[p].generation
	}
	r.refresh(now, id, m)
	r.changed = true
	return gen
}

// Ended tells that such a batch is done, refused or lost; one of another generation is ignored.
// Requests of it that wait again Arrive.
func (r *Residency) Ended(now mono.Time, id wire.ModelID, gpu wire.GPUID, gen Generation) {
	if p := r.find(id, gpu, gen); p != none {
		r.touch(now, p)
		r.use(p, -1)
		r.changed = true
	}
}

// Missing tells that a device refused a batch, for it has no weights of that generation. Where their load is not
// reported yet, no batch starts before the report or, if none comes, Lag; else they are gone, whoever
// took them, the model is displaced, and the GPU is ordered to forget them, lest it is the refusal that was late.
func (r *Residency) Missing(now mono.Time, id wire.ModelID, gpu wire.GPUID, gen Generation, out *Out) {
	p := r.find(id, gpu, gen)
	if p == none || !r.places.all[p].owned { // of a model that was removed: its Unload finds nothing
		return
	}
	if at := &r.places.all[p]; at.state == loading {
		at.from = max(at.from, now.Add(r.cfg.Lag))
		out.Places = append(out.Places, Place{id, gpu, gen, at.from})
	} else {
		r.gpus[gpu].unloaded += int(at.pages)
		r.drop(r.disown(p, out))
		out.Unloads = append(out.Unloads, Unload{Model: id, GPU: gpu, Generation: gen, Used: now})
		r.gpus[gpu].did.unloads[Stray]++
		r.counts.Lost++
		r.lookAtPins()
	}
	r.refresh(now, id, &r.models[id])
	r.retry()
}

// find is the place of a generation; none: it is no more. The model may have been removed meanwhile,
// and the place be nobody's: then it takes a walk over the GPU's.
func (r *Residency) find(id wire.ModelID, gpu wire.GPUID, gen Generation) int32 {
	if int(gpu) >= len(r.gpus) || !r.gpus[gpu].present || gen == 0 {
		return none
	}
	if m := r.model(id); m != nil {
		if p := r.places.of(m, gpu); p != none && r.places.all[p].generation == gen {
			return p
		}
	}
	for p := r.gpus[gpu].oldest; p != none; p = r.places.all[p].newer {
		if at := &r.places.all[p]; at.model == id && at.generation == gen {
			return p
		}
	}
	return none
}

// Has reports whether the GPU has or loads weights of a generation, also of a model that was removed and whose they were.
func (r *Residency) Has(id wire.ModelID, gpu wire.GPUID, gen Generation) bool {
	return r.find(id, gpu, gen) != none
}

// Holders appends the GPUs that have the model or are loading it, smallest id first.
func (r *Residency) Holders(id wire.ModelID, dst []Holder) []Holder {
	if m := r.model(id); m != nil {
		for p := m.holders; p != none; p = r.places.all[p].next {
			dst = append(dst, r.holder(p))
		}
	}
	return dst
}

// Held is the model's place on the GPU; false: it is neither there nor loading.
func (r *Residency) Held(id wire.ModelID, gpu wire.GPUID) (Holder, bool) {
	m := r.model(id)
	if m == nil {
		return Holder{}, false
	}
	p := r.places.of(m, gpu)
	if p == none {
		return Holder{}, false
	}
	return r.holder(p), true
}

func (r *Residency) holder(p int32) Holder {
	at := &r.places.all[p]
	return Holder{GPU: at.gpu, Generation: at.generation, From: at.from, Used: at.used, Loading: at.state == loading, Uses: int(at.uses)}
}

// Demand is d, the work of the model's requests that wait, and how many they are.
func (r *Residency) Demand(id wire.ModelID) (mono.Dur, int) {
	if m := r.model(id); m != nil {
		return m.demand, m.waiting.Len()
	}
	return 0, 0
}

// Share is a, the part of the model's demand that is the GPU's.
func (r *Residency) Share(id wire.ModelID, gpu wire.GPUID) mono.Dur {
	if m := r.model(id); m != nil {
		if p := r.places.of(m, gpu); p != none {
			return r.places.all[p].share
		}
	}
	return 0
}

// LoadOf is l of the GPU; 0 if it is not there.
func (r *Residency) LoadOf(gpu wire.GPUID) mono.Dur {
	if int(gpu) >= len(r.gpus) {
		return 0
	}
	return r.gpus[gpu].load
}

// Priority is p of the model as of now. To ask changes nothing.
func (r *Residency) Priority(now mono.Time, id wire.ModelID) mono.Dur {
	m := r.model(id)
	if m == nil {
		return 0
	}
	helpable := m.demand - m.lateWork
	horizon := now.Add(r.loadTime(now, m) + r.slackOf(now))
	for i := m.late; i < m.waiting.Len() && mono.Time(m.waiting.At(i).Key) < horizon; i++ {
		helpable -= mono.Dur(m.waiting.At(i).Value)
	}
	return r.priority(m, helpable)
}

// Pages are how many of the GPU's pages are free, and how many it has.
func (r *Residency) Pages(gpu wire.GPUID) (free, all int) {
	if int(gpu) >= len(r.gpus) {
		return 0, 0
	}
	return r.gpus[gpu].free, r.gpus[gpu].pages
}

// Weigh is what a request counts as in Arrive that takes so much GPU time, and has so long: as much as makes the
// load of a GPU reach Config.Capacity if it is to be full for all of that time, or for 1 ms. (Clockwork's code:
// with a quarter of the capacity's time, four times.)
func (r *Residency) Weigh(work, left mono.Dur) mono.Dur {
	return mono.Dur(float64(work) * float64(r.cfg.Capacity) / float64(max(mono.Millisecond, left)))
}

// Tight is when BySaving last found that no GPU whose loader is open has the pages that a model needs, even if all models
// without requests made room: requests that wait keep the others.
func (r *Residency) Tight() mono.Time { return r.tight }

// LoadTime is how long loads of the model take, by the last ones that succeeded: their p99.
func (r *Residency) LoadTime(id wire.ModelID) mono.Dur {
	if m := r.model(id); m != nil {
		return m.load.P99()
	}
	return 0
}

// Errors are how far loads ended from their planned ends: over is later.
func (r *Residency) Errors() *estimate.Errors { return &r.errors }

// Slack is how much later than planned the end of a load is to be expected.
func (r *Residency) Slack(now mono.Time) mono.Dur { return r.slackOf(now) }

// Counts are what was done since New.
func (r *Residency) Counts() Counts { return r.counts }
