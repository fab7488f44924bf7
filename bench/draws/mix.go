package draws

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Mix is some models on some GPUs, and how requests come. Its JSON is all that
// a simulation needs.
type Mix struct {
	Seed       uint64  `json:"seed"`
	Index      int     `json:"index"`
	GPUs       int     `json:"gpus"`
	Models     []Model `json:"models"`
	Arrivals   string  `json:"arrivals"` // poisson, uniform, or gamma:SHAPE
	Popularity string  `json:"popularity"`
	Change     string  `json:"change,omitempty"` // of the rate; see workload.ParseProfile
	Alone      bool    `json:"alone,omitempty"`  // the first model's rate changes, the others' do not
	Kind       string  `json:"kind"`             // oneProfile, mixedProfiles
}

// Kinds of a mix.
const (
	oneProfile    = "one profile"
	mixedProfiles = "mixed"
)

// Model is one model of a mix. Times are nanoseconds.
type Model struct {
	Alpha mono.Dur   `json:"alpha"`
	Beta  mono.Dur   `json:"beta"`
	Table []mono.Dur `json:"table,omitempty"` // l(1), l(2), ...; then Alpha and Beta are what it is made of
	SLO   mono.Dur   `json:"slo"`
	Share float64    `json:"share"` // of all requests
}

// Profile is the model's latency.
func (m *Model) Profile() (*profile.Profile, error) {
	if m.Table != nil {
		return profile.Table(m.Table)
	}
	return profile.Linear(m.Alpha, m.Beta, profile.BatchMax)
}

// single is l(1).
func (m *Model) single() mono.Dur {
	if m.Table != nil {
		return m.Table[0]
	}
	return m.Alpha + m.Beta
}

// process is the stream of the arrivals.
func (m *Mix) process() (workload.Stream, error) {
	name, shape, _ := strings.Cut(m.Arrivals, ":")
	s := workload.Stream{Process: workload.Process(name)}
	if shape != "" {
		if _, err := fmt.Sscanf(shape, "%g", &s.Shape); err != nil {
			return s, fmt.Errorf("arrivals %q: %w", m.Arrivals, err)
		}
	}
	return s, nil
}

// models are those of a simulation at that rate: requests/s of all models
// where nothing changes it.
func (m *Mix) models(rate float64) ([]sim.Model, error) {
	stream, err := m.process()
	if err != nil {
		return nil, err
	}
	var change *workload.Profile
	if m.Change != "" {
		if change, err = workload.ParseProfile(m.Change); err != nil {
			return nil, err
		}
	}
	out := make([]sim.Model, len(m.Models))
	for i := range m.Models {
		k := &m.Models[i]
		p, err := k.Profile()
		if err != nil {
			return nil, fmt.Errorf("%s, model %d: %w", m.Name(), i, err)
		}
		stream.Rate, stream.Profile = rate*k.Share, change
		if m.Alone && i > 0 {
			stream.Profile = nil
		}
		out[i] = sim.Model{Name: fmt.Sprintf("m%d", i), Profile: p, SLO: k.SLO, Stream: stream}
	}
	return out, nil
}

// fluid is the bound of even arrivals: about where to look.
func (m *Mix) fluid() (float64, error) {
	var loads []report.Load
	for i := range m.Models {
		p, err := m.Models[i].Profile()
		if err != nil {
			return 0, err
		}
		loads = append(loads, report.Load{Profile: p, SLO: m.Models[i].SLO, Share: m.Models[i].Share})
	}
	return report.Fluid(loads, m.GPUs), nil
}

// Name is how the mix is called.
func (m *Mix) Name() string { return fmt.Sprintf("%d/%d", m.Seed, m.Index) }

// String is the mix in a line.
func (m *Mix) String() string {
	over := func(of func(*Model) float64, unit string) string {
		var v []float64
		for i := range m.Models {
			v = append(v, of(&m.Models[i]))
		}
		low, high := slices.Min(v), slices.Max(v)
		if high < 1.005*low {
			return fmt.Sprintf("%.3g%s", low, unit)
		}
		return fmt.Sprintf("%.3g to %.3g%s", low, high, unit)
	}
	text := fmt.Sprintf("%d models on %d GPUs (%.2g a model), %s", len(m.Models), m.GPUs, m.PerModel(), m.Kind)
	if m.Models[0].Table != nil {
		text += ", tables"
	}
	text += fmt.Sprintf(", beta/alpha %s, l(1) %s, SLO %s = %s l(1), %s, %s",
		over(func(k *Model) float64 { return float64(k.Beta) / float64(k.Alpha) }, ""),
		over(func(k *Model) float64 { return k.single().Millis() }, " ms"),
		over(func(k *Model) float64 { return k.SLO.Millis() }, " ms"),
		over(func(k *Model) float64 { return float64(k.SLO) / float64(k.single()) }, ""), m.Popularity, m.Arrivals)
	switch {
	case m.Alone:
		text += ", first model " + m.Change
	case m.Change != "":
		text += ", " + m.Change
	}
	return text
}

// PerModel is the GPUs per model.
func (m *Mix) PerModel() float64 { return float64(m.GPUs) / float64(len(m.Models)) }

// Blocking is the longest batch that some model may run, as a part of another
// model's SLO, at worst: above 1 one batch can cost another model everything.
// How long a batch gets is what Staggered says on one GPU: l(b) <= SLO/2.
func (m *Mix) Blocking() float64 {
	worst := 0.0
	for i := range m.Models {
		p, err := m.Models[i].Profile()
		if err != nil {
			return 0
		}
		longest := p.Latency(p.Staggered(m.Models[i].SLO, 1))
		for k := range m.Models {
			if k != i || len(m.Models) == 1 {
				worst = max(worst, float64(longest)/float64(m.Models[k].SLO))
			}
		}
	}
	return worst
}
