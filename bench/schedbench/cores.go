package schedbench

import (
	"context"
	"runtime"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
	"github.com/symphony-serving/symphony/transport/wire"
)

// call is a call into a core.
type call int

const (
	callEnqueue call = iota
	callSettle
	callWake
	callGranted
	callCompleted
	callSetCandidate
	callStep
	callAnswer
	callDone
	callCount
)

// rig is the bare cores, the same arrivals and GPUs as in a live run, and a
// virtual clock that goes from one event to the next, or from turn to turn as a
// loop under load does.
type rig struct {
	now    mono.Time
	shard  *shard.Shard
	rank   *rank.Rank
	source *source
	gpus   gpus
	wheel  *wheel
	prof   *profile.Profile
	slo    mono.Dur
	out    shard.Out
	grants rank.Out
	done   func(*run) // bound once: a closure in each turn would be garbage
	watch  stopwatch
	turn   mono.Dur // least time between two looks: what arrives meanwhile is settled at once

	requests, batches, batched, dropped, late uint64
}

// newRig makes the cores; cfg is complete.
func newRig(cfg *Config, watch bool) (*rig, error) {
	prof, err := cfg.profileFor()
	if err != nil {
		return nil, err
	}
	const start = mono.Time(mono.Second)
	most := cfg.GPUs * 4
	r := &rig{now: start, prof: prof, slo: cfg.SLO, rank: rank.New(rank.Config{}),
		shard:  shard.New(shard.Config{RequestsMax: requestsMax(cfg), BatchesMax: cfg.GPUs * 2}),
		source: newSource(cfg.tape, cfg.Rate, start, cfg.Seed), gpus: newGPUs(cfg.GPUs), wheel: newWheel(most, start)}
	r.done = r.complete
	for g := range cfg.GPUs {
		r.rank.AddGPU(wire.GPUID(g), start)
	}
	share, delay := batching.ShareOf(cfg.GPUs, cfg.Models), batching.Delay{Ctrl: cfg.Delay}
	r.shard.SetGPUs(start, cfg.GPUs, share, &r.out)
	r.shard.SetDelay(start, delay, &r.out)
	for m := range cfg.Models {
		r.shard.AddModel(wire.ModelID(m), shard.ModelConfig{Config: batching.Config{Profile: prof, SLO: cfg.SLO, QueueMax: requestsMax(cfg)}, Margin: mono.Millisecond})
	}
	r.out.Reset()
	if watch {
		r.watch.on, r.watch.cost = true, clockCost()
	}
	return r, nil
}

// run goes on until n more requests have arrived.
func (r *rig) run(n uint64) {
	for until := r.requests + n; r.requests < until; {
		r.now = max(r.now.Add(r.turn), min(r.source.next, r.shard.NextWake(), r.rank.NextWake()))
		r.wheel.due(r.now, r.done)
		if r.source.next <= r.now {
			r.arrive()
		}
		r.settle()
	}
}

// arrive hands in what has arrived.
func (r *rig) arrive() {
	for r.source.next <= r.now {
		r.requests++
		q := batching.Request{ID: wire.RequestID(r.requests), Arrival: r.source.next, Deadline: r.source.next.Add(r.slo)}
		t := r.watch.begin(callEnqueue)
		r.shard.Enqueue(r.now, r.now, r.source.model, &q, &r.out)
		r.watch.end(callEnqueue, t)
		r.source.advance()
		if r.turn == 0 {
			break
		}
	}
	t := r.watch.begin(callSettle)
	r.shard.Settle(r.now, &r.out)
	r.watch.end(callSettle, t)
	r.apply()
}

// settle does what is due now.
func (r *rig) settle() {
	if r.shard.NextWake() <= r.now {
		t := r.watch.begin(callWake)
		r.shard.Wake(r.now, &r.out)
		r.watch.end(callWake, t)
		r.apply()
	}
	for r.rank.NextWake() <= r.now {
		r.grants.Grants = r.grants.Grants[:0]
		t := r.watch.begin(callStep)
		r.rank.Step(r.now, &r.grants)
		r.watch.end(callStep, t)
		for _, g := range r.grants.Grants {
			t := r.watch.begin(callGranted)
			r.shard.Granted(r.now, g, &r.out)
			r.watch.end(callGranted, t)
			r.apply()
		}
	}
}

