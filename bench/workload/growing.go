package workload

import (
	"fmt"
	"math/rand/v2"

	"github.com/symphony-serving/symphony/transport/mono"
)

// GrowingConfig says how many models are asked, and how much.
type GrowingConfig struct {
	Steady float64   // requests/s of model 0, from the beginning
	Rate   float64   // requests/s of all others, spread evenly over those that are active
	Others int       // models 1, 2, ...
	Begin  mono.Time // when the first of them is active
	Gap    mono.Dur  // until the next one is
	// Share is the part of Rate that is asked while so many of the others are active, above 0 and up to 1; nil: 1.
	Share func(active int) float64
	Seed  uint64
}

// Growing is the arrivals of Clockwork's Figure 6: one model is asked steadily, and beside it ever more
// of them share one rate, so that each is asked less and less. Both are Poisson.
type Growing struct {
	cfg                 GrowingConfig
	steady, others      *Mix
	pick                *rand.Rand
	steadyNext, otherAt mono.Time
}

// NewGrowing checks cfg.
func NewGrowing(cfg GrowingConfig) (*Growing, error) {
	if cfg.Others < 1 || cfg.Gap <= 0 || cfg.Begin < 0 {
		return nil, fmt.Errorf("%w: %d models, one more each %v from %v on: must be at least 1, above 0, and not negative", ErrInvalid, cfg.Others, cfg.Gap, cfg.Begin.Sub(0))
	}
	g := &Growing{cfg: cfg, pick: rand.New(rand.NewPCG(cfg.Seed, 0x6d616a6f72))}
	for i, to := range []**Mix{&g.steady, &g.others} {
		mix, err := NewMix([]Stream{{Process: Poisson, Rate: []float64{cfg.Steady, cfg.Rate}[i]}}, cfg.Seed+uint64(i)<<32)
		if err != nil {
			return nil, err
		}
		*to = mix
	}
	g.nextSteady()
	g.nextOther()
	return g, nil
}

func (g *Growing) nextSteady() { g.steadyNext, _, _ = g.steady.Next() }

// nextOther draws until one is asked: what is a part of a Poisson process by chance is one.
func (g *Growing) nextOther() {
	for {
		at, _, ok := g.others.Next()
		g.otherAt = mono.Never
		if !ok {
			return
		}
		g.otherAt = at.Add(g.cfg.Begin.Sub(0))
		if g.cfg.Share == nil || g.pick.Float64() < g.cfg.Share(g.Active(g.otherAt)) {
			return
		}
	}
}

// Active is how many of the others there are then.
func (g *Growing) Active(now mono.Time) int {
	if now < g.cfg.Begin {
		return 0
	}
	return min(g.cfg.Others, 1+int(now.Sub(g.cfg.Begin)/g.cfg.Gap))
}

// Next implements Source.
func (g *Growing) Next() (mono.Time, int, bool) {
	if g.steadyNext <= g.otherAt {
		at := g.steadyNext
		g.nextSteady()
		return at, 0, at != mono.Never
	}
	at := g.otherAt
	g.nextOther()
	return at, 1 + g.pick.IntN(g.Active(at)), true
}
