package batching

import "github.com/symphony-serving/symphony/transport/mono"

// opening learns how long before frontrun the window must open.
//
// Started at frontrun, a batch is as large as its deadline lets it be. Started
// earlier, it misses the requests that were still to come; started later, for
// want of a free GPU, it has to leave requests out. Both cost, in GPU time per
// request and per unit of time too early or too late:
//
//	early: 2*fix/gap                fix = l(b)/b - alpha, what batching shares out;
//	                                gap, until the next request comes
//	late:  (fix + w*l(b)/b)/alpha   alpha, for which a batch shrinks by one;
//	                                w, what a request left out is worth, below
//
// (Early counts twice: the GPU time that a small batch wastes is missing where
// others wait, too. Twice was chosen by simulation, as were the constants below;
// docs/decisions/0007-constants-by-simulation.md says over which workloads.)
//
// A GPU that all want the moment it is free goes to one of them, however early
// they ask: then an opening takes from the others what it gives. Only where a GPU
// was idle would an earlier one have gained anything. So late counts for as
// often as the model's batches found a GPU idle, which is when they were not
// late themselves: late * P(not late).
//
// How long it takes to get a GPU is random. A step up for each late start and one
// down for each early one, in proportion to what they cost, cancel out where
// P(late) * late * P(not late) = P(not late) * early. So the opening becomes the
// quantile of the wait at 1 - early/late, much like a newsvendor's stock, or 0
// where early is dearer. The steps find it without knowing the distribution,
// and follow when it moves. They are a part of the starts' scatter.
//
// So a model whose requests are rare and whose batches pay opens as soon as
// GPUs are scarce, and at frontrun where one is always free.
//
// A request left out is not lost yet: the next batch may serve it. So w counts
// the requests lost for each one left out, times lossWeight: the SLO allows
// 1 % of losses, and near that a lost request weighs more than its GPU time.
//
// Where an early start costs next to nothing (a small alpha, rare requests) the
// steps down are tiny, and an opening learnt in a surge would outlast it for
// ever: batches of one, on GPUs that could rest. So after calmStarts in a row that
// found a GPU idle when the window opened, the lead halves at each start.
//
// Without rivals late starts teach nothing: no opening gets a model the GPUs
// that its own batches keep.
//
// Rejected: a constant opening, the best one differs by workload; a moving
// average of the waits from exec to grant, which opens too late for wide
// windows and too early for narrow ones; the same steps with w = 1, or
// without P(not late), where all models open early because all open early, and
// stay so: batches are small, hence GPUs scarce.
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
	left := min(mono.Dur(s.size)*countUnit, countUnit*max(0, s.late)/max(1, s.alpha))
	o.left += int(left) - o.left/lossMemory
	o.lost += countUnit*o.fresh - o.lost/lossMemory
	o.fresh = 0
	o.starts = min(o.starts+1, scatterMemory)
	o.scatter += (max(s.late, -s.late) - o.scatter) / mono.Dur(o.starts)
	if o.calm = min(o.calm+1, calmStarts); !s.idle {
		o.calm = 0
	}
	if s.late > 0 && !s.rivals {
		return
	}
	o.busy -= float64(o.busy / busyMemory)
	if s.late > 0 {
		o.busy += 1.0 / busyMemory
	}
	// Both costs times alpha. Conversions keep a product from being fused with
	// a sum: every machine rounds alike.
	early := 2 * float64(s.fix) * float64(s.alpha) / float64(max(1, s.gap)) // a quotient is never fused
	weight := min(weightMax, lossWeight*float64(o.lost)/float64(max(1, o.left)))
	late := float64(float64(float64(s.fix)+float64(float64(s.per)*weight)) * (1 - o.busy))
	width := float64(o.scatter) / max(1, early+late)
	if s.late <= 0 {
		if o.calm == calmStarts {
			o.lead /= 2
		}
		o.lead -= mono.Dur(width * early / float64(min(openingStep, o.starts)))
	} else {
		if s.missed {
			width = max(width, float64(s.late)/missedPart/max(1, early+late))
		}
		o.lates = min(o.lates+1, openingStep)
		o.lead += mono.Dur(width * late / float64(o.lates))
	}
	o.lead = min(max(o.lead, 0), most)
}
