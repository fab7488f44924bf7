package policytest

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Poisson runs the cluster for a span in which rates[m] requests a second come
// for model m, each with its model's SLO. The draws are Config.Seed's.
func (c *Cluster) Poisson(span mono.Dur, rates ...float64) {
	end := c.Now.Add(span)
	next := make([]mono.Time, len(rates))
	for m, rate := range rates {
		next[m] = c.after(c.Now, rate)
	}
	for {
		m := 0
		for i := range next {
			if next[i] < next[m] {
				m = i
			}
		}
		if next[m] > end {
			break
		}
		c.Advance(next[m])
		c.Submit(wire.ModelID(m), 1, c.models[m].SLO)
		next[m] = c.after(next[m], rates[m])
	}
	c.Advance(end)
}

func (c *Cluster) after(at mono.Time, rate float64) mono.Time {
	if rate == 0 {
		return mono.Never
	}
	return at.Add(mono.FromSeconds(c.rand.ExpFloat64() / rate))
}
