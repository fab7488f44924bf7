package plan

import "slices"

// Measuring: a model of which there is no profile on the sub-cluster's device type is loaded on
// one GPU alone and measured there, before the others load it. What runs beside a measurement is
// disturbed by it, and makes the profile wrong, so the GPU is one that is on its way here, idle,
// or free; else one of the sub-cluster's is drained for it, and comes back. Only where none can
// be spared does one measure in the gaps of what it serves; the steps say so.

const (
	// missesMax bounds the search for GPUs to measure on.
	missesMax = 4
	// gaugesMax is how many models wait for one GPU at a time: so they spread over those there are.
	gaugesMax = 2
	// gaugesShare is how many models are to be measured for each GPU that is drained for it.
	gaugesShare = 4
)

// appoint has a GPU measure a model; nil: none does.
func (r *Rollout) appoint(m *model, g *gpu) {
	if m.gauge != nil {
		m.gauge.gauges--
	}
	if m.gauge = g; g != nil {
		g.gauges++
	}
}

// gauge measures models, or has GPUs made ready for it.
func (r *Rollout) gauge(s *sub) {
	if s.target.within(s.routed) {
		return
	}
	misses := 0
	for i := range s.target.without(s.routed) {
		m := r.models[i]
		if m.profiled(s.deviceType) || m.gauging || m.retry > r.now {
			continue
		}
		if m.gauge == nil || !r.mayGauge(m.gauge, s) && !r.inGaps(m.gauge, m, s) {
			r.appoint(m, nil)
			if misses < missesMax {
				r.appoint(m, r.gaugeFor(m, s))
			}
			if m.gauge == nil {
				misses++
				continue
			}
		}
		g := m.gauge
		switch {
		case g.ordered.has(i):
		case !g.resident.has(i):
			if r.load(g, m) == blocked {
				r.appoint(m, nil)
			}
		case g.flights == 0 && r.under[Measure] < r.limits.Others:
			m.gauging, g.measure = true, true
			r.emit(&flight{step: Step{Kind: Measure, Why: r.disturbs(g, m)}, gpu: g, model: m})
		case g.flights == 0:
			r.wait(s)
		}
	}
}

// mayGauge tells whether a GPU may measure for a sub-cluster.
func (r *Rollout) mayGauge(g *gpu, s *sub) bool {
	return g.facts.DeviceType == s.deviceType && !g.facts.Leaving && g.seating == nil && (g.state == Free || g.state == Serving && !g.drain && g.facts.Idle && g.in == s)
}

// inGaps tells whether a GPU may measure a model in the gaps of what it serves.
func (r *Rollout) inGaps(g *gpu, m *model, s *sub) bool {
	return m.squeezed && g.in == s && g.state == Serving && !g.drain && g.goal == s && g.seating == nil
}

// disturbs is what it costs to load and measure a model on a GPU; "": nothing.
func (r *Rollout) disturbs(g *gpu, m *model) string {
	if m.gauge != g || g.state != Serving || g.facts.Idle || m.profiled(g.facts.DeviceType) {
		return ""
	}
	return "measured in the gaps of what the GPU serves: " + g.in.name + " can spare none"
}

// gaugeFor finds a GPU to measure on: one that has the model already is best. Where too few can,
// one of the sub-cluster's is drained for it.
func (r *Rollout) gaugeFor(m *model, s *sub) (best *gpu) {
	score, able := -1, 0
	m.squeezed = false
	for k, list := range [...][]*gpu{s.due, s.gpus, r.gpus} {
		if score > 0 && k == 2 {
			break // the sub-cluster has one itself
		}
		for _, g := range list {
			if !r.mayGauge(g, s) || !g.resident.has(m.index) && !r.fits(g, m) && !r.loose {
				continue
			}
			if able++; g.measure || g.gauges >= gaugesMax {
				continue
			}
			n := 0
			for i, good := range [...]bool{g.flights == 0 && g.gauges == 0, g.goal == nil || g.goal == s, g.state == Free, g.resident.has(m.index)} {
				if good {
					n += 1 << i
				}
			}
			if n > score {
				best, score = g, n
			}
		}
	}
	if best != nil {
		return best
	}
	return r.spareFor(m, s, able)
}

