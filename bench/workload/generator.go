package workload

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Config of a Generator.
type Config struct {
	Process    Process
	Shape      float64  // of Gamma
	Rate       float64  // requests/s over all models
	Profile    *Profile // multiplies Rate; nil: 1
	Models     int
	Popularity string // see Shares
	Seed       uint64
}

// Generator yields the arrivals of one process, and each one's model by its
// share. Not for concurrent use.
//
// It differs from a Mix in that a burst here is of all models together, and
// Constant arrivals are evenly spaced whatever their models. The first gap is
// a whole one.
type Generator struct {
	flow flow
	last mono.Time
}

// New checks the configuration.
func New(cfg Config) (*Generator, error) {
	s := Stream{cfg.Process, cfg.Shape, cfg.Rate, cfg.Profile}
	if err := s.check(); err != nil {
		return nil, err
	}
	if cfg.Rate < rateMin {
		return nil, fmt.Errorf("%w: rate %g, must be %g requests/s or more", ErrInvalid, cfg.Rate, rateMin)
	}
	shares, err := Shares(cfg.Popularity, cfg.Models)
	if err != nil {
		return nil, err
	}
	models := make([]int32, len(shares))
	for i := range models {
		models[i] = int32(i)
	}
	f, err := newFlow(s, models, shares, newRandom(cfg.Seed, 0))
	if err != nil {
		return nil, err
	}
	return &Generator{flow: f}, nil
}

// Next is the gap before the next request, and its model. When there are no
// more the gap reaches to Never.
func (g *Generator) Next() (gap mono.Dur, model int) {
	at := g.flow.after(g.flow.draw.gap())
	gap, g.last = at.Sub(g.last), at
	return gap, g.flow.model()
}
