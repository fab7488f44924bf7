package gaps

import (
	"math"

	"github.com/symphony-serving/symphony/transport/mono"
)

// A batch of best effort may be long where that harms nobody:
//
//   - Candidates that stand are known: the batch ends before the exec of the first one that would find no other GPU (who
//     matches says when that is).
//   - Requests that have yet to come are not. One that comes the moment after the batch began, and finds all GPUs taken,
//     waits for its end, and must still be in time then: so it is no longer than a part of the least slack (SLO - l(1)) of the models that lately
//     ran. The other part is left for what such requests wait for each other.
//   - Unless enough GPUs are left to them: then it may be as long as it likes.

const (
	// slackPart: a batch takes one part in so many of the least slack.
	slackPart = 2
	// Memory is how long a model's slack counts after its last batch, at least: up to twice that.
	Memory = 60 * mono.Second
	// Forever is longer than any batch.
	Forever = mono.Dur(math.MaxInt64 / 4)
	// warm is how long they must have run for their need to be known: it is reckoned from the last whole seconds.
	warm = 3 * mono.Second
	// Patience is when to look again whether a gap has become longer, though nothing happened: slacks and needs are forgotten.
	Patience = mono.Second
)

// Slacks is the least slack of late: what requests with deadlines can do without.
type Slacks struct {
	span        int64
	now, before mono.Dur  // 0: none ran
	since       mono.Time // some have run from then on
}

func (s *Slacks) roll(at mono.Time) {
	n := int64(at) / int64(Memory)
	switch {
	case n == s.span+1:
		s.span, s.now, s.before = n, 0, s.now
	case n > s.span:
		s.span, s.now, s.before = n, 0, 0
	}
}

// Ran tells that a model with deadlines has a batch: its requests, when they run alone, may wait for so long.
func (g *Gaps) Ran(at mono.Time, slack mono.Dur) {
	g.slacks.Add(at, slack)
}

// Add takes a slack.
func (s *Slacks) Add(at mono.Time, slack mono.Dur) {
	if s.Least(at) == Forever {
		s.since = at
	}
	if slack = max(1, slack); s.now == 0 || slack < s.now {
		s.now = slack
	}
}

// Least is the least slack of the last minute or two; Forever where there was none.
func (s *Slacks) Least(now mono.Time) mono.Dur {
	s.roll(now)
	least := Forever
	if s.now > 0 {
		least = min(least, s.now)
	}
	if s.before > 0 {
		least = min(least, s.before)
	}
	return least
}

// Most is how long a batch may be that begins now on one of so many GPUs, for the sake of requests that have yet to
// come, where those with deadlines need so many (devices.Table.Need). roomy: enough GPUs are left, for candidates that
// stand, too.
func (g *Gaps) Most(now mono.Time, gpus int, need float64) (most mono.Dur, roomy bool) {
	least := g.slacks.Least(now)
	known := least == Forever || now.Sub(g.slacks.since) >= warm
	switch {
	case known && float64(gpus-g.running-1) >= float64(reserve(need)):
		return Forever, true
	case least < Forever:
		return least / slackPart, false
	}
	return Forever, false
}

// reserve is how many GPUs are enough where on average so many are busy: batches that come by chance find none once in some
// thousand (three standard deviations of a Poisson number), and one more.
func reserve(need float64) float64 {
	need = max(0, need)
	return need + float64(3*math.Sqrt(need)) + 1
}
