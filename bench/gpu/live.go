package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Recorder is told of batches by the scheduler: planned, and reported.
type Recorder struct {
	mu   sync.Mutex // Guards what follows.
	on   bool
	open map[wire.BatchID]batchRun
	runs []batchRun
}

// batchRun is a batch on its way.
type batchRun struct {
	model       wire.ModelID
	gpu         wire.GPUID
	size        int
	exec, until mono.Time // planned
	start, end  mono.Time // measured
}

// runsMost bounds what is kept: minutes of small batches.
const runsMost = 1 << 20

// Dispatched: the scheduler sends a batch, which it plans from exec until.
func (r *Recorder) Dispatched(batch wire.BatchID, model wire.ModelID, gpu wire.GPUID, size int, exec, until mono.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.on {
		r.open[batch] = batchRun{model: model, gpu: gpu, size: size, exec: exec, until: until}
	}
}

// Done: it ran so many items, on the clock of this process. None: it did not run.
func (r *Recorder) Done(batch wire.BatchID, start, end mono.Time, ran int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.open[batch]
	if !r.on || !ok {
		return
	}
	delete(r.open, batch)
	if ran > 0 && len(r.runs) < runsMost {
		b.start, b.end = start, end
		r.runs = append(r.runs, b)
	}
}

// begin listens anew.
func (r *Recorder) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on, r.open, r.runs = true, map[wire.BatchID]batchRun{}, nil
}

// take gives what was reported, in order of start, and listens no more.
func (r *Recorder) take() []batchRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	runs := r.runs
	r.on, r.open, r.runs = false, nil, nil
	slices.SortFunc(runs, func(a, b batchRun) int { return cmp.Compare(a.start, b.start) })
	return runs
}

// asked is a model of a workload, as the scheduler knows it.
type asked struct {
	name    string
	id      wire.ModelID
	slo     mono.Dur
	profile *profile.Profile
}

// models finds a workload's, with the profiles that the scheduler plans with.
func (s *System) models(w Workload) ([]asked, error) {
	var out []asked
	for _, name := range w.Models {
		var found *catalog.Entry
		all := s.Client.Models()
		for i := range all.Entries {
			if e := &all.Entries[i]; e.Spec.Name == name && e.Ready {
				found = e
			}
		}
		if found == nil {
			return nil, fmt.Errorf("model %s is not served: see what the backend said of it", name)
		}
		p, err := profile.FromDoc(found.Spec.Profile, found.Spec.MaxBatch)
		if err != nil {
			return nil, err
		}
		out = append(out, asked{name, found.ID, found.Spec.SLO, p})
	}
	return out, nil
}

// outstandingMost is how many requests of a load may be open.
const outstandingMost = 20_000

// offer sends a workload's requests, Poisson arrivals, and tells what became of them.
func (s *System) offer(ctx context.Context, models []asked, rate float64, warmup, span mono.Dur) (*report.Report, error) {
	gen, err := workload.New(workload.Config{Process: workload.Poisson, Rate: rate, Models: len(models), Seed: 1})
	if err != nil {
		return nil, err
	}
	cfg := load.Config{Warmup: warmup, Duration: span, OutstandingMax: outstandingMost, Drain: 3 * mono.Second}
	target := &load.ClientTarget{Client: s.Client}
	var names []string
	for _, m := range models {
		names, cfg.SLO = append(names, m.name), append(cfg.SLO, m.slo)
		target.Models = append(target.Models, s.Input(m.name))
	}
	rec := observer{report.NewRecorder(names)}
	counts := &load.Counts{}
	load.Run(ctx, cfg, target, gen, rec, counts)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rep := &report.Report{Seconds: span.Seconds(), Offered: rate, Sent: counts.Sent.Load(), Lost: counts.Lost(), Duplicates: counts.Duplicates.Load(),
		LagMean: counts.LagMean().Millis(), LagMax: mono.Dur(counts.LagMax.Load()).Millis()}
	rep.All, rep.Models, rep.Batches, rep.BatchMean = rec.Summarise(rep.Seconds)
	rep.Judge()
	return rep, nil
}

// observer drops what belongs to the warm-up.
type observer struct{ *report.Recorder }

// Observe implements load.Observer.
func (o observer) Observe(b load.Observation) {
	if !b.Warmup {
		o.Add(report.Observation{Model: b.Model, Latency: b.Latency, Reason: b.Answer.Reason, BatchSize: b.Answer.BatchSize})
	}
}

// bounds are the theory's for a workload: the staggered bound of a single model, and the
// fluid bound of several.
func bounds(models []asked, gpus int) (rate float64, what string) {
	if len(models) == 1 {
		_, rate = report.Staggered(models[0].profile, models[0].slo, gpus)
		return rate, "staggered"
	}
	var loads []report.Load
	for _, m := range models {
		loads = append(loads, report.Load{Profile: m.profile, SLO: m.slo, Share: 1 / float64(len(models))})
	}
	return report.Fluid(loads, gpus), "fluid"
}

// live is what one load on the last workload showed, batch by batch.
type live struct {
	workload Workload
	models   []asked
	gpus     int
	rate     float64
	how      string // where the rate comes from
	seconds  float64
	report   *report.Report
	runs     []batchRun
	begin    mono.Time
	end      mono.Time
}

// Of the rate that was carried, or of the bound where nobody searched one.
const (
	shareOfBest  = 0.8
	shareOfBound = 0.5
	liveMost     = 20 * mono.Second
	liveWarmup   = mono.Second // or an eighth of the time, if that is less
)

// load runs the last workload once, for all parts that look at batches.
func (b *bench) load(ctx context.Context) (*live, error) {
	if b.live != nil {
		return b.live, nil
	}
	s, err := b.serve(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Use(ctx, s.Policies[0]); err != nil {
		return nil, err
	}
	l := &live{workload: s.Workloads[len(s.Workloads)-1], gpus: s.GPUs}
	if l.models, err = s.models(l.workload); err != nil {
		return nil, err
	}
	bound, what := bounds(l.models, s.GPUs)
	l.rate, l.how = shareOfBest*b.best, fmt.Sprintf("%.0f %% of the rate that it carries", 100*shareOfBest)
	if b.best == 0 {
		l.rate, l.how = shareOfBound*bound, fmt.Sprintf("%.0f %% of the %s bound: nobody searched what it carries", 100*shareOfBound, what)
	}
	if l.rate < 1 {
		return nil, fmt.Errorf("%s: there is no rate that meets its SLOs: l(1) is too long", l.workload.Name)
	}
	left := leftOf(ctx)
	warmup, span := min(liveWarmup, left/8), min(liveMost, left/2)
	b.rec.begin()
	l.begin = mono.Now().Add(warmup)
	l.report, err = s.offer(ctx, l.models, l.rate, warmup, span)
	l.runs, l.end, l.seconds = b.rec.take(), mono.Now(), span.Seconds()
	if err != nil {
		return nil, err
	}
	l.runs = slices.DeleteFunc(l.runs, func(r batchRun) bool { return r.start < l.begin })
	if len(l.runs) == 0 {
		return nil, errNoRuns
	}
	b.live = l
	return l, nil
}

// errNoRuns: a load without batches.
var errNoRuns = errors.New("no batch ran while it was looked at")

// index finds a model's by its id.
func (l *live) index(id wire.ModelID) int {
	return slices.IndexFunc(l.models, func(m asked) bool { return m.id == id })
}