// spareFor drains a GPU of the sub-cluster to measure on, if the rest is enough. If nobody can be
// spared, and nobody is on its way, one measures in its gaps. able can measure, and are busy.
func (r *Rollout) spareFor(m *model, s *sub, able int) *gpu {
	out := able
	for _, g := range s.due {
		if !r.mayGauge(g, s) { // else it is counted
			out++
		}
	}
	for _, g := range s.gpus {
		if g.drain {
			out++
		}
	}
	if out > 0 && (out*gaugesShare >= r.ungauged(s) || !r.canSpare(s)) && !(r.loose && able == 0) {
		return nil // they will
	}
	if r.canSpare(s) {
		if r.drained >= r.limits.Drained && !r.loose {
			r.wait(s)
			return nil
		}
		busy := false
		for i := len(s.gpus) - 1; i >= 0; i-- {
			g := s.gpus[i]
			if g.in != s || g.state != Serving || g.drain || g.goal != s || slices.Contains(g.barred, nil) || !g.resident.has(m.index) && !r.fits(g, m) {
				continue
			}
			if g.flights > 0 || g.retry[ofGPU] > r.now {
				busy = true
				continue
			}
			r.drainNow(g, "")
			return nil
		}
		if busy && !r.loose {
			return nil
		}
	}
	return r.squeeze(m, s)
}

// canSpare tells whether the sub-cluster keeps its need without one of its GPUs.
func (r *Rollout) canSpare(s *sub) bool { return s.serving()-1 >= r.required(s, nil) }

// ungauged is how many of its models are to be measured.
func (r *Rollout) ungauged(s *sub) (n int) {
	for i := range s.target.without(s.routed) {
		if !r.models[i].profiled(s.deviceType) {
			n++
		}
	}
	return n
}

// squeeze finds a GPU that measures a model in its gaps.
func (r *Rollout) squeeze(m *model, s *sub) (best *gpu) {
	m.squeezed = true
	for _, g := range s.gpus {
		if !r.inGaps(g, m, s) || g.measure || g.gauges >= gaugesMax || !g.resident.has(m.index) && !r.fits(g, m) {
			continue
		}
		if best == nil || g.gauges < best.gauges {
			best = g
		}
	}
	return best
}

// Profiled hands in that there is a profile of a model on a device type. The facts will say its
// need.
func (r *Rollout) Profiled(key, deviceType string) {
	m := r.byKey[key]
	if m == nil || m.profiled(deviceType) {
		return
	}
	m.facts.Profiles = append(slices.Clip(m.facts.Profiles), Profile{DeviceType: deviceType})
	r.gauged(m)
	r.touch(m.target)
	r.moved()
}

// gauged ends the search for who measures a model of which there is a profile.
func (r *Rollout) gauged(m *model) {
	g := m.gauge
	if g == nil || m.gauging || !m.profiled(g.facts.DeviceType) {
		return
	}
	r.appoint(m, nil)
	r.touch(g.in)
	r.touch(g.goal)
}

// gauges: a GPU that could join a sub-cluster stays out of it as long as it measures, or is to.
func (r *Rollout) gauges(g *gpu, s *sub) bool {
	for i := range s.target.without(s.routed) {
		m := r.models[i]
		if !m.profiled(s.deviceType) && (m.gauge == g || m.gauge == nil && r.mayGauge(g, s)) {
			return true
		}
	}
	return false
}

// toGauge tells whether a GPU keeps a model to measure it.
func (r *Rollout) toGauge(g *gpu, m *model) bool {
	if m.gauging && m.gauge == g {
		return true
	}
	to := m.target
	return to != nil && to.target.has(m.index) && to.deviceType == g.facts.DeviceType && !m.profiled(to.deviceType) && (m.gauge == g || m.gauge == nil && g.state == Free)
}
