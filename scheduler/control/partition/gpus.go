package partition

import "math"

// Bursts are sums over a sub-cluster's models, from which GPUsFor reckons what it needs beyond its need.
type Bursts struct {
	Hold  float64 // need * l(b): GPU seconds, the need weighed by how long a batch holds its GPU
	Haste float64 // rate / slack: requests/s^2, the rate weighed by how soon they must start
	Loose float64 // need / b: the need weighed by how little is gathered
}

func (b *Bursts) add(o Bursts) {
	b.Hold += o.Hold
	b.Haste += o.Haste
	b.Loose += o.Loose
}

func (b *Bursts) sub(o Bursts) {
	b.Hold -= o.Hold
	b.Haste -= o.Haste
	b.Loose -= o.Loose
}

// bursts are a model's own.
func (m *Model) bursts() (b Bursts) {
	batch := max(1, m.Batch)
	if m.Rate > 0 {
		b.Hold = m.Need * (m.Need * batch / m.Rate) // l(b) = need * b / rate
	}
	if m.Slack > 0 {
		b.Haste = m.Rate / m.Slack
	}
	b.Loose = m.Need / batch
	return b
}

// GPUsFor is what a sub-cluster takes so that 99 % of its requests are in time, not in whole GPUs, and at least one:
//
//	need + 0.46 * hold/need * haste/rate + 1.0 * loose/need
//
// Beyond the need comes a number of GPUs, not a share of them. The first term is how long a batch holds a GPU,
// against how long requests may wait for one: long batches of some models beside requests of others that are
// in a hurry. The second is 1/b: requests that come one by one scatter by their number, and those that are gathered in
// batches hardly at all. A sub-cluster of 30 GPUs so takes hardly more beyond its need than one of three:
// what costs GPUs is the number of sub-clusters, and mixing the slow with the hasty.
//
// Fitted by simulation of sub-clusters of 1 to 100 models with a need of 0.25 to 30 GPUs; `symphony bench subclusters
// --fit` draws, simulates and fits again. The root of the mean square that is left is 0.44 GPUs, of which rounding up
// to whole ones is 0.29. A term in the root of the need, which theory would have, fitted as 0.
func GPUsFor(need, rate float64, b Bursts) float64 {
	if need <= 0 || rate <= 0 {
		return max(1, need)
	}
	return max(1, need+float64(holdTerm*(max(0, b.Hold)/need)*(max(0, b.Haste)/rate))+float64(looseTerm*(max(0, b.Loose)/need)))
}

const (
	holdTerm  = 0.46
	looseTerm = 1.0
)

// gpus is a sub-cluster's. One whose models nobody asks keeps a GPU: it must answer.
func (l *Load) gpus() float64 {
	if l.Models == 0 {
		return 0
	}
	return GPUsFor(l.Need, l.Rate, l.Bursts)
}

// Deal gives gpus to sub-clusters by what each wants (GPUsFor): the next one always to that which has the least of it
// by share, so each that wants any has one first, all have what they want where there are enough (in whole GPUs), and
// too few or too many are shared in proportion. One that wants nothing gets nothing.
func Deal(wants []float64, gpus int) []int {
	dealt := make([]int, len(wants))
	for range gpus {
		next := -1
		for j, w := range wants {
			if w > 0 && (next < 0 || less(dealt[j], w, dealt[next], wants[next])) {
				next = j
			}
		}
		if next < 0 {
			break
		}
		dealt[next]++
	}
	return dealt
}

// less is whether a has less of what it wants than b: without a division, and before either has one the larger.
func less(a int, wantsA float64, b int, wantsB float64) bool {
	x, y := float64(a)*wantsB, float64(b)*wantsA
	return x < y || x == y && a == 0 && wantsA > wantsB
}

// Wants are the sub-clusters' GPUs, not whole, for Deal.
func Wants(loads []Load) []float64 {
	out := make([]float64, len(loads))
	for j := range loads {
		out[j] = loads[j].gpus()
	}
	return out
}

// WholeGPUs is the sum of what the sub-clusters want, each in whole GPUs: with so many Deal gives each what it wants.
func WholeGPUs(loads []Load) int {
	sum := 0
	for _, w := range Wants(loads) {
		sum += int(math.Ceil(w))
	}
	return sum
}