// apply carries the shard's effects out.
func (r *rig) apply() {
	r.dropped += uint64(len(r.out.Drops))
	for i := range r.out.Dispatches {
		d := &r.out.Dispatches[i]
		n := len(d.Requests)
		start, end := r.gpus.run(int(d.GPU), r.now, d.Exec, r.prof.Latency(n))
		r.wheel.add(&run{batch: d.Batch, start: start, end: end, size: int32(n)})
		r.batches++
		r.batched += uint64(n)
		for k := 0; k < n && d.Requests[k].Deadline < end; k++ {
			r.late++
		}
	}
	for i := range r.out.Answers {
		t := r.watch.begin(callAnswer)
		r.rank.Answer(r.out.Answers[i])
		r.watch.end(callAnswer, t)
	}
	for i := range r.out.Candidates {
		c := &r.out.Candidates[i]
		t := r.watch.begin(callSetCandidate)
		r.rank.SetCandidate(c.Model, c.Candidate)
		r.watch.end(callSetCandidate, t)
	}
	r.out.Reset()
}

func (r *rig) complete(u *run) {
	t := r.watch.begin(callCompleted)
	b, ok := r.shard.Completed(u.batch)
	r.watch.end(callCompleted, t)
	if !ok {
		return
	}
	t = r.watch.begin(callDone)
	r.rank.Done(b.GPU, b.Life, u.batch, u.end)
	r.watch.end(callDone, t)
}

// stopwatch reads the clock around one call in sampleEvery, so that the reading
// itself, which is as dear as the shorter calls, hardly disturbs the others.
type stopwatch struct {
	on   bool
	cost mono.Dur // of two readings back to back
	tick [callCount]uint32
	n    [callCount]uint64 // calls
	took [callCount]mono.Dur
	seen [callCount]uint64 // of them timed
}

const sampleEvery = 13

func (w *stopwatch) begin(c call) mono.Time {
	if !w.on {
		return 0
	}
	w.n[c]++
	if w.tick[c]++; w.tick[c] < sampleEvery {
		return 0
	}
	w.tick[c] = 0
	return mono.Now()
}

// stallMin is what no call takes: the thread was not running meanwhile.
const stallMin = 20 * mono.Microsecond

func (w *stopwatch) end(c call, t mono.Time) {
	if t == 0 {
		return
	}
	if d := mono.Now().Sub(t) - w.cost; d < stallMin {
		w.took[c] += d
		w.seen[c]++
	}
}

// forget begins anew, after the warm-up.
func (w *stopwatch) forget() { *w = stopwatch{on: w.on, cost: w.cost} }

// perCall is the mean of a call in ns.
func (w *stopwatch) perCall(c call) float64 {
	return max(0, float64(w.took[c])/float64(max(1, w.seen[c])))
}

// clockCost is what two readings back to back say.
func clockCost() mono.Dur {
	const n = 20_000
	sum, seen := mono.Dur(0), 0
	for range n {
		a := mono.Now()
		if d := mono.Now().Sub(a); d < mono.Microsecond {
			sum += d
			seen++
		}
	}
	return sum / mono.Dur(max(1, seen))
}

// coresRequests are driven for each number, after a tenth of them to warm up.
const coresRequests = 4 << 20

// Cores measures the bare cores: once without looking, for the total, and once
// stage by stage.
func Cores(ctx context.Context, cfg Config, turn mono.Dur, requests uint64, tell Progress) (*CoreCosts, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := &CoreCosts{GPUs: cfg.GPUs, Models: cfg.Models, Rate: cfg.Rate, Turn: micros(turn), Requests: requests}
	for _, watch := range []bool{false, true} {
		r, err := newRig(&cfg, watch)
		if err != nil {
			return nil, err
		}
		r.turn = turn
		r.run(requests / 10)
		r.watch.forget()
		before := *r
		wall, thread := mono.Now(), cpuOf(ring.Thread())
		for done := uint64(0); done < requests && ctx.Err() == nil; done += requests / 16 {
			if tell != nil {
				tell("bare cores, one thread", float64(done)/float64(requests), "")
			}
			r.run(requests / 16)
		}
		if ctx.Err() != nil {
			return nil, ErrNothing
		}
		spent := cpuOf(ring.Thread()) - thread
		if spent <= 0 { // not known here
			spent = mono.Now().Sub(wall)
		}
		if watch {
			c.stages(r, float64(r.requests-before.requests))
		} else {
			c.totals(r, &before, spent)
		}
	}
	c.Driver = max(0, c.Total-c.Sum())
	return c, nil
}
