package paged

import "github.com/symphony-serving/symphony/transport/mono"

// How long candidates wait that could start.
//
// Deferral lets a batch grow, so fewer GPUs do the same work; it costs nearly all of each SLO, also while GPUs have nothing to
// do, and a model keeps its pages until its requests have run. In the order of their latest starts on whoever holds them, batches
// grow by themselves once all holders are busy: so all peaks that were measured are the same without it (docs/decisions/0059). So a
// candidate that is Eager starts as soon as a holder has its weights and is free, but
//
//   - while requests of best effort wait the whole deferral is spent: then GPU time is worth something, and those
//     who have a deadline leave all that they can;
//   - while pages are short nothing is deferred, even if it is not Eager: requests that wait keep the weights that they need,
//     and nothing else can be loaded. 30 models asked at once with room for ten were 12 served.
//
// When that changes by itself, candidates that there are stay as they were set, until their model's next one or a change of its
// holders: who is deferred waits for its exec, which is in time, and who is ready, or about to be, may start before it. Only where
// pages become short all are set anew (tighten).
//
// Eager or not, a free GPU takes the candidate that is due first: who waits for a busy GPU is as before.
//
// Rejected: to defer where the work that arrives, each request alone, is 0.6 of the GPUs and more, but for models
// too rare to gather anybody. Equal within what can be told over all loads, SLOs and mixes that were tried, with two
// rates to learn; it keeps fewer GPUs busy between, which is what a limited headroom is for.

// shortFor is for how long pages count as short after a load found none. What was deferred till then starts within
// some batches' time; much longer keeps who could wait from gathering.
const shortFor = 50 * mono.Millisecond

// eager tells whether candidates start as soon as they can.
func (p *Paged) eager() bool {
	return p.now < p.short || p.cfg.Eager && !p.fill.Waiting()
}

// Eager tells whether they did as of the last call: what is in force.
func (p *Paged) Eager() bool { return p.eager() }

// exec is the start that the model's candidate waits for: it is due then.
func (p *Paged) exec(m *model) mono.Time {
	if p.eager() {
		return m.told
	}
	return p.deferred(m)
}

// deferred is the same under deferral.
func (p *Paged) deferred(m *model) mono.Time {
	exec := m.candidate.Exec
	if p.cfg.WholeDeferral {
		exec = m.candidate.Deferred()
	}
	if p.cfg.NoLead {
		return exec
	}
	return exec.Add(-p.leads.of(len(m.places)))
}

// tighten has all start that can if residency has just found too few pages.
func (p *Paged) tighten() {
	if p.residency.Tight() != p.now {
		return
	}
	was := p.now < p.short
	p.short = p.now.Add(shortFor)
	if was {
		return
	}
	for id, m := range p.models { // as rare as each shortFor
		if m != nil && m.candidate.Size > 0 && !m.granting && !m.ready && len(m.places) > 0 {
			p.timers.Set(uint32(id), int64(p.now))
		}
	}
}

// waited learns from a candidate that finds a holder at that instant, or is lost then; the holder's weights are there from `from`
// on. Of a start before deferral's nothing is learnt of leads.
func (p *Paged) waited(m *model, from, at mono.Time) {
	if !m.ready {
		p.leads.queued(0)
		if !p.eager() {
			p.leads.wait(len(m.places), 0)
		}
		return
	}
	p.leads.queued(max(0, at.Sub(max(m.since, from))))
	if at >= m.due || !p.eager() {
		p.leads.wait(len(m.places), max(0, at.Sub(max(m.due, from))))
	}
}
