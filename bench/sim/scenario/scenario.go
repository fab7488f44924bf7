package scenario

import (
	"errors"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/transport/mono"
)

// ErrInvalid is the cause of every refused scenario.
var ErrInvalid = errors.New("invalid scenario")

// refuse is an error about a flag.
func refuse(flag, format string, args ...any) error {
	return fmt.Errorf("%w: --%s: %s", ErrInvalid, flag, fmt.Sprintf(format, args...))
}

// wrap puts a flag's name before an error of another package.
func wrap(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: --%s: %w", ErrInvalid, flag, err)
}

// Scenario is a simulation in words. Empty texts are the defaults, which
// Plan.Scenario has filled in.
type Scenario struct {
	Models      []zoo.Model `json:"models"` // see ParseModels
	GPUs        int         `json:"gpus"`
	Policy      string      `json:"policy"`       // see Policies
	Rate        float64     `json:"rate"`         // requests/s; 0 with a trace: as it is
	Arrivals    string      `json:"arrivals"`     // poisson, gamma:SHAPE, uniform, constant, trace
	Popularity  string      `json:"popularity"`   // equal, zipf:S, trace
	RateProfile string      `json:"rate_profile"` // see workload.ParseProfile
	Trace       *Trace      `json:"trace,omitempty"`
	Network     string      `json:"network"`          // none, constant:CTRL:DATA, rdma, tcp
	Bound       string      `json:"network_bound"`    // CTRL:DATA; the network's p99.99
	Jitter      float64     `json:"jitter"`           // greatest lengthening of a batch, as a share
	Pauses      []string    `json:"pauses,omitempty"` // PART:LENGTH/EVERY; scheduler, backend
	Margin      string      `json:"margin,omitempty"` // measured: learnt as by the live engine; "": none
	Events      []string    `json:"gpu_events"`       // KIND:GPU@TIME; join, leave, fail
	Detection   mono.Dur    `json:"detection_ns"`     // from a failure until the scheduler knows
	Warmup      mono.Dur    `json:"warmup_ns"`
	Duration    mono.Dur    `json:"duration_ns"`
	Frontends   int         `json:"frontends"`
	Seed        uint64      `json:"seed"`
}

// Limits of a scenario.
const (
	gpusMax      = 8192
	modelsMax    = 10_000
	frontendsMax = 4096
	spanMax      = 24 * 3600 * mono.Second
)

// checkNumbers looks at what is a number already.
func (s *Scenario) checkNumbers() error {
	switch {
	case s.GPUs < 0 || s.GPUs > gpusMax:
		return refuse("gpus", "%d, must be 1 to %d", s.GPUs, gpusMax)
	case !(s.Rate >= 0 && s.Rate <= rateMax):
		return refuse("rate", "%g requests/s, must be 0 to %g", s.Rate, float64(rateMax))
	case !(s.Jitter >= 0 && s.Jitter <= 1):
		return refuse("jitter", "%g, must be a share from 0 to 1", s.Jitter)
	case s.Detection < 0 || s.Detection > spanMax:
		return refuse("detection", "%v, must be 0 to %v", s.Detection, spanMax)
	case s.Detection > 0 && !slices.ContainsFunc(s.Events, isFailure):
		return refuse("detection", "%v has no effect when no GPU fails: add --gpu-event fail:GPU@TIME, or leave it out", s.Detection)
	case s.Warmup < 0 || s.Warmup > spanMax:
		return refuse("warmup", "%v, must be 0 to %v", s.Warmup, spanMax)
	case s.Duration <= 0 || s.Duration > spanMax:
		return refuse("duration", "%v, must be above 0 and at most %v", s.Duration, spanMax)
	case s.Frontends < 0 || s.Frontends > frontendsMax:
		return refuse("frontends", "%d, must be 1 to %d", s.Frontends, frontendsMax)
	}
	return nil
}

const rateMax = 1e9
