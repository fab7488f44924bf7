package sim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// ErrInvalid is the cause of every refused configuration.
var ErrInvalid = errors.New("invalid simulation")

// Model is one model and its arrivals.
type Model struct {
	Name    string
	Profile *profile.Profile
	SLO     mono.Dur        // of best effort: how long whoever asks waits for the answer at most
	Stream  workload.Stream // unused when Config.Source is set
	// Class of its requests. Policies that know no other than ClassLatency take those of best effort for requests
	// that have until their SLO.
	Class wire.Class
	// With Config.Paging: the pages of its weights, and how long they take to copy.
	Pages    int
	LoadTime mono.Dur
}

// GPUEvent is a GPU that joins or goes at a given time.
type GPUEvent struct {
	At   mono.Time
	GPU  wire.GPUID
	Kind EventKind
}

// EventKind of a GPUEvent.
type EventKind uint8

const (
	// Join: the GPU is there and free.
	Join EventKind = iota
	// Leave: the scheduler knows at once. What runs there is cut, and its requests
	// are queued again: a policy.Scheduler has no way to drain a GPU, as an operator
	// would.
	Leave
	// Fail: the GPU and what runs there are lost; the scheduler learns of it
	// after Config.Detection, or when the GPU joins again.
	Fail
)

// Config of a run.
type Config struct {
	Models    []Model
	GPUs      int
	Events    []GPUEvent     // in any order
	Detection mono.Dur       // from a failure until the scheduler knows
	Source    Source         // nil: the models' Streams; a workload.Closed is told of answers
	Tape      *workload.Tape // of the Streams' draws, for several runs of one seed; nil: they are drawn anew
	Network   Network        // the zero Network delays nothing
	Jitter    Jitter         // of execution; the zero Jitter is none
	Pauses    []Pause        // of the scheduler and of the GPUs
	Paging    Paging         // memory of the GPUs; the zero Paging has all models on all of them
	Margins   bool           // what was late is taken off deadlines (margin.go)
	Warmup    mono.Dur       // not counted
	Duration  mono.Dur       // counted
	Frontends int            // requests come from so many, by turns; 0 means 1
	NeedSpan  mono.Dur       // the need is reckoned for each such span; 0 means a second
	// Steer is asked at the end of each NeedSpan which GPUs join and go; nil: nobody is.
	Steer     func(now mono.Time) []GPUEvent
	Seed      uint64        // of arrivals, network, jitter and pauses
	NewPolicy PolicyFactory // makes the scheduler
	Observer  Observer
}

// Source is workload.Source.
type Source = workload.Source

// PolicyFactory makes a scheduler.
type PolicyFactory func(policy.Config) policy.Scheduler

// Observer is told what happens; nil fields are not called. What it is handed
// is valid during the call.
type Observer struct {
	Arrive func(now mono.Time, model wire.ModelID)
	// Dispatched is when a batch is sent to its GPU.
	Dispatched func(now mono.Time, d *policy.Dispatch)
	Executed   func(e *Execution) // when its fate is known: its report came, or it was cut
	Drop       func(now mono.Time, d *batching.Drop)
	Cold       func(now mono.Time, model wire.ModelID) // a request that has just arrived: no GPU has its model
	Copied     func(c *Copy)                           // a load that ended
	// Need is what deferral alone would keep busy with what arrived in a span of the
	// counted time (Config.NeedSpan), in GPUs.
	Need func(from, to mono.Time, gpus float64)
}

// Execution is a batch that ran. Kept is false when its work was lost: its
// requests are queued again.
type Execution struct {
	Batch      wire.BatchID
	Model      wire.ModelID
	GPU        wire.GPUID
	Fetch      mono.Dur // from when it was sent until order and inputs were there
	Start, End mono.Time
	Answered   mono.Time // when the frontends have the answers, if Kept
	Kept       bool
	Requests   []batching.Request
}

// Check says what is wrong with the configuration.
func (c *Config) Check() error {
	switch {
	case len(c.Models) == 0:
		return fmt.Errorf("%w: no models", ErrInvalid)
	case c.GPUs < 1 && !slices.ContainsFunc(c.Events, func(e GPUEvent) bool { return e.Kind == Join }):
		return fmt.Errorf("%w: %d GPUs, must be at least 1", ErrInvalid, c.GPUs)
	case c.GPUs > gpusMax:
		return fmt.Errorf("%w: %d GPUs, at most %d", ErrInvalid, c.GPUs, gpusMax)
	case c.Duration <= 0 || c.Warmup < 0:
		return fmt.Errorf("%w: duration %v and warmup %v: the first must be above 0, the second not below", ErrInvalid, c.Duration, c.Warmup)
	case c.NewPolicy == nil:
		return fmt.Errorf("%w: no policy", ErrInvalid)
	}
	for i := range c.Models {
		m := &c.Models[i]
		need := m.Profile.Latency(1) + c.Network.Bound.Of(1) + c.Network.Bound.Ctrl
		if m.SLO < need {
			return fmt.Errorf("%w: model %s: SLO %v is below l(1) and the network's delay, %v: no request can be served in time", ErrInvalid, m.Name, m.SLO, need)
		}
	}
	for _, e := range c.Events {
		if int(e.GPU) >= gpusMax || e.At < 0 {
			return fmt.Errorf("%w: event of GPU %d at %v: ids are below %d, instants not below 0", ErrInvalid, e.GPU, e.At, gpusMax)
		}
	}
	return errors.Join(c.Network.check(), c.Jitter.check(), checkPauses(c.Pauses), c.checkPaging())
}

const gpusMax = 8192

// open bounds the requests queued or running: four times what arrives in the
// longest SLO, and room for bursts. A Source does not tell its rate.
func (c *Config) open() int {
	rate, slo := 0.0, mono.Dur(0)
	for i := range c.Models {
		rate += c.Models[i].Stream.Rate
		slo = max(slo, c.Models[i].SLO)
	}
	if c.Source != nil {
		return 1 << 18
	}
	return min(1<<20, 1<<14+int(4*rate*slo.Seconds()))
}

// arrivals are those of the models' streams.
func (c *Config) arrivals() (*workload.Mix, error) {
	streams := make([]workload.Stream, len(c.Models))
	for i := range c.Models {
		streams[i] = c.Models[i].Stream
	}
	if c.Tape != nil {
		return c.Tape.NewMix(streams, c.Seed)
	}
	return workload.NewMix(streams, c.Seed)
}
