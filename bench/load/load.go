// Package load drives open-loop load against a running server: requests leave
// when the arrival process says so, whether or not earlier ones were answered.
//
// One goroutine keeps the schedule; answers come back on the target's own.
// Each request's time counts from the instant it was *meant* to leave
// (coordinated omission), and its deadline budget shrinks by as much as it
// left late. The tool counts answers per request: one, none, or two is told
// apart, since "every request is answered exactly once" is a promise.
//
// It refuses to hide its own lag: when it cannot keep the schedule, the
// verdict says so (package report).
package load

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Answer is what became of one request.
type Answer struct {
	Reason    string // "" for an output, else the reason: "shed", "deadline", "full", ...
	BatchSize int
	Cold      bool     // its batch was the first one with its model's weights, and waited for them
	Execute   mono.Dur // its batch ran; 0: not known
}

// Target takes requests. Send must not block for long: it is called from the
// one goroutine that keeps the schedule. done is called exactly once, from
// any goroutine.
type Target interface {
	Send(model int, budget mono.Dur, done func(Answer))
}

// Arrivals is the arrival process: the span to the next request and its model.
type Arrivals interface {
	Next() (gap mono.Dur, model int)
}

// Observer is told of every answer; calls may come from many goroutines.
type Observer interface {
	Observe(o Observation)
}

// Observation is one request's story.
type Observation struct {
	Model    int
	Intended mono.Time
	Latency  mono.Dur // from Intended to the answer
	Answer   Answer
	Warmup   bool
}

// Config of a run.
type Config struct {
	SLO            []mono.Dur // per model
	Start          mono.Time  // the schedule's; 0: when Run is called
	Warmup         mono.Dur   // not counted
	Duration       mono.Dur   // counted
	OutstandingMax int        // open requests beyond which the tool counts "generator_full" and sends nothing
	Margin         mono.Dur   // taken off every budget for the way between client and server
	Drain          mono.Dur   // how long to wait for answers after the last request
}

// Counts are the run's own bookkeeping, safe to read while it runs.
type Counts struct {
	Sent       atomic.Int64
	Answered   atomic.Int64 // requests answered at least once
	Duplicates atomic.Int64 // answers beyond the first
	NotSent    atomic.Int64 // refused by OutstandingMax
	LagMax     atomic.Int64 // ns: the worst lateness of the schedule
	LagSum     atomic.Int64
}

// Lost is the requests that got no answer; final once Run has returned.
func (c *Counts) Lost() int64 { return c.Sent.Load() - c.Answered.Load() }

// LagMean is the mean lateness of the schedule.
func (c *Counts) LagMean() mono.Dur {
	n := c.Sent.Load() + c.NotSent.Load()
	if n == 0 {
		return 0
	}
	return mono.Dur(c.LagSum.Load() / n)
}

// Run sends until Duration is over or ctx ends, then waits for the open
// answers, at most Drain.
func Run(ctx context.Context, cfg Config, target Target, arrivals Arrivals, o Observer, c *Counts) {
	start := cfg.Start
	if start == 0 {
		start = mono.Now()
	}
	counted := start.Add(cfg.Warmup)
	end := counted.Add(cfg.Duration)
	next := start
	budgets, _ := arrivals.(Budgets)
	for {
		gap, model := arrivals.Next()
		next = next.Add(gap)
		if next >= end || !sleepUntil(ctx, next) {
			break
		}
		slo := cfg.SLO[model]
		if budgets != nil && budgets.Budget() > 0 {
			slo = budgets.Budget()
		}
		send(cfg, target, o, c, request{model, slo, next, next < counted})
	}
	for giveUp := mono.Now().Add(cfg.Drain); c.Lost() > 0 && mono.Now() < giveUp; {
		time.Sleep(time.Millisecond)
	}
}

// sleepUntil returns false when ctx has ended. It sleeps only for gaps worth
// it: a Go timer may be a millisecond late, and late requests leave at once.
func sleepUntil(ctx context.Context, t mono.Time) bool {
	for {
		wait := t.Sub(mono.Now())
		if wait <= 0 {
			return ctx.Err() == nil
		}
		time.Sleep(min(wait, 50*mono.Millisecond).Std())
		if ctx.Err() != nil {
			return false
		}
	}
}

// request is one to be sent.
type request struct {
	model    int
	slo      mono.Dur
	intended mono.Time
	warmup   bool
}

func send(cfg Config, target Target, o Observer, c *Counts, r request) {
	lag := mono.Now().Sub(r.intended)
	c.LagSum.Add(int64(lag))
	if int64(lag) > c.LagMax.Load() {
		c.LagMax.Store(int64(lag))
	}
	if c.Lost() >= int64(cfg.OutstandingMax) {
		c.NotSent.Add(1)
		o.Observe(Observation{Model: r.model, Intended: r.intended, Latency: lag, Answer: Answer{Reason: "generator_full"}, Warmup: r.warmup})
		return
	}
	c.Sent.Add(1)
	answered := new(atomic.Bool)
	target.Send(r.model, r.slo-cfg.Margin-lag, func(a Answer) {
		if answered.Swap(true) {
			c.Duplicates.Add(1)
			return
		}
		latency := mono.Now().Sub(r.intended)
		if a.Reason == "" && latency > r.slo {
			a.Reason = "late"
		}
		o.Observe(Observation{Model: r.model, Intended: r.intended, Latency: latency, Answer: a, Warmup: r.warmup})
		c.Answered.Add(1)
	})
}
