package batching

import "github.com/symphony-serving/symphony/transport/mono"

// opening learns how long before frontrun a model's window opens: its lead.
//
//	queue not empty        open              frontrun                 latest
//	      |                 |<----- lead ------>|                        |
//	------+-----------------+-------------------+------------------------+----> time
//	         batch waits    |    batch takes the first GPU that is free  |
//	                        |                   |                        |
//	a GPU comes here:       | EARLY: the batch  | LATE: fewer fit before |
//	                        | misses requests   | the deadline, requests |
//	                        | still to come     | are left out           |
//
// Started at frontrun, a batch is as large as its deadline lets it be. A long lead makes
// it find a GPU before that, a short one makes it wait for one beyond. Which is dearer
// differs by model and load, and how long it takes to get a GPU is random.
//
// # What a start costs
//
// In GPU time per request and per unit of time too early or too late:
//
//	early: 2*fix/gap                fix = l(b)/b - alpha, what batching shares out;
//	                                gap, until the next request comes
//	late:  (fix + w*l(b)/b)/alpha   alpha, for which a batch shrinks by one;
//	                                w, what a request left out is worth
//
// Early counts twice: the GPU time that a small batch wastes is missing where others
// wait, too.
//
// A request left out is not lost yet: the next batch may serve it. So w counts the
// requests lost for each one left out, times lossWeight: the SLO allows 1 % of losses,
// and near that a lost request weighs more than its GPU time.
//
// Late counts only as often as an earlier opening would have gained anything: where all
// want a GPU the moment it is free, it goes to one of them however early they ask, and an
// opening takes from the others what it gives. So late is times P(not late), the share of
// starts that found a GPU idle.
//
// # How the lead follows
//
// A step up for each late start, a step down for each early one, in proportion to what
// they cost. They cancel out where
//
//	P(late) * late * P(not late) = P(not late) * early
//
// So the lead becomes the quantile of the wait for a GPU at 1 - early/late, much like a
// newsvendor's stock, or 0 where early is dearer: a model whose requests are rare and
// whose batches pay opens as soon as GPUs are scarce, and at frontrun where one is always
// free. The steps find it without knowing the distribution, and follow when it moves.
// They are a part of the starts' scatter around frontrun.
//
// Two exceptions:
//   - After calmStarts in a row that found a GPU idle when the window opened, the lead
//     halves at each start. Where an early start costs next to nothing (a small alpha, rare
//     requests) the steps down are tiny, and a lead learnt in a surge would outlast it for
//     ever: batches of one, on GPUs that could rest.
//   - Without rivals late starts teach nothing: no lead gets a model the GPUs that its own
//     batches keep.
//
// # Where the constants come from
//
// The two of early and those below were chosen by simulation
// (docs/decisions/0007-constants-by-simulation.md says over which workloads).
//
// Rejected: a constant lead, the best one differs by workload; a moving average of the
// waits from exec to grant, which opens too late for wide windows and too early for
// narrow ones; the same steps with w = 1, or without P(not late), where all models open
// early because all open early, and stay so: batches are small, hence GPUs scarce.
type opening struct {
	lead    mono.Dur // before frontrun
	scatter mono.Dur // mean distance of the starts from frontrun
	calm    int      // starts in a row that found a GPU idle, up to calmStarts
	starts  int      // so far, up to scatterMemory: the first ones count for more
	lates   int      // of them late, up to openingStep: likewise
	busy    float64  // decayed share of the starts that were late: no GPU was idle
	fresh   int      // requests lost since the last batch
	lost    int      // decayed requests lost, in 1/countUnit
	left    int      // decayed requests left out, in 1/countUnit
}

const (
	scatterMemory = 32
	lossMemory    = 1024
	busyMemory    = 128
	// openingStep is how many steps make up the scatter.
	openingStep = 10
	// calmStarts is so many that starts which find a GPU idle nineteen times of
	// twenty, and need a lead for the twentieth, do not pass for calm.
	calmStarts = 128
	// missedPart: where a candidate found no GPU in time, steps are at least for
	// this part of what it missed. Starts that are all in time have no scatter to
	// learn from when GPUs become scarce. A larger part makes models eager where
	// some candidates are missed whatever is done.
	missedPart = 3
	// lossWeight: more serves bursts better, less serves even arrivals.
	lossWeight = 30
	// weightMax keeps the losses of an overload, which no opening can prevent,
	// from making the model eager.
	weightMax = 2
)

// start is a batch that starts.
type start struct {
	size       int
	per, fix   mono.Dur // l(b)/b, and its part that batching shares out
	alpha, gap mono.Dur
	late       mono.Dur // after frontrun; negative: before it
	rivals     bool
	idle       bool // a GPU was free when the window opened
	missed     bool // no GPU came in time for even one request
}

// learn takes a start into account; the lead stays within most.
func (o *opening) learn(s start, most mono.Dur) {
	o.count(&s)
	if s.late > 0 && !s.rivals {
		return
	}
	o.busy -= float64(o.busy / busyMemory)
	if s.late > 0 {
		o.busy += 1.0 / busyMemory
	}
	if early, late := o.costs(&s); s.late <= 0 {
		o.stepDown(early, late)
	} else {
		o.stepUp(&s, early, late)
	}
	o.lead = min(max(o.lead, 0), most)
}

// count is what every start tells: requests lost and left out, the scatter, the calm.
func (o *opening) count(s *start) {
	left := min(mono.Dur(s.size)*countUnit, countUnit*max(0, s.late)/max(1, s.alpha))
	o.left += int(left) - o.left/lossMemory
	o.lost += countUnit*o.fresh - o.lost/lossMemory
	o.fresh = 0
	o.starts = min(o.starts+1, scatterMemory)
	o.scatter += (max(s.late, -s.late) - o.scatter) / mono.Dur(o.starts)
	if o.calm = min(o.calm+1, calmStarts); !s.idle {
		o.calm = 0
	}
}

// costs are what a start too early and one too late cost, times alpha. (Conversions keep a
// product from being fused with a sum: every machine rounds alike.)
func (o *opening) costs(s *start) (early, late float64) {
	early = 2 * float64(s.fix) * float64(s.alpha) / float64(max(1, s.gap)) // a quotient is never fused
	weight := min(weightMax, lossWeight*float64(o.lost)/float64(max(1, o.left)))
	late = float64(float64(float64(s.fix)+float64(float64(s.per)*weight)) * (1 - o.busy))
	return early, late
}

// stepDown is for a start that was early. Steps are a part of the scatter, by the share of
// their cost; the first few are larger.
func (o *opening) stepDown(early, late float64) {
	if o.calm == calmStarts {
		o.lead /= 2
	}
	width := float64(o.scatter) / max(1, early+late)
	o.lead -= mono.Dur(width * early / float64(min(openingStep, o.starts)))
}

// stepUp is for a start that was late.
func (o *opening) stepUp(s *start, early, late float64) {
	width := float64(o.scatter) / max(1, early+late)
	if s.missed {
		width = max(width, float64(s.late)/missedPart/max(1, early+late))
	}
	o.lates = min(o.lates+1, openingStep)
	o.lead += mono.Dur(width * late / float64(o.lates))
}
