package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Jobs says how the jobs of a benchmark are done.
type Jobs struct {
	What     string    // they are, for progress
	Parallel int       // at a time; 0 means 1
	Progress io.Writer // gets a line now and then; nil: none
}

// ErrInterrupted is of a benchmark that writes its report at its end only.
var ErrInterrupted = errors.New("interrupted: nothing is written")

// Each computes one result for each of the jobs, in their order, some at a time. A job is to end soon
// when stop says so: ctx has ended, or another one has failed.
func Each[J, T any](ctx context.Context, how Jobs, jobs []J, run func(job J, stop func() bool) (T, error)) ([]T, error) {
	out, errs := make([]T, len(jobs)), make([]error, len(jobs))
	var next, done atomic.Int64
	var failed atomic.Bool
	stop := func() bool { return ctx.Err() != nil || failed.Load() }
	quiet := how.tell(&done, len(jobs))
	var all sync.WaitGroup
	for range max(1, how.Parallel) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(jobs) && !stop(); i = int(next.Add(1)) - 1 {
				if out[i], errs[i] = run(jobs[i], stop); errs[i] != nil {
					failed.Store(true)
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	quiet()
	if ctx.Err() != nil {
		return nil, ErrInterrupted
	}
	return out, errors.Join(errs...)
}

// tellEvery is between two lines of progress.
const tellEvery = 10 * time.Second

// tell writes lines until the returned func is called.
func (how Jobs) tell(done *atomic.Int64, all int) (quiet func()) {
	if how.Progress == nil {
		return func() {}
	}
	begin, quit, ended := time.Now(), make(chan struct{}), make(chan struct{})
	line := func() {
		fmt.Fprintf(how.Progress, "%s: %d of %d after %v\n", how.What, done.Load(), all, time.Since(begin).Round(time.Second))
	}
	go func() {
		defer close(ended)
		tick := time.NewTicker(tellEvery)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				line()
				return
			case <-tick.C:
				line()
			}
		}
	}()
	return func() { close(quit); <-ended }
}
