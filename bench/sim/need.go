package sim

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// needs reckons the need (batching.Need) of one span after the other, from the requests
// that arrive in it. So it is the same under every policy.
type needs struct {
	from, to mono.Time // the present span
	arrived  []int64   // by model, in it
}

// needSpan is Config.NeedSpan by default: what the live scheduler counts arrivals by.
const needSpan = mono.Second

func newNeeds(d *driver) needs {
	n := needs{arrived: make([]int64, len(d.cfg.Models))}
	n.begin(d, d.from)
	return n
}

func (n *needs) begin(d *driver, from mono.Time) {
	span := d.cfg.NeedSpan
	if span <= 0 {
		span = needSpan
	}
	n.from, n.to = from, min(from.Add(span), d.to)
	clear(n.arrived)
}

// until ends the spans that have passed by now.
func (n *needs) until(now mono.Time, d *driver) {
	for n.to <= now && n.from < n.to {
		length, sum := n.to.Sub(n.from), 0.0
		for i, count := range n.arrived {
			m := &d.cfg.Models[i]
			sum += batching.Need(m.Profile, m.SLO, float64(count)/float64(length))
		}
		d.result.NeedMean += float64(sum * (float64(length) / float64(d.cfg.Duration)))
		d.result.NeedPeak = max(d.result.NeedPeak, sum)
		if f := d.cfg.Observer.Need; f != nil {
			f(n.from, n.to, sum)
		}
		if f := d.cfg.Steer; f != nil {
			d.steer(f(n.to))
		}
		n.begin(d, n.to)
	}
}
