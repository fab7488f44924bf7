package partition

import "math"

// GPUsFor is what a sub-cluster of that need takes so that 99 % of each model's requests are in time, on average over
// workloads: need + burst * sqrt(need) + base. It is at least one, and not whole.
//
// Where it comes from: the batches that run at a time scatter about the need as a Poisson variable does, by the root
// of its mean, whatever the models are; base is what even one model at a low rate wants for a second batch
// beside its first. Fitted by simulation over sub-clusters of 1 to 60 models drawn from the zoo, 0.1 to 40 GPUs of need:
// `symphony bench subclusters --fit` draws, simulates and fits again (bench/subclusters has the residuals).
func GPUsFor(need float64) float64 {
	if need <= 0 {
		return 0
	}
	return max(1, smoothGPUs(need))
}

const (
	// burst is in roots of GPUs.
	burst = 0.8
	// base is in GPUs.
	base = 0.5
)

// smoothGPUs is GPUsFor without its least: concave, which the bound needs.
func smoothGPUs(need float64) float64 { return need + float64(burst*math.Sqrt(need)) + base }

// gpus is a sub-cluster's. One whose models nobody asks keeps a GPU: it must answer.
func (l *Load) gpus() float64 {
	if l.Models == 0 {
		return 0
	}
	return max(1, GPUsFor(l.Need))
}

// Deal gives gpus to sub-clusters by what each wants (GPUsFor): the next one always to that which has the least of it
// by share, so each that wants any has one first, all have what they want where there are enough (in whole GPUs), and
// too few or too many are shared in proportion. One that wants nothing gets nothing.
func Deal(wants []float64, gpus int) []int {
	dealt := make([]int, len(wants))
	for range gpus {
		next := -1
		for j, w := range wants {
			// dealt[j]/w against the least share, without a division; the first of equals, and the larger before any has one.
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
