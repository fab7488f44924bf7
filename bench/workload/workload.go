// Package workload makes arrivals: when the next request comes and for which
// model, from a seed. The same seed gives the same arrivals on each machine.
//
// A core: no clock. Load generator and simulator use the same arrivals.
package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

// ErrInvalid is the cause of every refused workload.
var ErrInvalid = errors.New("invalid workload")

// Process names an arrival process.
type Process string

const (
	// Poisson arrivals: exponential gaps, what many independent users make.
	Poisson Process = "poisson"
	// Constant gaps.
	Constant Process = "constant"
	// Uniform gaps, between 0 and twice the mean.
	Uniform Process = "uniform"
	// Gamma-distributed gaps: below shape 1 arrivals come in bursts, shape 1 is
	// Poisson. Of a Mix only.
	Gamma Process = "gamma"
)

func (p Process) check() error {
	switch p {
	case Poisson, Constant, Uniform, Gamma:
		return nil
	}
	return fmt.Errorf("%w: arrivals %q, must be poisson, gamma, uniform or constant", ErrInvalid, p)
}

// Config of a workload.
type Config struct {
	Process    Process
	Rate       float64 // requests/s over all models
	Models     int
	Popularity string // "equal", or "zipf:S": model i is asked for in proportion to 1/(i+1)^S
	Seed       uint64
}

// Generator yields the arrivals one after the other. Not for concurrent use.
type Generator struct {
	cfg    Config
	rand   *rand.Rand
	shares []float64 // cumulative
}

// New checks the configuration.
func New(cfg Config) (*Generator, error) {
	if cfg.Process != Poisson && cfg.Process != Constant {
		return nil, fmt.Errorf("%w: arrivals %q, must be %s or %s", ErrInvalid, cfg.Process, Poisson, Constant)
	}
	if !(cfg.Rate > 0) || cfg.Rate > 1e9 {
		return nil, fmt.Errorf("%w: rate %g, must be above 0 and at most 1e9 requests/s", ErrInvalid, cfg.Rate)
	}
	if cfg.Models < 1 {
		return nil, fmt.Errorf("%w: no models", ErrInvalid)
	}
	g := &Generator{cfg: cfg, rand: rand.New(rand.NewPCG(cfg.Seed, 0x776f726b))}
	exponent := 0.0
	if cfg.Popularity != "" && cfg.Popularity != "equal" {
		s, ok := strings.CutPrefix(cfg.Popularity, "zipf:")
		v, err := strconv.ParseFloat(s, 64)
		if !ok || err != nil || v < 0 || v > 10 {
			return nil, fmt.Errorf("%w: popularity %q, must be equal or zipf:S with S from 0 to 10", ErrInvalid, cfg.Popularity)
		}
		exponent = v
	}
	sum := 0.0
	for i := range cfg.Models {
		sum += math.Pow(float64(i+1), -exponent)
		g.shares = append(g.shares, sum)
	}
	return g, nil
}

// Next is the gap before the next request, and its model.
func (g *Generator) Next() (gap mono.Dur, model int) {
	seconds := 1 / g.cfg.Rate
	if g.cfg.Process == Poisson {
		seconds *= g.rand.ExpFloat64()
	}
	return mono.FromSeconds(seconds), g.pick()
}

func (g *Generator) pick() int {
	if len(g.shares) == 1 {
		return 0
	}
	x := g.rand.Float64() * g.shares[len(g.shares)-1]
	low, high := 0, len(g.shares)-1
	for low < high {
		if mid := (low + high) / 2; g.shares[mid] <= x {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}
