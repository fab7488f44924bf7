package paper

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Model is Count models that are alike.
type Model struct {
	Name        string
	Alpha, Beta float64 // ms: l(b) = Alpha*b + Beta
	SLO         float64 // ms
	Count       int     `json:",omitempty"` // 0 means 1
	Weight      float64 `json:",omitempty"` // each one's requests, against the others'; 0 means 1
}

// Workload is models, their arrivals, and the cluster.
type Workload struct {
	Models     []Model
	GPUs       int
	Popularity string  `json:",omitempty"` // "" or equal, zipf:S over the models in their order
	Arrivals   string  `json:",omitempty"` // "" means poisson; gamma, uniform, constant
	Shape      float64 `json:",omitempty"` // of gamma
	Profile    string  `json:",omitempty"` // of the rate over time, see workload.ParseProfile
	Network    Network `json:",omitzero"`
}

// Network delays messages and inputs; the zero Network does not. Delays are in
// us: one number is constant, five are the quantiles of sim.Quantiles.
type Network struct {
	Ctrl, Data           []float64 `json:",omitempty"`
	BoundCtrl, BoundData float64   `json:",omitempty"` // what the scheduler plans with
}

// batchMax bounds batches; the paper names no bound, and none is ever near.
const batchMax = 256

// ModelsOf describes models of a zoo.
func ModelsOf(models []zoo.Model) []Model {
	var out []Model
	for _, m := range models {
		out = append(out, Model{Name: m.Name, Alpha: m.Alpha.Millis(), Beta: m.Beta.Millis(), SLO: m.SLO.Millis()})
	}
	return out
}

// Find is the model of that name.
func Find(models []Model, name string) Model {
	for _, m := range models {
		if m.Name == name {
			return m
		}
	}
	panic("no model " + name + " in the zoo") // a figure's own mistake
}

// profileOf is its latency profile.
func (m *Model) profileOf() (*profile.Profile, error) {
	return profile.Linear(mono.FromMillis(m.Alpha), mono.FromMillis(m.Beta), batchMax)
}

func (m *Model) count() int { return max(1, m.Count) }

// part is one model of an expanded workload.
type part struct {
	model   int // index in Workload.Models
	profile *profile.Profile
	share   float64 // of all requests
}

// parts expands the counts.
func (w *Workload) parts() ([]part, error) {
	var out []part
	for i := range w.Models {
		p, err := w.Models[i].profileOf()
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", w.Models[i].Name, err)
		}
		for range w.Models[i].count() {
			out = append(out, part{model: i, profile: p})
		}
	}
	shares, err := workload.Shares(w.Popularity, len(out))
	if err != nil {
		return nil, err
	}
	sum := 0.0
	for i := range out {
		out[i].share = shares[i]
		if v := w.Models[out[i].model].Weight; v > 0 {
			out[i].share *= v
		}
		sum += out[i].share
	}
	for i := range out {
		out[i].share /= sum
	}
	return out, nil
}

// groups puts models that are alike, and as popular, together.
func (w *Workload) groups() ([]int, error) {
	parts, err := w.parts()
	if err != nil {
		return nil, err
	}
	type alike struct {
		model int
		share float64
	}
	first := map[alike]int{}
	out := make([]int, len(parts))
	for i, p := range parts {
		k := alike{p.model, p.share}
		if _, ok := first[k]; !ok {
			first[k] = i
		}
		out[i] = first[k]
	}
	return out, nil
}

