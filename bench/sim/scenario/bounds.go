package scenario

import (
	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/bench/workload"
)

// Bounds on the goodput, in requests/s; 0 where one does not apply. Missing is
// why there is none; "" where there is one, and in older records.
type Bounds struct {
	Staggered float64 `json:"staggered_rps"` // of one model alone
	Fluid     float64 `json:"fluid_rps"`
	Missing   string  `json:"missing,omitempty"`
}

// bounds of a cluster whose GPUs stay. They are of regular arrivals: where
// requests come in denser groups than a Poisson process has, more of them find
// a batch open than their rate tells, and a scheduler may be above both.
func (p *Plan) bounds() Bounds {
	gpus, loads := p.Scenario.GPUs, p.loads()
	if why := p.boundless(); why != "" {
		return Bounds{Missing: why}
	}
	b := Bounds{Fluid: report.Fluid(loads, gpus)}
	if len(loads) == 1 {
		_, b.Staggered = report.Staggered(loads[0].Profile, loads[0].SLO, gpus)
	}
	return b
}

// boundless is the first reason why no bound applies, or "".
func (p *Plan) boundless() string {
	switch {
	case p.trace != nil:
		return "arrivals are a trace's"
	case p.stream.Profile != nil:
		return "the rate changes (--rate-profile)"
	case p.stream.Process == workload.Gamma && p.stream.Shape < 1:
		return "arrivals are bursty (" + p.Scenario.Arrivals + ")"
	case len(p.events) > 0:
		return "GPUs come and go (--gpu-event)"
	}
	return ""
}

// loads is the mix. What the scheduler plans for the network comes off the
// SLOs: no batch uses it.
func (p *Plan) loads() []report.Load {
	var out []report.Load
	for i, m := range p.models {
		delay := p.network.Bound.Of(1) + p.network.Bound.Ctrl
		out = append(out, report.Load{Profile: m.Profile, SLO: m.SLO - delay, Share: p.shares[i]})
	}
	return out
}
