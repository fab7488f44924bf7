package devices

import "github.com/symphony-serving/symphony/transport/mono"

const (
	// headStartMost is the head start of a model that loses far more than the
	// others: so many of the intervals at which GPUs become free. 6 to 16 serve
	// about as well.
	headStartMost = 6
	// headStartFull is how far a model's loss rate must lie from that of all for
	// the whole head start: the 1 % that an SLO of a p99 allows.
	headStartFull = 0.01
	// headStartNone is the loss rate of all at which there are no head starts any
	// more. Models alike do best by latest alone, and at their goodput all lose 1 %.
	headStartNone = 0.01
)

const (
	// crowdedFrom is the loss rate of all from which on GPUs are crowded.
	crowdedFrom = 0.1
	// crowdedBusy is the part of their time that they were busy at least.
	crowdedBusy = 0.9
	// fullFrom is the loss rate of all, and fullNeed the part of the GPUs that is needed, from which on GPUs are full.
	fullFrom, fullNeed = 0.001, 0.9
)

// Crowd is GPUs that are crowded.
type Crowd struct {
	Length   mono.Dur // of a batch, on average
	lossRate float64  // of all that was wanted
	span     int64
}

// Crowded tells whether all GPUs were busy lately and a good part of what was wanted of them was lost all the same. (What is lost with
// idle GPUs is lost for another reason: weights that are not there, or deadlines that are too tight.)
func (t *Table) Crowded(now mono.Time) (c Crowd, ok bool) {
	n := SpanOf(now)
	all := t.demand.recent(n)
	c = Crowd{Length: all.taken / mono.Dur(max(1, all.batches)), lossRate: all.lossRate(), span: n}
	span := now.Sub(mono.Time((n - 1) * int64(Span)))
	return c, c.lossRate >= crowdedFrom && float64(all.taken) >= float64(crowdedBusy*float64(span))*float64(t.count)
}

// Full tells whether what comes would keep nearly all GPUs busy even in the batches of the whole deferral, and a little of it is lost. (How busy
// GPUs are does not tell: those that defer nothing are busy with small batches.) The need is as of a sweep in this span: a model that is silent counts
// no more.
func (t *Table) Full(need float64, now mono.Time) bool {
	all := t.demand.recent(SpanOf(now))
	return all.lossRate() >= fullFrom && need >= float64(fullNeed*float64(t.count))
}

// Worse is by how much a model lost more of what it wanted than all together did, -1 to 1.
func (c *Crowd) Worse(u *Usage) float64 {
	own := u.demand.recent(c.span)
	if own.all() == 0 {
		return 0
	}
	return own.lossRate() - c.lossRate
}

// HeadStart is by how much a model's candidate counts as due earlier than it is,
// or later where it is negative, among those that wait for a GPU.
//
// By latest alone some models always come off worse: those whose candidates are
// due when others are dearer, or whose window is narrow. At the goodput of the 29
// strongly batching models of the A100 zoo one loses 1 % of its requests and all
// together 0.3 %, and the worst one decides what the mix may carry. So a model
// that lately lost more than all together goes a little before others, and one
// that lost less lets them pass: the losses even out. Of a model that ran nothing
// lately no loss is known: it goes by its latest.
//
// In an overload, where losses are not to be avoided, evening them out would be
// dear: the models with the dearest requests, which lose the most, would get GPU
// time that serves several requests of others (a sixth less was served at 1.5
// times the goodput). So head starts fade as the loss rate of all rises.
//
// Rejected: a head start in proportion to the model's own batches, or the same
// milliseconds for all mixes: what counts is how many others are passed.
func (t *Table) HeadStart(u *Usage, now mono.Time) mono.Dur {
	n := SpanOf(now)
	all, own := t.demand.recent(n), u.demand.recent(n)
	if all.lost == 0 || own.all() == 0 || t.cfg.ByLatest {
		return 0
	}
	rate := all.lossRate()
	ahead := min(1, max(-1, (own.lossRate()-rate)/headStartFull))
	fade := max(0, 1-rate/headStartNone)
	interval := float64(all.taken) / float64(max(1, all.batches)) / float64(max(1, t.count))
	return mono.Dur(headStartMost * interval * ahead * fade)
}
