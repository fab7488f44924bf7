package plan

// work emits what can be done for a sub-cluster, in an order that frees before it takes.
func (r *Rollout) work(s *sub) {
	r.leave(s)
	r.arrive(s)
	r.release(s)
	r.join(s)
	r.warm(s)
	r.gauge(s)
}

// leave takes models out of service that the plan does not have any more, once their
// successors are there.
func (r *Rollout) leave(s *sub) {
	for i := range s.routed.all() {
		m := r.models[i]
		if m.target != nil || m.failed != "" || m.routing || m.retry > r.now || r.awaited(m) != nil {
			continue
		}
		if r.under[Route] >= r.limits.Others {
			r.wait(s)
			return
		}
		r.route(m, nil, "")
	}
}

// awaited is a successor that is not routed yet.
func (r *Rollout) awaited(m *model) *model {
	for _, heir := range m.after {
		if heir.routed == nil && heir.home != nil {
			return heir
		}
	}
	return nil
}

// arrive routes models that all GPUs have.
func (r *Rollout) arrive(s *sub) {
	if s.target.within(s.routed) {
		return
	}
	for i := range s.target.without(s.routed) {
		m := r.models[i]
		if !r.ready(s, m) {
			continue
		}
		if r.under[Route] >= r.limits.Others {
			r.wait(s)
			return
		}
		if s.serving() >= r.required(s, m) {
			r.route(m, s, "")
		}
	}
}

// ready tells whether nothing but GPUs may be missing for m to be routed to s.
func (r *Rollout) ready(s *sub, m *model) bool {
	return !m.routing && m.retry <= r.now && m.profiled(s.deviceType) && s.serving() > 0 && (m.want == nil || *m.want == m.facts.Settings || m.unset != "") && s.everywhere(m)
}

func (r *Rollout) route(m *model, to *sub, why string) {
	m.routing, m.to = true, to
	if to != nil {
		to.coming.add(m.index)
		m.coming = append(m.coming, to)
	}
	r.emit(&flight{step: Step{Kind: Route, Why: why}, model: m, to: to})
}

// release drains GPUs that are to be elsewhere, the highest ids first, while the need of what is
// served here is kept.
func (r *Rollout) release(s *sub) {
	for i := len(s.gpus) - 1; i >= 0; i-- {
		g := s.gpus[i]
		if g.in != s || g.goal == s || g.seating != nil || g.retry[ofGPU] > r.now || !g.unload.empty() || r.ordered(g, Drain) || r.ordered(g, Seat) {
			continue
		}
		if g.state == Draining { // by whom does not matter
			r.drainNow(g, "")
			continue
		}
		left := s.serving()
		if !g.drain { // else nobody knows whether it serves, and it is not counted
			left--
		}
		if left < r.required(s, nil) {
			continue
		}
		if r.drained >= r.limits.Drained && !r.loose && !g.drained {
			r.wait(s)
			return
		}
		r.drainNow(g, "")
	}
}

// ordered tells whether such a step is under way on a GPU.
func (r *Rollout) ordered(g *gpu, k Kind) bool {
	if g.flights == 0 || r.under[k] == 0 {
		return false
	}
	for _, f := range r.flights {
		if f.gpu == g && f.step.Kind == k {
			return true
		}
	}
	return false
}

func (r *Rollout) drainNow(g *gpu, why string) {
	if !g.drained {
		g.drained = true
		r.drained++
	}
	g.drain = g.state == Serving
	r.emit(&flight{step: Step{Kind: Drain, Why: why}, gpu: g})
}

// join loads what GPUs on their way lack, and seats them.
func (r *Rollout) join(s *sub) {
	if len(s.due) == 0 {
		return
	}
	urgent := s.serving() < r.required(s, nil)
	for i := 0; i < len(s.due); i++ {
		g := s.due[i]
		switch {
		case g.state == Draining && g.in == s:
			r.turnBack(g, s)
			continue
		case g.state != Free || g.measure || g.seating != nil && g.seating != s || g.loads >= r.limits.LoadsGPU:
			continue
		}
		missing := r.loadFor(g, s, urgent)
		if g.flights > 0 || g.retry[ofGPU] > r.now || !r.whole(g, s) {
			continue
		}
		if !missing && !r.gauges(g, s) || urgent || r.loose {
			if r.under[Seat] >= r.limits.Others {
				r.wait(s)
				return
			}
			r.seat(g, s)
		}
	}
}

// turnBack ends a drain, if the GPU still has all that is served. Else it is drained, and loads it.
func (r *Rollout) turnBack(g *gpu, s *sub) {
	switch {
	case g.flights > 0 || g.retry[ofGPU] > r.now:
	case r.whole(g, s):
		r.seat(g, s)
	default:
		r.drainNow(g, "")
	}
}

// enough: as much is being loaded as may be.
func (r *Rollout) enough() bool { return r.under[Load]+r.under[Unload] >= r.limits.Loads }

// whole tells whether a GPU has all that is served in a sub-cluster.
func (r *Rollout) whole(g *gpu, s *sub) bool {
	return s.routed.within(g.resident) && s.coming.within(g.resident)
}

func (r *Rollout) seat(g *gpu, s *sub) {
	r.place(g, g.state, g.in, s)
	r.emit(&flight{step: Step{Kind: Seat}, gpu: g, to: s})
}

