package cuda

import (
	"context"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// First runs of a model that is loaded while others serve take the device from these, and nothing
// stops one that has begun. So the device is left alone between them, and a model of long runs has
// fewer. Loads by order of a paged device do not rest: requests wait for them.

const (
	// restFactor is how many times a first run's length the device is left alone after it.
	restFactor = 9
	// restsMost bounds what the first runs of a model rest together.
	restsMost = 30 * mono.Second
	// longRun is a run of which a size has one that is timed, instead of some in each slot.
	longRun = 20 * mono.Millisecond
)

// rests is the state of a model's rests. Owned by the goroutine that loads the model.
type rests struct {
	busy func() bool // Model.Busy
	last mono.Dur    // length of the last run; 0: none was
	left mono.Dur
}

// skips reports whether a run is left out, by how long the one before took.
func (r *rests) skips(slot, run int) bool {
	return r.last > longRun && (run > 1 || run == 1 && slot > 0)
}

// next is how long to rest before the next run.
func (r *rests) next() mono.Dur {
	if r.busy == nil || !r.busy() {
		return 0
	}
	d := min(restFactor*r.last, r.left)
	r.left -= d
	return d
}

// rest leaves the device alone.
func (p *pipeline) rest(ctx context.Context, r *rests) error {
	d := r.next()
	if d == 0 {
		return nil
	}
	end := time.NewTimer(d.Std())
	defer end.Stop()
	select {
	case <-end.C:
		return nil
	case <-p.dropped:
		return nil // the next run says so
	case <-ctx.Done():
		return ctx.Err()
	}
}
