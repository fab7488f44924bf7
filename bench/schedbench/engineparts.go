package schedbench

import (
	"fmt"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/transport/histogram"
	"github.com/symphony-serving/symphony/transport/mono"
)

// What this package knows of the engine beyond Done and the Sink stands here: how
// its loops wait, how requests are handed in, and what it measures itself.

// engineMargin is what scheduler.margin is by default.
const engineMargin = 250 * mono.Microsecond

func (c *Config) engine() engine.Config {
	return engine.Config{ModelLoops: c.Loops, GPUsMax: c.GPUs, Record: c.Record, RequestsMax: requestsMax(c), Margin: engineMargin,
		TunerShare: c.Tuner, Setting: c.Setting, Placement: c.Placement}
}

// placementText says how the loops share the machine.
func placementText(p *engine.Placement, loops int) string {
	text := "a thread for each loop"
	if p.Joined {
		text = "the rank loop on the model loop's thread"
	}
	if cores := usedCores(p, loops); len(cores) > 0 {
		text += fmt.Sprintf(", pinned to %v", cores)
	}
	for _, w := range []struct {
		what string
		d    mono.Dur
	}{{"model loops poll", p.ModelPoll}, {"the rank loop polls", p.RankPoll}, {"spin before an instant", p.Spin}, {"doze", p.Doze}} {
		switch w.d {
		case 0:
		case engine.Spinning:
			text += ", " + w.what + " for ever"
		default:
			text += fmt.Sprintf(", %s %v", w.what, w.d)
		}
	}
	return text
}

// usedCores are those of the placement that the threads of so many model loops take.
func usedCores(p *engine.Placement, loops int) []int {
	threads := loops + 1
	if p.Joined {
		threads--
	}
	return p.Cores[:min(threads, len(p.Cores))]
}

// requestsMax is room for twice what the SLO lets wait, so that the bound is never
// what a run measures.
func requestsMax(c *Config) int {
	return min(1<<24, max(1<<14, int(2*c.Rate*c.SLO.Seconds())))
}

// desk is the requests that are about to be handed to one model loop.
type desk struct{ waiting []engine.Submission }

// deskSize is how many requests one call hands in at most.
const deskSize = 256

func newDesks(loops int) []desk {
	d := make([]desk, loops)
	for i := range d {
		d[i].waiting = make([]engine.Submission, 0, deskSize)
	}
	return d
}

// put adds a request of the loop's; false when the desk is full.
func (w *world) put(s *source, id uint64) bool {
	d := &w.desks[w.engine.Loop(s.model)]
	if len(d.waiting) == cap(d.waiting) && !w.hand(w.engine.Loop(s.model)) {
		return false
	}
	d.waiting = append(d.waiting, engine.Submission{Model: s.model, Request: batching.Request{ID: requestID(id), Arrival: s.next, Deadline: s.next.Add(w.cfg.SLO)}})
	return true
}

// hand gives the engine what lies on a desk; false when its ring took only a part.
func (w *world) hand(loop int) bool {
	d := &w.desks[loop]
	if len(d.waiting) == 0 {
		return true
	}
	n := w.engine.SubmitAll(loop, d.waiting)
	d.waiting = d.waiting[:copy(d.waiting, d.waiting[n:])]
	return len(d.waiting) == 0
}

// lateness is how long after they were due the grants left the rank loop and the
// orders the model loops, between two snapshots.
func lateness(a, b *engine.Stats) (grants, orders Spread) {
	g := b.Rank.Late.Minus(a.Rank.Late)
	o := sum(a, b, func(l *engine.LoopStats) histogram.Counts { return l.Late })
	return spreadOf(&g), spreadOf(&o)
}

// toCandidate is the time from a request's arrival until a candidate had it.
func toCandidate(a, b *engine.Stats) Spread {
	c := sum(a, b, func(l *engine.LoopStats) histogram.Counts { return l.Formed })
	return spreadOf(&c)
}

func sum(a, b *engine.Stats, of func(*engine.LoopStats) histogram.Counts) histogram.Counts {
	var all histogram.Counts
	for i := range b.Models {
		all = all.Plus(of(&b.Models[i]).Minus(of(&a.Models[i])))
	}
	return all
}
