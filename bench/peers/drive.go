package peers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Arrivals are an arrival process by name: poisson, or gamma with its shape.
type Arrivals struct {
	Process workload.Process
	Shape   float64
}

// ParseArrivals reads "poisson" or "gamma:0.2".
func ParseArrivals(text string) (Arrivals, error) {
	name, shape, given := strings.Cut(text, ":")
	a := Arrivals{Process: workload.Process(name)}
	var err error
	if given {
		a.Shape, err = strconv.ParseFloat(shape, 64)
	}
	if err == nil {
		_, err = workload.New(workload.Config{Process: a.Process, Shape: a.Shape, Rate: 1, Models: 1, Popularity: "equal"})
	}
	if err != nil {
		return a, fmt.Errorf("arrivals %q: %w", text, err)
	}
	return a, nil
}

// String is the text that ParseArrivals reads.
func (a Arrivals) String() string {
	if a.Shape == 0 {
		return string(a.Process)
	}
	return fmt.Sprintf("%s:%g", a.Process, a.Shape)
}

// offer is one load on one server.
type offer struct {
	arrivals Arrivals
	rate     float64
	warmup   time.Duration
	span     time.Duration
	seed     uint64
}

// The generator is that of `symphony bench load --url`, with its defaults.
const (
	senders        = 512
	outstandingMax = 20_000
	margin         = 500 * mono.Microsecond
	drain          = 3 * mono.Second
)

// targetOf connects to a server; its models are known, so nothing is asked of it.
func targetOf(url string, c Case, senders int) (*load.HTTPTarget, error) {
	var inputs []load.ModelInput
	for i, m := range c.Models {
		spec := catalog.ModelSpec{Name: m.Name, Inputs: []catalog.TensorSpec{{Name: "input", Type: catalog.FP32, Shape: []int64{8}}}}
		inputs = append(inputs, load.MakeInput(&spec, uint64(i)))
	}
	return load.NewHTTPTarget(load.HTTPOptions{URL: url, Senders: senders, Binary: true}, inputs)
}

// recorder drops what belongs to the warm-up.
type recorder struct{ *report.Recorder }

// Observe implements load.Observer.
func (r recorder) Observe(o load.Observation) {
	if !o.Warmup {
		r.Add(report.Observation{Model: o.Model, Latency: o.Latency, Reason: o.Answer.Reason, BatchSize: o.Answer.BatchSize})
	}
}

// drive offers a load and counts what comes back.
func drive(ctx context.Context, url string, c Case, o offer) (*report.Report, error) {
	gen, err := workload.New(workload.Config{Process: o.arrivals.Process, Shape: o.arrivals.Shape, Rate: o.rate, Models: len(c.Models), Popularity: "equal", Seed: o.seed})
	if err != nil {
		return nil, err
	}
	target, err := targetOf(url, c, senders)
	if err != nil {
		return nil, err
	}
	cfg := load.Config{Warmup: mono.Dur(o.warmup), Duration: mono.Dur(o.span), OutstandingMax: outstandingMax, Margin: margin, Drain: drain}
	var names []string
	for _, m := range c.Models {
		names = append(names, m.Name)
		cfg.SLO = append(cfg.SLO, mono.FromMillis(m.SLO))
	}
	rec, counts := recorder{report.NewRecorder(names)}, &load.Counts{}
	ended := make(chan struct{})
	go func() { // not on the caller's thread, which others depend on
		defer close(ended)
		load.Run(ctx, cfg, target, gen, rec, counts)
		target.Close()
	}()
	<-ended
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rep := &report.Report{Seconds: o.span.Seconds(), Offered: o.rate, Sent: counts.Sent.Load(), Lost: counts.Lost(), Duplicates: counts.Duplicates.Load(),
		LagMean: counts.LagMean().Millis(), LagMax: mono.Dur(counts.LagMax.Load()).Millis()}
	rep.All, rep.Models, rep.Batches, rep.BatchMean = rec.Summarise(rep.Seconds)
	rep.Judge()
	return rep, nil
}

// awake waits until each model answers a request of its own: servers start slowly,
// and work on what an overload has left behind.
func awake(ctx context.Context, s *server, c Case, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	target, err := targetOf(s.url, c, 1)
	if err != nil {
		return err
	}
	defer target.Close()
	for i := 0; i < len(c.Models); {
		answer := make(chan load.Answer, 1)
		target.Send(i, mono.Second, func(a load.Answer) { answer <- a })
		a := <-answer // at the latest after the budget and two seconds
		if a.Reason == "" {
			i++
			continue
		}
		if why, ended := s.proc.ended(); ended {
			return errors.New(why)
		}
		select {
		case <-ctx.Done():
			if why := context.Cause(ctx); !errors.Is(why, context.DeadlineExceeded) {
				return why
			}
			return fmt.Errorf("model %s does not answer within %v (%s)", c.Models[i].Name, limit, a.Reason)
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}
