package batching

import "github.com/symphony-serving/symphony/transport/mono"

// Delay is the network's delay bound: an order reaches a GPU within Ctrl, and
// each input of the batch takes Data more (Figure 18), and MiB for each MiB of it, if the
// model tells how large it is (Config.Bytes).
//
// Lead opens the window that much before frontrun. Where alpha is small the
// window [frontrun, latest] is narrower than a thread's wake-up is late (a few
// microseconds for a small model on a CPU, against tens), and every wake-up
// would find that the batch no longer fits and cut it.
//
// LeadShare opens it by that part of the time left, when this is more: a model
// with few requests defers each to its deadline, and a pause of the machine at
// that moment, tens of milliseconds on a busy one, would drop a request that
// had waited two seconds for company. The part shrinks as the deadline nears,
// so a steady stream, which forms its candidate anew with each arrival, waits
// as long as before.
//
// Late opens it by what was measured (overrun.Lateness): for so long does the
// process stand still now and then. A model spends at most a quarter of its SLO on
// it, and only while GPUs are idle: where they are scarce smaller batches cost
// more than the few that a pause hits, and who waits for a GPU has no timer.
//
// The simulator has late wake-ups only where they are asked for (sim.Pause):
// else all three are 0.
type Delay struct {
	Ctrl, Data, MiB, Lead mono.Dur
	Late                  mono.Dur
	LeadShare             int // one part in so many of the time left to the deadline; 0: none
}

// Sized is the bound for a model whose items have so many bytes of inputs.
func (d Delay) Sized(bytes int) Delay {
	d.Data += d.MiB * mono.Dur(bytes) >> 20
	d.MiB = 0
	return d
}

// Of is delay(b), of a bound that is Sized.
func (d *Delay) Of(b int) mono.Dur { return d.Ctrl + d.Data*mono.Dur(b) }

// lead is how long before frontrun the window opens, with so much time left to
// the earliest deadline.
func (d *Delay) lead(left mono.Dur) mono.Dur {
	if d.LeadShare == 0 {
		return d.Lead
	}
	return max(d.Lead, left/mono.Dur(d.LeadShare))
}

// latePart: Late takes one part in so many of an SLO at most, as a margin does.
const latePart = 4

// Candidate is a model's current best batch with its window. Size 0: none. (Four words in
// four fields: more of either would keep it out of registers, and cost a third more for each
// request.)
type Candidate struct {
	Batch
	Exec   mono.Time // desired start
	Latest mono.Time // last start that keeps the earliest deadline
	Delay  mono.Dur  // delay(Size): the order leaves at Exec - Delay
}

// Batch is a candidate's first word.
type Batch struct {
	Size int32
	// Hold is by how much Exec lies before the start that deferral alone would choose, in
	// units of holdUnit: until then only GPUs that are kept anyway may take the batch.
	Hold uint32
}

// holdUnit bounds what Hold can say to 73 minutes.
const holdUnit = mono.Microsecond

// Deferred is the start that deferral alone would choose.
func (c *Candidate) Deferred() mono.Time { return c.Exec.Add(mono.Dur(c.Hold) * holdUnit) }
