package soak

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Model is an emulated model of the soak: a batch of b takes Alpha*b + Beta.
type Model struct {
	Name   string   `json:"name"`
	Alpha  mono.Dur `json:"alpha_ns"`
	Beta   mono.Dur `json:"beta_ns"`
	SLO    mono.Dur `json:"slo_ns"`
	Floats int      `json:"floats"` // of its input
	Echo   int      `json:"echo"`   // of its output: the first of its input
}

const (
	batchMax   = 32
	bodyMax    = 8 << 20
	arenaBytes = 32 << 20 // of each frontend: small, so that a slab that is not given back is missed
)

// Config of a soak.
type Config struct {
	Binary   string   `json:"-"` // of symphony
	Seed     uint64   `json:"seed"`
	Warmup   mono.Dur `json:"warmup_ns"`
	Duration mono.Dur `json:"duration_ns"` // after it
	Load     float64  `json:"load"`        // share of the GPUs' capacity
	Every    mono.Dur `json:"every_ns"`    // mean span from fault to fault
	Settle   mono.Dur `json:"settle_ns"`   // until a window ends, after all parts are whole again
	Sample   mono.Dur `json:"sample_ns"`   // between looks at the processes
	Kinds    []Kind   `json:"kinds"`

	Models                       []Model `json:"models"`
	Backends, Frontends, Clients int
	GPUsEach                     int // of each backend

	// Progress is called every ProgressEvery.
	Progress      func(Progress) `json:"-"`
	ProgressEvery mono.Dur       `json:"-"`
}

// DefaultModels differ in what batching gains and in the size of their inputs. Their
// batches are long, as of large models: so GPUs are busy at a rate that two cores carry
// beside everything else.
func DefaultModels() []Model {
	const ms = mono.Millisecond
	return []Model{
		{"small", 6 * ms, 20 * ms, 250 * ms, 8, 8},
		{"even", 20 * ms, 5 * ms, 300 * ms, 1024, 1024},
		{"steep", 3 * ms, 60 * ms, 400 * ms, 4096, 4096},
		{"large", 15 * ms, 60 * ms, 500 * ms, 37632, 8}, // 150 KB, an image
	}
}

// Default is a soak of half an hour.
func Default() Config {
	return Config{Seed: 1, Warmup: 10 * mono.Second, Duration: 1800 * mono.Second, Load: 0.7, Every: 15 * mono.Second, Settle: 3 * mono.Second,
		Sample: 5 * mono.Second, Kinds: Kinds(), Models: DefaultModels(), Backends: 4, Frontends: 2, Clients: 2, GPUsEach: 4, ProgressEvery: 10 * mono.Second}
}

// Capacity is the requests/s that the GPUs carry if all models are asked equally
// often: the bound report.Fluid.
func (c Config) Capacity() float64 {
	var mix []report.Load
	for _, m := range c.Models {
		p, err := profile.Linear(m.Alpha, m.Beta, batchMax)
		if err != nil {
			return 0
		}
		mix = append(mix, report.Load{Profile: p, SLO: m.SLO, Share: 1 / float64(len(c.Models))})
	}
	return report.Fluid(mix, c.Backends*c.GPUsEach)
}

// Rate is what is offered, requests/s.
func (c Config) Rate() float64 { return c.Load * c.Capacity() }

// PlanOf is the plan of a run. Each backend has a link to the scheduler, each frontend
// another and its HTTP clients', each client two.
func PlanOf(c Config) []Fault {
	return Plan(PlanConfig{Seed: c.Seed, Duration: c.Duration, Every: c.Every, Kinds: c.Kinds, Backends: c.Backends, Frontends: c.Frontends,
		Links: len(c.linkNames())})
}

// linkNames are the links' names, in the order in which a cluster makes them.
func (c Config) linkNames() (names []string) {
	for i := range c.Backends {
		names = append(names, fmt.Sprintf("backend-%d to scheduler", i))
	}
	for i := range c.Frontends {
		names = append(names, fmt.Sprintf("frontend-%d to scheduler", i), fmt.Sprintf("HTTP to frontend-%d", i))
	}
	for i := range c.Clients {
		names = append(names, fmt.Sprintf("client-%d to scheduler", i), fmt.Sprintf("backends to client-%d", i))
	}
	return names
}

// Target is what a fault hits, in words.
func (c Config) Target(f Fault) string {
	switch f.Kind {
	case BackendKill, BackendStop:
		return fmt.Sprintf("backend-%d", f.Target)
	case FrontendKill, SlowLoris:
		return fmt.Sprintf("frontend-%d", f.Target)
	case SchedulerKill:
		return "scheduler"
	case LinkDelay, LinkStall, LinkCut:
		return c.linkNames()[f.Target]
	}
	return "every port"
}

// faultsMost bounds a plan: months of them.
const faultsMost = 1 << 20

// Check says what is wrong with the configuration.
func (c Config) Check() error {
	switch {
	case c.Duration <= 0 || c.Every <= 0 || c.Warmup < 0:
		return errors.New("spans must be above 0")
	case c.Every < mono.Second || c.Duration/c.Every > faultsMost:
		return fmt.Errorf("a fault every %v for %v: --every must be at least 1s, and leave no more than %d faults", c.Every.Std(), c.Duration.Std(), faultsMost)
	case !(c.Load > 0 && c.Load <= 1): // NaN, too
		return fmt.Errorf("a load of %v, must be above 0 and at most 1", c.Load)
	case c.Backends < 2 || c.Frontends < 1 || c.Clients < 1:
		return errors.New("a soak needs at least 2 backends, a frontend and a client")
	case len(c.Kinds) == 0:
		return errors.New("no kinds of faults")
	case len(PlanOf(c)) == 0:
		return fmt.Errorf("a duration of %v has no room for a fault of seed %d, with one every %v in the mean: a longer --duration or a shorter --every is needed", c.Duration.Std(), c.Seed, c.Every.Std())
	}
	return nil
}
