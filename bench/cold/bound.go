package cold

import (
	"math"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// fluid is what GPUs and their links to the host could bear at best of a load of one model that is asked
// steadily, and others that are alike and share a rate.
//
// A fluid bound: chance makes nothing worse (no queue before a link, no batch that is ended early), and all
// that a scheduler can choose it chooses with what it cannot know.
type fluid struct {
	profile *profile.Profile
	load    mono.Dur // of a model's weights
	slo     mono.Dur
	gpus    int
	room    int     // models whose weights the GPUs hold, the steady one left out
	steady  float64 // requests/s
}

// bound is requests/s of the others that can be served in time: of what comes, by the links and by the GPUs.
type bound struct{ links, gpus float64 }

func (b bound) most(asked float64) float64 { return max(0, min(asked, b.links, b.gpus)) }

// of is the bound where n of the others are asked at a rate, and requests may be refused. What comes for a model comes in
// groups, its requests within the time that the first of them has before it must start: a batch, or a load.
//
// The links: a share room/n of what comes finds its weights there, for chance does not favour what is loaded. Of the
// other groups the largest are served, by a load each.
//
// The GPUs: the steady model first, for a request of it takes least, and of the others' groups the largest that the rest bears.
func (f *fluid) of(n int, rate float64) bound {
	if n < 1 || rate <= 0 {
		return bound{}
	}
	lambda := rate / float64(n)
	here := min(1, float64(f.room)/float64(n))
	groups, others := float64(n)*f.groups(lambda), lambda*f.window()
	links := rate * here
	if cold := (1 - here) * groups; cold > 0 {
		links += cold * largest(others, f.loads()/cold, func(float64) float64 { return 1 })
	}
	rest := max(0, float64(f.gpus)-f.need(1, f.steady))
	return bound{links: links, gpus: groups * largest(others, rest/groups, f.batch)}
}

// batch is how long a GPU takes for so many requests of a model, seconds.
func (f *fluid) batch(k float64) float64 {
	most := f.profile.MaxBatch()
	if k > float64(most) {
		return k / float64(most) * f.profile.Latency(most).Seconds()
	}
	return f.profile.Latency(int(k)).Seconds()
}

// fits is the greatest rate of n others, up to most, at which a share of the GPUs' time and of the links'
// bears everything that comes.
func (f *fluid) fits(n int, share, most float64) float64 {
	bears := func(rate float64) bool {
		lambda := rate / float64(n)
		cold := max(0, float64(n)-float64(f.room))
		return f.need(1, f.steady)+f.need(n, lambda) <= share*float64(f.gpus) && cold*f.groups(lambda) <= share*f.loads()
	}
	low, high := 0.0, most
	if bears(high) {
		return high
	}
	for range 50 {
		if mid := (low + high) / 2; bears(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// loads is how many the links carry a second.
func (f *fluid) loads() float64 { return float64(f.gpus) / f.load.Seconds() }

// window is how long after a request others of its model may come and be in its batch.
func (f *fluid) window() float64 { return (f.slo - f.profile.Latency(1)).Seconds() }

// groups is how many a model has a second: each begins with a request, and lasts for the window.
func (f *fluid) groups(lambda float64) float64 { return lambda / (1 + lambda*f.window()) }

// need is the GPUs that n models take, each at a rate.
func (f *fluid) need(n int, lambda float64) float64 {
	return float64(n) * report.Need([]report.Load{{Profile: f.profile, SLO: f.slo, Share: 1}}, lambda)
}

// largest is how many requests of groups are served, per group of all, where the largest groups are first and each of k takes
// cost(k) of a budget per group. A group is a request and a number of others by Poisson with that mean.
func largest(mean, budget float64, cost func(k float64) float64) float64 {
	if mean > crowd {
		return (1 + mean) * min(1, budget/cost(1+mean))
	}
	chances := []float64{math.Exp(-mean)} // of one, two, ...
	for k := 1; float64(k) < mean || chances[k-1] > 1e-12; k++ {
		chances = append(chances, chances[k-1]*mean/float64(k))
	}
	sum := 0.0
	for i := len(chances) - 1; i >= 0; i-- {
		k := float64(i + 1)
		n := min(chances[i], budget/cost(k))
		sum, budget = sum+n*k, budget-n*cost(k)
	}
	return sum
}

// crowd is from where on chance makes no odds in the size of a group.
const crowd = 100
