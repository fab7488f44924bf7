package cold

import (
	"github.com/symphony-serving/symphony/bench/paper/clockwork"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// simulate serves the same arrivals by the same scheduler under the simulator: GPUs and links that take what
// they should, and a network without delay.
func (c *Config) simulate(total mono.Dur, stop func() bool) (all Counts, spans []Counts, err error) {
	source, err := c.arrivals()
	if err != nil {
		return all, nil, err
	}
	models, err := clockwork.ResNets(c.Models, c.SLO)
	if err != nil {
		return all, nil, err
	}
	cfg := clockwork.Cluster(clockwork.Ours, models, c.GPUs, source, quiet, total, c.Seed)
	cfg.Paging.Pages = c.Pages
	n := c.counter(total, source.Active)
	from := mono.Time(quiet)
	at := func(t mono.Time) mono.Time { return t.Add(-from.Sub(0)) }
	fresh := map[[2]uint32]bool{} // GPU, model: no batch has run with the weights since they came
	cfg.Observer = sim.Observer{
		Drop: func(_ mono.Time, d *batching.Drop) {
			n.refused(at(d.Request.Arrival), int(d.Request.Input.Length), d.Reason.String()) // see sim: it tells the model
		},
		Copied: func(k *sim.Copy) {
			if k.Kept {
				fresh[[2]uint32{uint32(k.GPU), uint32(k.Model)}] = true
			}
			n.copied(at(k.Start), at(k.End))
		},
		Executed: func(e *sim.Execution) {
			n.ran(at(e.Start), at(e.End))
			if !e.Kept {
				return
			}
			key := [2]uint32{uint32(e.GPU), uint32(e.Model)}
			for i := range e.Requests {
				came := e.Requests[i].Arrival
				n.output(at(came), int(e.Model), e.Answered.Sub(came), fresh[key])
			}
			delete(fresh, key)
		},
	}
	if _, err = sim.Run(cfg, stop); err != nil {
		return all, nil, err
	}
	all, spans = n.end(total, c.GPUs)
	return all, spans, nil
}
