package scenario

import "github.com/symphony-serving/symphony/bench/report"

// Bounds on the goodput, in requests/s; 0 where one does not apply.
type Bounds struct {
	Staggered float64 `json:"staggered_rps"` // of one model alone
	Fluid     float64 `json:"fluid_rps"`
}

// bounds of a cluster whose GPUs stay.
func (p *Plan) bounds() Bounds {
	gpus, loads := p.Scenario.GPUs, p.loads()
	if len(p.events) > 0 {
		return Bounds{}
	}
	b := Bounds{Fluid: report.Fluid(loads, gpus)}
	if len(loads) == 1 {
		_, b.Staggered = report.Staggered(loads[0].Profile, loads[0].SLO, gpus)
	}
	return b
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
