package batching

import (
	"math"

	"github.com/symphony-serving/symphony/transport/mono"
)

// ripePercent: a batch whose requests per GPU second come to this percentage
// of the pooled batch's does not wait for more.
const ripePercent = 95

// aims are batch sizes that follow from the profile, the SLO and the GPUs.
type aims struct {
	// pooled is the batch of the staggered execution on all GPUs (section 3.3,
	// equation 1): the largest b with (1 + 1/GPUs)*l(b) <= SLO. No batch can be
	// larger and keep the GPUs busy. 0: not even batches of one can be staggered. No more than most.
	pooled int
	// staggered is the same on the model's share of the GPUs. No more than most.
	staggered int
	// target is what the drop policy holds: the smallest batch that carries the
	// arrivals, share*b/l(b) >= rate, and no more than staggered. A larger one
	// works a backlog off by itself, a smaller one lets it grow.
	target int
	// company is how long a first request waits for another at least, while there
	// is time.
	company mono.Dur
	// overloaded: far more arrives than the staggered batch carries. What does not
	// fit is lost, and the largest batches lose the least.
	overloaded bool
	// most bounds all batches: the profile's largest one, or the setting's cap.
	most int
	// gathered is what Shed gives heads up for; else 0.
	gathered int
	// frontrun: windows open there, see Setting.Frontrun.
	frontrun bool
}

// retarget computes the aims anew.
func (m *Model) retarget() {
	p, slo := m.cfg.Profile, m.cfg.SLO-m.cfg.Delay.Ctrl
	m.aims = aims{
		pooled:    p.Largest(slo/mono.Dur(m.gpus+1)*mono.Dur(m.gpus), 0),
		staggered: p.Largest(slo/mono.Dur(m.share+OneGPU)*mono.Dur(m.share), 0),
		target:    1,
		most:      p.MaxBatch(),
		company:   m.worth() / companyPart,
		frontrun:  m.setting.Frontrun && !(m.setting.Shed && m.gpus == 1),
	}
	if m.setting.Cap > 0 {
		m.most = m.capped()
		m.pooled, m.staggered = min(m.pooled, m.most), min(m.staggered, m.most)
	}
	if m.staggered > 1 {
		m.target, m.overloaded = m.sustaining()
	}
	if m.setting.Shed {
		m.gathered = m.gathers(slo)
	}
}

// companyPart is how much of its worth is waited for a second request. In bursts
// it comes at once, and where GPUs are scarce the window is wide open by then:
// without the wait a model that batches strongly would run the first request of
// each burst alone. From a twelfth to a quarter serves about as well.
const companyPart = 8

// worth is the GPU time that a second request saves, which need not pay fix
// again, less what it adds; 0 for models that batch weakly.
func (m *Model) worth() mono.Dur {
	return max(0, m.cfg.Profile.Latency(1)-2*m.slope(1))
}

// overloadPercent of what the staggered batch carries is an overload. Less would
// count the scatter of the estimates, too, and cost goodput at the peak.
const overloadPercent = 110

// sustaining is the batch that just carries the arrivals on the model's share,
// by the line through the profile at the staggered batch, rounded to the
// nearest size; the staggered batch when none does, or when the arrivals are not
// known yet. In floating point: the products do not fit 64 bits. The share's
// quotient is a product to some compilers (of 1/1024), so it has a conversion, too.
func (m *Model) sustaining() (b int, overloaded bool) {
	rate, share := m.arrivals.rate(), float64(float64(m.share)/float64(OneGPU))
	if rate == 0 {
		return m.staggered, false
	}
	l, alpha := float64(m.cfg.Profile.Latency(m.staggered)), float64(m.slope(m.staggered))
	most := float64(m.staggered)
	beta := max(0, l-float64(alpha*most))
	room := share - float64(rate*alpha)
	if float64(rate*beta) >= float64(room*most) {
		return m.staggered, float64(100*rate)*l > float64(overloadPercent*share)*most
	}
	return max(1, int(math.Round(float64(rate*beta)/room))), false
}

// ripe reports that a batch of b is nearly as efficient as any can be, or may be under a cap. It has
// nothing to wait for: a GPU that idles meanwhile is missed in the next surge. So
// a model that hardly gains by batching (BERT) runs its requests as they come.
func (m *Model) ripe(b int) bool {
	return m.pooled > 0 && (b >= m.pooled || m.efficiency(b, m.pooled, ripePercent))
}

// slope is what one more request adds to a batch of about b: over a chord, from
// half of b to twice of it, since a measured table may have steps and flat
// parts.
func (m *Model) slope(b int) mono.Dur {
	p := m.cfg.Profile
	low := max(1, b/2)
	high := min(max(2*b, chordMin), p.MaxBatch())
	if high <= low {
		return p.Latency(1) // batches of one
	}
	return (p.Latency(high) - p.Latency(low)) / mono.Dur(high-low)
}

// chordMin is the least batch size that a slope's chord reaches.
const chordMin = 16

// efficiency reports that b requests per l(b) come to percent of c per l(c).
// Multiplied out: integers stay exact.
func (m *Model) efficiency(b, c int, percent mono.Dur) bool {
	p := m.cfg.Profile
	return 100*mono.Dur(b)*p.Latency(c) >= percent*mono.Dur(c)*p.Latency(b)
}
