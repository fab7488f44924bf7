package cold

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/mono"
)

// System is what is measured: a client of parts in this process that tell the Watcher.
type System struct {
	Client *frontend.Client
	Models []string // their names, the steady one first
}

// Run offers the load to a system, until its end or until ctx ends, and then simulates the same. A run that ctx
// ends has what was counted by then, and no simulation.
func Run(ctx context.Context, cfg Config, s *System, w *Watcher, progress func(*load.Counts)) (*Result, error) {
	source, err := cfg.arrivals()
	if err != nil {
		return nil, err
	}
	target := &load.ClientTarget{Client: s.Client}
	for i, name := range s.Models {
		e, err := s.Client.Model(name, "")
		if err != nil {
			return nil, err
		}
		target.Models = append(target.Models, load.MakeInput(&e.Spec, uint64(i)))
	}
	slos := make([]mono.Dur, cfg.Models)
	for i := range slos {
		slos[i] = cfg.SLO
	}
	n, sent := cfg.counter(cfg.Growth, source.Active), &load.Counts{}
	ended := make(chan struct{})
	defer close(ended)
	if progress != nil {
		go tell(sent, progress, ended)
	}
	start := mono.Now() // of both: else requests near the ends are counted that the simulation leaves out, or not
	counted := start.Add(quiet)
	go watchStalls(n, counted, ended)
	w.begin(n, counted)
	load.Run(ctx, load.Config{SLO: slos, Start: start, Warmup: quiet, Duration: cfg.Growth, OutstandingMax: cfg.Sending.OutstandingMax, Drain: cfg.Sending.Drain},
		target, &gaps{from: source}, &observer{n, counted}, sent)
	interrupted := ctx.Err() != nil
	total := cfg.Growth
	if interrupted {
		total = min(total, mono.Now().Sub(counted))
	}
	if total <= 0 {
		return nil, fmt.Errorf("interrupted in the first %g s, in which nothing is counted", quiet.Seconds())
	}
	r := &Result{Config: cfg, Interrupted: interrupted && total < cfg.Growth, Sent: sent.Sent.Load(), Lost: sent.Lost(), Duplicates: sent.Duplicates.Load(),
		NotSent: sent.NotSent.Load(), LagMean: sent.LagMean().Millis(), LagMax: mono.Dur(sent.LagMax.Load()).Millis()}
	r.Live, r.Spans = n.end(total, cfg.GPUs)
	w.result(r)
	return r, r.beside(ctx, total)
}

// tell calls progress each second.
func tell(sent *load.Counts, progress func(*load.Counts), ended <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			progress(sent)
		}
	}
}

// gaps are a source's arrivals as load.Run takes them.
type gaps struct {
	from workload.Source
	last mono.Time
}

// Next implements load.Arrivals.
func (g *gaps) Next() (mono.Dur, int) {
	at, model, _ := g.from.Next()
	gap := at.Sub(g.last)
	g.last = at
	return gap, model
}

// observer counts answers from an instant on.
type observer struct {
	count *counter
	start mono.Time
}

// Observe implements load.Observer.
func (o *observer) Observe(b load.Observation) {
	at := mono.Time(b.Intended.Sub(o.start))
	o.count.answered(at.Add(b.Latency))
	switch b.Answer.Reason {
	case "", "late":
		o.count.output(at, b.Model, b.Latency, b.Answer.Cold)
	default:
		o.count.refused(at, b.Model, b.Answer.Reason)
	}
}

// result adds what was seen of the scheduler.
func (w *Watcher) result(r *Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Infer, r.InferEnd, r.Load, r.LoadEnd = w.infer.prediction(), w.inferEnd.prediction(), w.load.prediction(), w.loadEnd.prediction()
	r.LoadsFailed, r.BatchesReturned = w.failed, w.refused
	w.count = nil
}
