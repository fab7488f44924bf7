package paper

import (
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// The example of section 3.3: 3 GPUs, one model with l(b) = b + 5, SLO 12,
// a request each 0.75. A time unit is a millisecond here.
const (
	exampleGap  = 750 * mono.Microsecond
	exampleGPUs = 3
)

// arrivals are instants in a list, all of model 0: request i, from 1, is R_i.
type arrivals struct{ at []mono.Time }

// Next implements workload.Source.
func (a *arrivals) Next() (mono.Time, int, bool) {
	if len(a.at) == 0 {
		return mono.Never, 0, false
	}
	t := a.at[0]
	a.at = a.at[1:]
	return t, 0, true
}

// trace is what happened to the example's requests.
type trace struct {
	batches []plot.Batch
	batchOf map[int]int
	dropped []int // numbers of requests
	drops   []mono.Time
}

// example runs R_1 to R_last without the numbers in missing.
func example(make sim.PolicyFactory, last int, missing ...int) (*trace, *plot.Timeline, error) {
	p, err := profile.Linear(mono.Millisecond, 5*mono.Millisecond, batchMax)
	if err != nil {
		return nil, nil, err
	}
	source := &arrivals{}
	for i := 1; i <= last; i++ {
		if !slices.Contains(missing, i) {
			source.at = append(source.at, mono.Time(i-1)*mono.Time(exampleGap))
		}
	}
	t := &trace{batchOf: map[int]int{}}
	times := slices.Clone(source.at)
	end := times[len(times)-1]
	number := func(at mono.Time) int { return int(at/mono.Time(exampleGap)) + 1 }
	c := &sim.Config{Models: []sim.Model{{Name: "example", Profile: p, SLO: 12 * mono.Millisecond}}, GPUs: exampleGPUs,
		Source: source, Duration: mono.Dur(end) + 1, NewPolicy: make, Seed: seedFirst}
	c.Observer.Executed = func(e *sim.Execution) {
		for i := range e.Requests {
			t.batchOf[number(e.Requests[i].Arrival)] = len(t.batches)
		}
		t.batches = append(t.batches, plot.Batch{GPU: int(e.GPU), Start: e.Start, End: e.End, Size: len(e.Requests)})
	}
	c.Observer.Drop = func(now mono.Time, d *batching.Drop) {
		t.dropped, t.drops = append(t.dropped, number(d.Request.Arrival)), append(t.drops, now)
	}
	if _, err := sim.Run(c, nil); err != nil {
		return nil, nil, fmt.Errorf("example of section 3.3: %w", err)
	}
	slices.Sort(t.dropped)
	return t, t.picture(times), nil
}

func (t *trace) picture(times []mono.Time) *plot.Timeline {
	line := &plot.Timeline{GPUs: exampleGPUs, Batches: t.batches, Drops: t.drops}
	for _, at := range times {
		b, ok := t.batchOf[int(at/mono.Time(exampleGap))+1]
		if !ok {
			b = plot.None
		}
		line.Requests = append(line.Requests, plot.Request{At: at, Batch: b})
	}
	return line
}

// settled is the batches that start in [from, to), sorted by start.
func (t *trace) settled(from, to mono.Time) []plot.Batch {
	var out []plot.Batch
	for _, b := range t.batches {
		if b.Start >= from && b.Start < to {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b plot.Batch) int { return int(a.Start - b.Start) })
	return out
}