// loadFor loads what a free GPU lacks of its goal's models: first those that are served there
// and stay, then those to come, and those that leave only when nothing else can go on: they
// might be gone first. It tells whether any of the first two is still to come.
func (r *Rollout) loadFor(g *gpu, s *sub, urgent bool) (missing bool) {
	if r.enough() && !s.target.within(g.resident) {
		r.starve(s)
		return true
	}
	try := func(i int) (more bool) {
		m := r.models[i]
		if g.ordered.has(i) {
			missing = true
			return true
		}
		if !m.profiled(s.deviceType) && !s.routed.has(i) {
			return true // measured first (gauge)
		}
		switch r.load(g, m) {
		case sent, later:
			missing = true
		case full:
			missing = true
			r.starve(s)
			return false
		}
		return g.loads < r.limits.LoadsGPU
	}
	for i := range s.target.without(g.resident) {
		if s.routed.has(i) && !try(i) {
			return true
		}
	}
	for i := range s.target.without(g.resident) {
		if !s.routed.has(i) && (g.ordered.has(i) || r.fitsBeside(g, r.models[i], s)) && !try(i) {
			return true
		}
	}
	for i := range s.coming.without(g.resident) {
		if !try(i) {
			return true
		}
	}
	if r.loose || urgent {
		for i := range s.routed.without(g.resident) {
			if !try(i) {
				return true
			}
		}
	}
	return missing
}

// warm loads on the GPUs in service the models that are to come.
func (r *Rollout) warm(s *sub) {
	if len(s.gpus) == 0 || s.target.within(s.routed) {
		return
	}
	for i := range s.target.without(s.routed) {
		m := r.models[i]
		if !m.profiled(s.deviceType) || s.everywhere(m) {
			continue
		}
		if !m.active && r.warming >= r.limits.Warming && !r.loose {
			r.wait(s)
			return
		}
		if moving, more := r.warmModel(s, m); !more {
			return
		} else if moving != m.active {
			m.active = moving
			if moving {
				r.warming++
			} else {
				r.warming--
				r.admit()
			}
		}
	}
}

// warmModel loads a model on the GPUs in service that lack it. moving: some load or may soon;
// more: no limit of the whole roll-out was reached.
func (r *Rollout) warmModel(s *sub, m *model) (moving, more bool) {
	for _, g := range s.gpus {
		if !s.counts(g) || g.resident.has(m.index) {
			continue
		}
		if g.ordered.has(m.index) {
			moving = true
			continue
		}
		switch r.load(g, m) {
		case sent, later:
			moving = true
		case full:
			r.starve(s)
			return true, false
		}
	}
	return moving, true
}

// outcome of an attempt to load.
type outcome uint8

const (
	sent    outcome = iota // it is under way
	later                  // the GPU is busy, or the last attempt was just now
	full                   // the roll-out has enough under way
	blocked                // the GPU has no room, and nothing there that nobody wants
)

// load orders a model onto a GPU, or what makes room for it.
func (r *Rollout) load(g *gpu, m *model) outcome {
	switch {
	case g.retry[m.index] > r.now || g.measure || g.unload.has(m.index) || r.busy(g):
		return later
	case r.enough():
		return full
	case !r.fits(g, m):
		return r.makeRoom(g, m)
	}
	g.ordered.add(m.index)
	g.loads++
	g.host.loads++
	m.loads++
	r.emit(&flight{step: Step{Kind: Load, Why: r.disturbs(g, m)}, gpu: g, model: m})
	return sent
}

// busy: the GPU or its host has enough to load.
func (r *Rollout) busy(g *gpu) bool {
	if g.loads >= r.limits.LoadsGPU {
		return true
	}
	if g.host.loads < r.limits.LoadsHost {
		return false
	}
	for _, s := range []*sub{g.in, g.goal} {
		if s != nil {
			g.host.hungry = append(g.host.hungry, s)
		}
	}
	return true
}

// makeRoom unloads what nobody wants on a GPU, and on one that is to join a sub-cluster, for a
// model that is served there, also those that are not served yet.
func (r *Rollout) makeRoom(g *gpu, m *model) outcome {
	if r.discard(g, false) {
		return later
	}
	if s := g.goal; s != nil && g.state == Free && g.seating == nil && (s.routed.has(m.index) || s.coming.has(m.index)) && r.discard(g, true) {
		return later
	}
	if !g.unload.empty() || !g.ordered.empty() || !g.loading.empty() {
		return later
	}
	return blocked
}

// discard unloads what is on a GPU for nothing, or also what is not served. It tells whether
// there was anything.
func (r *Rollout) discard(g *gpu, unserved bool) bool {
	if g.state != Free && g.state != Serving || g.measure || g.retry[ofGPU] > r.now || r.busy(g) {
		return false
	}
	var gone set
	gone.copyOf(g.resident)
	gone.or(g.leaving)
	gone.drop(g.unload)
	gone.drop(g.stays)
	for _, s := range []*sub{g.in, g.goal, g.seating} {
		if s != nil {
			gone.drop(s.routed)
			gone.drop(s.coming)
			if !unserved {
				gone.drop(s.target)
			}
		}
	}
	var keys []string
	for i := range gone.all() {
		if r.toGauge(g, r.models[i]) {
			gone.del(i)
			continue
		}
		keys = append(keys, r.models[i].facts.Key)
	}
	if len(keys) == 0 {
		return false
	}
	g.resident.drop(gone)
	g.leaving.or(gone)
	g.unload.or(gone)
	g.loads++
	g.host.loads++
	r.emit(&flight{step: Step{Kind: Unload, Models: keys}, gpu: g, gone: gone})
	return true
}