// config is the simulation of a system under this workload.
func (w *Workload) config(sys scenario.Policy, rate float64, seed uint64, seconds, warmup float64) (*sim.Config, error) {
	parts, err := w.parts()
	if err != nil {
		return nil, err
	}
	var over *workload.Profile
	if w.Profile != "" {
		if over, err = workload.ParseProfile(w.Profile); err != nil {
			return nil, err
		}
	}
	arrivals := workload.Poisson
	if w.Arrivals != "" {
		arrivals = workload.Process(w.Arrivals)
	}
	c := &sim.Config{GPUs: w.GPUs, Seed: seed, Warmup: mono.FromSeconds(warmup), Duration: mono.FromSeconds(seconds),
		NewPolicy: sys.New, Frontends: sys.Frontends}
	for _, p := range parts {
		m := &w.Models[p.model]
		c.Models = append(c.Models, sim.Model{Name: m.Name, Profile: p.profile, SLO: mono.FromMillis(m.SLO),
			Stream: workload.Stream{Process: arrivals, Shape: w.Shape, Rate: rate * p.share, Profile: over}})
	}
	c.Network, err = w.Network.network()
	return c, err
}

func (n *Network) network() (sim.Network, error) {
	ctrl, err := delays(n.Ctrl)
	if err != nil {
		return sim.Network{}, err
	}
	data, err := delays(n.Data)
	us := func(v float64) mono.Dur { return mono.FromMillis(v / 1000) }
	return sim.Network{Ctrl: ctrl, Data: data, Bound: batching.Delay{Ctrl: us(n.BoundCtrl), Data: us(n.BoundData)}}, err
}

func delays(us []float64) (sim.Delays, error) {
	d := make([]mono.Dur, len(us))
	for i, v := range us {
		d[i] = mono.FromMillis(v / 1000)
	}
	switch len(d) {
	case 0:
		return sim.Delays{}, nil
	case 1:
		return sim.Constant(d[0]), nil
	case 5:
		return sim.Quantiles(d[0], d[1], d[2], d[3], d[4]), nil
	}
	return sim.Delays{}, fmt.Errorf("%w: %d numbers for a delay, must be none, 1 or 5", sim.ErrInvalid, len(us))
}

// hopeless is whether some model can never serve a request in time.
func (w *Workload) hopeless() bool {
	for i := range w.Models {
		m := &w.Models[i]
		if m.SLO < m.Alpha+m.Beta+(2*w.Network.BoundCtrl+w.Network.BoundData)/1000 {
			return true
		}
	}
	return false
}

// Fluid is the bound on the goodput when each model gathers for as long as its
// SLO allows and no GPU is ever idle. What the scheduler plans for the network
// comes off the SLOs: no batch uses it. For bursty arrivals it is no bound; see
// report.Fluid and fluidCell.
func (w *Workload) Fluid() (float64, error) {
	parts, err := w.parts()
	if err != nil {
		return 0, err
	}
	n, err := w.Network.network()
	if err != nil {
		return 0, err
	}
	delay := n.Bound.Of(1) + n.Bound.Ctrl
	var loads []report.Load
	for _, p := range parts {
		loads = append(loads, report.Load{Profile: p.profile, SLO: mono.FromMillis(w.Models[p.model].SLO) - delay, Share: p.share})
	}
	return report.Fluid(loads, w.GPUs), nil
}

// bursty is whether requests come in denser groups than a Poisson process has:
// more of them find a batch open than its rate tells.
func (w *Workload) bursty() bool {
	return w.Profile != "" || w.Arrivals == string(workload.Gamma) && w.Shape < 1
}

// fluidCell is the bound for a table; "-" where arrivals are bursty.
func (w *Workload) fluidCell() (string, error) {
	if w.bursty() {
		return "-", nil
	}
	fluid, err := w.Fluid()
	return Rate(fluid), err
}

// Staggered is the bound of section 3.3; it is one for a single model only,
// and 0 for others.
func (w *Workload) Staggered() (batch int, rate float64, err error) {
	if len(w.Models) != 1 || w.Models[0].count() != 1 {
		return 0, 0, nil
	}
	p, err := w.Models[0].profileOf()
	if err != nil {
		return 0, 0, err
	}
	batch, rate = report.Staggered(p, mono.FromMillis(w.Models[0].SLO), w.GPUs)
	return batch, rate, nil
}
