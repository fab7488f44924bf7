package simcmd

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/cmd/symphony/version"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// batch simulates one plan with each of the seeds, some at a time. What is
// done when it is stopped, or when one fails, is kept.
type batch struct {
	cmd      Command
	plan     *scenario.Plan
	timeline *timeline // nil: none
	events   *events   // likewise
	notes    io.Writer
	stop     func() bool

	progress *progress
	resume   *resume

	mu   sync.Mutex // Guards what follows.
	done []*scenario.Outcome
	errs []error
}

// run returns the outcomes in the order of their seeds.
func (b *batch) run(form progressForm) (_ []*scenario.Outcome, err error) {
	n := b.cmd.Seeds
	b.done = make([]*scenario.Outcome, n)
	if b.cmd.Seed > math.MaxUint64-uint64(n-1) {
		return nil, fmt.Errorf("--seed: %d and %d after it are beyond 64 bits", b.cmd.Seed, n-1)
	}
	if b.cmd.Resume != "" {
		if b.resume, err = openResume(b.cmd.Resume, b.notes); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, b.resume.close()) }()
	}
	var waiting []int
	for i := range n {
		if b.done[i] = b.resume.find(b.key(i)); b.done[i] == nil {
			waiting = append(waiting, i)
		}
	}
	if k := n - len(waiting); k > 0 {
		fmt.Fprintf(b.notes, "%d of %d results are in %s\n", k, n, b.cmd.Resume)
	}
	b.progress = newProgress(len(waiting))
	end := b.progress.show(b.notes, form, everyPlain)
	b.simulate(waiting)
	end()
	return b.finished()
}

// simulate runs the waiting seeds, as many at a time as was asked for.
func (b *batch) simulate(waiting []int) {
	next := make(chan int, len(waiting)) // places in waiting
	for place := range waiting {
		next <- place
	}
	close(next)
	var all sync.WaitGroup
	for range min(b.cmd.parallel(), len(waiting)) {
		all.Go(func() {
			for place := range next {
				if b.given() {
					return
				}
				o, err := b.one(waiting[place], place)
				b.keep(waiting[place], o, err)
			}
		})
	}
	all.Wait()
}

// given tells that no further seed should begin.
func (b *batch) given() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stop() || len(b.errs) > 0
}

func (b *batch) keep(i int, o *scenario.Outcome, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		o.Version = version.Number
		b.done[i] = o
		err = b.resume.add(o)
	}
	if err != nil && !errors.Is(err, sim.ErrStopped) {
		b.errs = append(b.errs, err)
	}
}

// one simulates seed i.
func (b *batch) one(i, place int) (*scenario.Outcome, error) {
	plan := *b.plan
	plan.Scenario.Seed = b.seed(i)
	share := 0.0
	stop := func() bool {
		b.progress.set(place, share)
		return b.stop()
	}
	if b.cmd.Goodput {
		tries := 0
		tried := func() {
			share = float64(tries) / float64(scenario.RunsExpected(b.cmd.tolerance()))
			tries++
		}
		return plan.FindGoodput(plan.Scenario.Seed, b.cmd.tolerance(), tried, stop)
	}
	if b.events != nil {
		plan.Events = b.events.take
	}
	length := float64(plan.Scenario.Warmup + plan.Scenario.Duration)
	watch := sim.Observer{}
	if b.timeline != nil {
		watch = b.timeline.observer()
	}
	watch.Arrive = func(now mono.Time, _ wire.ModelID) { share = float64(now) / length }
	return plan.Simulate(watch, stop)
}

func (b *batch) seed(i int) uint64 { return b.cmd.Seed + uint64(i) }

// key is under which seed i's outcome is kept.
func (b *batch) key(i int) string {
	o := scenario.Outcome{Core: sim.CoreVersion, Scenario: b.plan.Scenario}
	o.Scenario.Seed = b.seed(i)
	if b.cmd.Goodput {
		o.Search = &scenario.Search{Tolerance: b.cmd.tolerance()}
	}
	return keyOf(&o)
}

// finished is what is done, and why it is not all.
func (b *batch) finished() ([]*scenario.Outcome, error) {
	var out []*scenario.Outcome
	for _, o := range b.done {
		if o != nil {
			out = append(out, o)
		}
	}
	err := errors.Join(b.errs...)
	if len(out) == len(b.done) {
		return out, err
	}
	part := fmt.Errorf("%d of %d seeds are done", len(out), len(b.done))
	if len(out) > 0 {
		part = fmt.Errorf("%w; what is written holds these only", part)
	}
	switch {
	case err == nil:
		return out, fmt.Errorf("stopped: %w", part)
	case len(b.done) == 1:
		return out, err // nothing to add
	}
	return out, errors.Join(err, part)
}
