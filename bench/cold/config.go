package cold

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/paper/clockwork"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Clockwork's section 6.2: what the one model is asked, and the others together.
const (
	steadyRate = 200.0
	othersRate = 1000.0
)

// quiet is how long the one model is asked alone, uncounted: links measure their delays.
const quiet = 2 * mono.Second

// Config of a run.
type Config struct {
	Models  int      // with the one that is asked steadily
	Growth  mono.Dur // from the second model to all of them: the counted span
	SLO     mono.Dur
	GPUs    int
	Pages   int // of each GPU
	Seed    uint64
	Share   float64 // of the GPUs' and the links' time, that all requests fit into; 0: Clockwork's load, which does not fit
	Spans   int     // that the run is told in
	Sending Sending
}

// Sending says how the load is sent.
type Sending struct {
	OutstandingMax int      // open requests, at most
	Drain          mono.Dur // waited for the last answers
}

// arrivals are the same for one Config, live and simulated.
func (c *Config) arrivals() (*workload.Growing, error) {
	g := workload.GrowingConfig{Steady: steadyRate, Rate: othersRate, Others: c.Models - 1, Begin: mono.Time(quiet), Gap: c.gap(), Seed: c.Seed}
	if c.Share > 0 {
		f, err := c.fluid()
		if err != nil {
			return nil, err
		}
		shares := make([]float64, c.Models) // by active models
		for n := 1; n < c.Models; n++ {
			shares[n] = f.fits(n, c.Share, othersRate) / othersRate
			if shares[n] < 1/othersRate {
				return nil, fmt.Errorf("a share of %g of %d GPUs' time has no room for %d models beside the one with %g r/s: raise --share or --gpus", c.Share, c.GPUs, n, steadyRate)
			}
		}
		g.Share = func(active int) float64 { return shares[active] }
	}
	return workload.NewGrowing(g)
}

// gap is from one model to the next.
func (c *Config) gap() mono.Dur { return c.Growth / mono.Dur(c.Models-1) }

// fluid is the bound of this load.
func (c *Config) fluid() (*fluid, error) {
	models, err := clockwork.ResNets(1, c.SLO)
	if err != nil {
		return nil, err
	}
	m := &models[0]
	return &fluid{profile: m.Profile, load: m.LoadTime, slo: c.SLO, gpus: c.GPUs, room: c.GPUs*(c.Pages/m.Pages) - 1, steady: steadyRate}, nil
}

// counter makes one; active is how many others there are, on the arrivals' clock.
func (c *Config) counter(total mono.Dur, active func(mono.Time) int) *counter {
	return newCounter(c.SLO, total, c.Spans, func(at mono.Time) int { return active(at.Add(quiet)) })
}

// allowed is requests/s that could be served in time at best, on average over a span of the run: of what comes, and by the
// links and by the GPUs alone.
func (c *Config) allowed(from, to float64) (all, links, gpus float64, err error) {
	f, err := c.fluid()
	if err != nil {
		return 0, 0, 0, err
	}
	g, err := c.arrivals()
	if err != nil {
		return 0, 0, 0, err
	}
	const steps = 50
	for i := range steps {
		at := from + (to-from)*(float64(i)+0.5)/steps
		n := g.Active(mono.Time(quiet + mono.FromSeconds(at)))
		rate := othersRate
		if c.Share > 0 {
			rate = f.fits(n, c.Share, othersRate)
		}
		b := f.of(n, rate)
		all += steadyRate + b.most(rate)
		links += steadyRate + min(rate, b.links)
		gpus += steadyRate + min(rate, b.gpus)
	}
	return all / steps, links / steps, gpus / steps, nil
}
