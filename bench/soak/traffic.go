package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// source is one stream of requests: a Go client, or HTTP through a frontend.
type source struct {
	name   string
	http   bool
	models []Model
	ledger *ledger
	send   func(m Model, budget mono.Dur, input []byte, done func(reason string, output []byte, batch int))
	counts load.Counts
}

// Send implements load.Target: enters the request into the ledger, stamps its input,
// and strikes it out when the answer is there.
func (s *source) Send(model int, budget mono.Dur, done func(load.Answer)) {
	id := s.ledger.ask(mono.Now(), max(0, budget))
	m := s.models[model]
	answer := func(reason string, output []byte, batch int) {
		if reason != "" {
			output = nil
		} else if output == nil {
			output = []byte{} // served, but with nothing
		}
		if !s.ledger.answer(id, s.name, output, 4*m.Echo) && reason == "" {
			reason = "foreign"
		}
		done(load.Answer{Reason: reason, BatchSize: batch})
	}
	if budget <= mono.Millisecond {
		answer(reasonLate, nil, 0)
		return
	}
	input := make([]byte, 4*m.Floats)
	stamp(input, id)
	s.send(m, budget, input, answer)
}

// reasonLate is that of requests that were not sent: the generator came to them too late.
const reasonLate = "generator_late"

// throughClient sends by the Go client library.
func throughClient(c *frontend.Client) func(Model, mono.Dur, []byte, func(string, []byte, int)) {
	return func(m Model, budget mono.Dur, input []byte, done func(string, []byte, int)) {
		in := []frontend.Tensor{{Name: "input", Type: catalog.FP32, Shape: []int64{int64(m.Floats)}, Data: input}}
		c.InferAsync(context.Background(), frontend.Request{Model: m.Name, Inputs: in, Timeout: budget.Std()}, func(r *frontend.Response, err error) {
			var e *frontend.Error
			switch {
			case err == nil && len(r.Outputs) == 1:
				done("", r.Outputs[0].Data, r.BatchSize)
			case err == nil:
				done("", nil, 0)
			case errors.As(err, &e) && e.Reason != wire.ReasonNone:
				done(e.Reason.String(), nil, 0)
			default:
				done(err.Error(), nil, 0)
			}
		})
	}
}

// throughHTTP sends through a link; its goroutines are bounded by the source's open requests.
func throughHTTP(w *web, l *link) func(Model, mono.Dur, []byte, func(string, []byte, int)) {
	return func(m Model, budget mono.Dur, input []byte, done func(string, []byte, int)) {
		sent := mono.Now()
		go func() {
			left := budget - mono.Now().Sub(sent)
			if left <= mono.Millisecond { // this process was not run: nobody may ask for a timeout of nothing
				done(reasonLate, nil, 0)
				return
			}
			done(w.post(l.address(), m.Name, input, left))
		}()
	}
}

// account sorts answers: those outside of all windows, and those inside by kind. It
// implements load.Observer.
type account struct {
	windows *windows
	ledger  *ledger
	calm    *report.Recorder
	faulty  map[Kind]*report.Recorder

	mu      sync.Mutex // Guards what follows.
	strange map[string]int
}

func newAccount(w *windows, l *ledger, names []string) *account {
	a := &account{windows: w, ledger: l, calm: report.NewRecorder(names), faulty: map[Kind]*report.Recorder{}, strange: map[string]int{}}
	for _, k := range Kinds() {
		a.faulty[k] = report.NewRecorder(names)
	}
	return a
}

// Observe implements load.Observer.
func (a *account) Observe(o load.Observation) {
	from, to := o.Intended, o.Intended.Add(o.Latency)
	broken := o.Answer.Reason == reasonConnection || o.Answer.Reason == reasonSilence
	switch excused := broken && a.windows.breaksHTTP(from, to); {
	case excused:
		a.ledger.brokenConnection()
	case broken || !known(o.Answer.Reason):
		a.mu.Lock()
		a.strange[o.Answer.Reason]++
		a.mu.Unlock()
	}
	seen := report.Observation{Model: o.Model, Latency: o.Latency, Reason: o.Answer.Reason, BatchSize: o.Answer.BatchSize}
	if win, ok := a.windows.during(from, to); ok {
		a.faulty[win.Kind].Add(seen)
	} else if !o.Warmup {
		a.calm.Add(seen)
	}
}

var never = []wire.Reason{wire.ReasonCancelled, wire.ReasonDraining, wire.ReasonExecution, wire.ReasonUnknownModel}

// known is whether an answer has a reason that it may have: no fault makes an execution
// fail, a model unknown, or who asks give up.
func known(reason string) bool {
	switch reason {
	case "", "late", reasonLate, "generator_full", "foreign":
		return true
	}
	for r := range wire.Reason(wire.ReasonCount) {
		if reason == r.String() {
			return !slices.Contains(never, r)
		}
	}
	return false
}

// strangers are answers that no request should get.
func (a *account) strangers() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for reason, n := range a.strange {
		switch reason {
		case reasonConnection, reasonSilence:
			out = append(out, fmt.Sprintf("%d HTTP requests got no answer (%s) though no fault was under way that breaks connections", n, reason))
		default:
			out = append(out, fmt.Sprintf("%d answers have an unexpected reason: %s", n, reason))
		}
	}
	return out
}

// traffic runs all sources until the end or ctx's.
func traffic(ctx context.Context, cfg Config, sources []*source, a *account) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	lc := load.Config{Warmup: cfg.Warmup, Duration: cfg.Duration, OutstandingMax: 5000, Drain: overdue}
	for _, m := range cfg.Models {
		lc.SLO = append(lc.SLO, m.SLO)
	}
	for i, s := range sources {
		gen, err := workload.New(workload.Config{Process: workload.Poisson, Rate: cfg.Rate() / float64(len(sources)), Models: len(cfg.Models), Popularity: "equal", Seed: cfg.Seed + uint64(i)})
		if err != nil {
			return err
		}
		lc := lc
		if s.http {
			lc.Margin = httpMargin
		}
		wait.Add(1)
		go func() {
			defer wait.Done()
			load.Run(ctx, lc, s, gen, a, &s.counts)
		}()
	}
	return nil
}

// httpMargin is taken off the budget of HTTP requests, for the way to the frontend and back.
const httpMargin = 10 * mono.Millisecond

// pauses notices when this process is not run: the machine's doing, and worth knowing
// for who reads the latencies.
type pauses struct {
	Count   int     `json:"over_50ms"`
	Longest float64 `json:"longest_ms"`
}

func (p *pauses) watch(ctx context.Context) {
	const nap = 10 * time.Millisecond
	for last := mono.Now(); ctx.Err() == nil; {
		time.Sleep(nap)
		now := mono.Now()
		over := now.Sub(last).Millis() - float64(nap.Milliseconds())
		p.Longest = max(p.Longest, over)
		if over > 50 {
			p.Count++
		}
		last = now
	}
}
