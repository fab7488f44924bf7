package paged

import (
	"github.com/symphony-serving/symphony/scheduler/devices"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Where far more is wanted than the GPUs have (devices.Table.Crowded), many requests are lost whatever is done, and what counts
// is how many a GPU serves in its time. By latest alone each GPU goes to the candidate that is about to shrink, and by then it
// has shrunk: 15 models of 16 clients each on a GPU ran batches of 1.4 within an SLO of 10 ms, where batches of 8 fit. So there
//
//   - the model gives up the heads that keep its batch from being the largest that can be had (batching, Offer.Crowded), and
//   - a candidate that is larger than its model's batches of late counts as due earlier, one that has shrunk as due later;
//     and so does that of a model that lost more, or less, than all together: else some would be passed for ever.
//
// Size is held against the model's own: no model is passed because it batches less than others do.
//
// Before that, from a thousandth of the GPU time lost on (devices.Table.Full), a batch of at least half of the largest gives up a few heads for
// the rest. Nothing else: who goes first is decided by latest. Without it 12 models on 6 GPUs served 2.4 % less than in full batches, at 6,400 requests/s.
const (
	// crowdedFuller is how many batches' time a candidate of twice the usual size goes first.
	crowdedFuller = 4.0
	// crowdedWorse is the same for a model that lost all where the others lost nothing. Twice as much costs a twentieth of what is served,
	// none leaves a model of 61 with 0.03 of its requests where most have a half.
	crowdedWorse = 4.0
	// sizesMemory is how many batches the mean is of.
	sizesMemory = 16
)

// sizes is how large a model's batches are.
type sizes struct{ mean float64 } // of late; 0: none ran

// ran takes the size of a batch.
func (s *sizes) ran(n int) {
	if s.mean == 0 {
		s.mean = float64(n)
	}
	s.mean += float64((float64(n) - s.mean) / sizesMemory)
}

// fuller is by how much a candidate of that size is larger than the model's batches are, as a part of these.
func (s *sizes) fuller(n int) float64 {
	if s.mean == 0 {
		return 0
	}
	return float64(n)/s.mean - 1
}

// crowded tells whether the GPUs are.
func (p *Paged) crowded() (c devices.Crowd, ok bool) {
	if p.cfg.NoCrowd {
		return c, false
	}
	return p.gpus.Crowded(p.now)
}

// headStart is by how much the model's candidate counts as due earlier than it is.
func (p *Paged) headStart(m *model) mono.Dur {
	c, crowded := p.crowded()
	if !crowded && p.cfg.Eager {
		return 0 // each of many models loses so few requests that who lost more is chance
	}
	if !crowded {
		return p.gpus.HeadStart(&m.usage, p.now)
	}
	ahead := float64(crowdedFuller*m.sizes.fuller(int(m.candidate.Size))) + float64(crowdedWorse*c.Worse(&m.usage))
	return mono.Dur(float64(c.Length) * ahead)
}
