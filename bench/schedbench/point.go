package schedbench

import "github.com/symphony-serving/symphony/transport/mono"

// BadMost is the bad rate that a point must stay below.
const BadMost = 0.01

// Point is one live run. Spans of latencies are in microseconds, SLO, Alpha and
// Beta in milliseconds.
type Point struct {
	Loops, GPUs, Models int
	Process             string
	Shape               float64 `json:",omitzero"`
	Rate                float64 // requests/s, as asked
	SLO, Alpha, Beta    float64
	Quantum             float64
	Placement           string  // of the loops
	Seconds             float64 // that count
	Interrupted         bool    `json:",omitzero"`

	Offered, OK, Late, Dropped uint64 // requests
	Unanswered                 uint64 // must be 0
	Drops                      map[string]uint64
	BadRate                    float64
	OfferedRate, Goodput       float64 // requests/s
	Batches                    uint64
	BatchRate                  float64 // batches/s
	MeanBatch                  float64
	GPUBusy                    float64 // share of the GPUs' time

	ModelCPU, RankCPU, WorldCPU, OtherCPU Cost
	ModelLoops                            []LoopUse
	RankLoop                              LoopUse
	UsedMax                               int    // most requests that a loop held
	Tuned                                 *Tuned `json:",omitempty"` // nil: no tuner

	Grants      Spread // from when a grant was due, by its candidate's Exec and its GPU, until it left the rank loop
	Lateness    Spread // from when an order was due, its last request's way to the candidate counted, until it left the model loop
	ToCandidate Spread // from a request's arrival until a candidate had it
	Lag         Spread // of the world's offers: how late the oldest of a turn was

	batched uint64
}

// Cost is a thread's processor time.
type Cost struct {
	PerRequest float64 // ns
	Busy       float64 // share of one processor
}

func (c *Cost) add(d Cost) { c.PerRequest, c.Busy = c.PerRequest+d.PerRequest, c.Busy+d.Busy }

// LoopUse is what a loop did.
type LoopUse struct {
	Turns, Wakes, Full uint64
	BurstMax           uint64  // since the start, the warm-up included
	WaitingMax         int     // most inputs seen waiting, ten looks a second
	Busy               float64 // share of the time in turns that had work, by its own clock
	Dispatches         uint64  // batches; grants of the rank loop
}

func (p *Point) finish(span, busy mono.Dur) {
	p.BadRate = 1
	if p.Offered > 0 {
		p.BadRate = 1 - float64(p.OK)/float64(p.Offered)
	}
	p.OfferedRate, p.Goodput = float64(p.Offered)/span.Seconds(), float64(p.OK)/span.Seconds()
	p.BatchRate = float64(p.Batches) / span.Seconds()
	if p.Batches > 0 {
		p.MeanBatch = float64(p.batched) / float64(p.Batches)
	}
	p.GPUBusy = busy.Seconds() / span.Seconds() / float64(p.GPUs)
}

// Holds reports that the point's rate is carried.
func (p *Point) Holds() bool { return p.BadRate < BadMost && p.Unanswered == 0 }

// CPU is ns of processor time per request, of the scheduler's loops alone.
func (p *Point) CPU() float64 { return p.ModelCPU.PerRequest + p.RankCPU.PerRequest }
