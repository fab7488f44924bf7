package lead

import (
	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Settings of a model come from three places, each before the next: what orders have set since the
// scheduler began (catalog.ModelFacts.Set), what the order to load it said, and what its own
// config.yaml says. What people want goes before the last alone: taken back, it is config.yaml's.

// takeSettings learns which settings orders have put in force, of this controller and of those
// before it.
func (l *Lead) takeSettings(f *catalog.Facts) {
	for i := range f.Models {
		if set := f.Models[i].Set; set != nil {
			l.inForce[f.Models[i].Key] = overlaid(plan.Settings{}, set)
		}
	}
}

// overlaid are settings with those in place that are said.
func overlaid(s plan.Settings, by *catalog.Settings) plan.Settings {
	if by == nil {
		return s
	}
	if by.SLO != nil {
		s.SLO = mono.Dur(*by.SLO)
	}
	if by.MaxBatch != nil {
		s.MaxBatch = *by.MaxBatch
	}
	if by.DropPolicy != nil {
		s.Drop = dropOf(*by.DropPolicy)
	}
	return s
}

// wished are the settings that a version is to have on a device type where it is known.
func (w *world) wished(v *version, deviceType string) plan.Settings {
	a := w.aboutOf(v.key, deviceType)
	s, own := v.sets(), overlaid(filled(plan.Settings{}, a.spec), a.own)
	if s.SLO == 0 {
		s.SLO = own.SLO
	}
	if s.MaxBatch == 0 {
		s.MaxBatch = own.MaxBatch
	}
	if s.Drop == "" {
		s.Drop = own.Drop
	}
	return s
}

// filled are settings with what is not said as backends have it.
func filled(s plan.Settings, spec *catalog.ModelSpec) plan.Settings {
	if s.SLO == 0 {
		s.SLO = spec.SLO
	}
	if s.MaxBatch == 0 {
		s.MaxBatch = spec.MaxBatch
	}
	if s.Drop == "" {
		s.Drop = dropOf(spec.DropPolicy)
	}
	return s
}

// dropOf is a drop policy by its name: the default has one, too.
func dropOf(name string) string {
	if name == "" {
		return "target"
	}
	return name
}
