// Package profiler measures l(b): how long a device takes for batches of each
// size. The scheduler plans with a high percentile, not with the mean: a plan
// that holds half the time misses half the deadlines.
package profiler

import (
	"context"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Options of a measurement. Zero values mean the defaults in brackets.
type Options struct {
	Warmup   int                          // runs per batch size that are not counted [3]
	Rounds   int                          // counted runs per batch size [30]
	Budget   mono.Dur                     // for the whole model; rounds are cut to keep it [10 s]
	Ladder   []int                        // the sizes that the device runs, others it rounds up; nil: each size is another
	Progress func(batch, of int, p Point) `json:"-"` // after each batch size
}

// Point is what was measured at one batch size.
type Point struct {
	Batch  int
	Median mono.Dur
	High   mono.Dur // 95th percentile: what the profile has
	Runs   int
}

// Result is a measured model.
type Result struct {
	Points  []Point
	Profile *profile.Profile // through the Highs: interpolated, or on a ladder in steps
	Line    profile.Line     // fit of the medians, for people
	Ladder  bool             // in steps
}

// What a fit must hold for l(b) to be called a line.
const (
	LineR2       = 0.99
	LineRelError = 0.05
)

// IsLine reports whether the fit describes what was measured. The plan has the table of
// what was measured either way.
func (r *Result) IsLine() bool { return r.Line.R2 >= LineR2 && r.Line.RelError <= LineRelError }

// Measure runs the model on the device over batch sizes up to MaxBatch. The
// device must be idle.
func Measure(ctx context.Context, d executor.Device, index int, spec *catalog.ModelSpec, o Options) (*Result, error) {
	if o.Warmup == 0 {
		o.Warmup = 3
	}
	if o.Rounds == 0 {
		o.Rounds = 30
	}
	if o.Budget == 0 {
		o.Budget = 10 * mono.Second
	}
	sizes := Sizes(spec.MaxBatch)
	if len(o.Ladder) > 0 {
		sizes = o.Ladder
	}
	r := &Result{Ladder: len(o.Ladder) > 0}
	each := o.Budget / mono.Dur(len(sizes))
	for i, b := range sizes {
		p, err := measureSize(ctx, d, newBatch(index, spec, b), o, each)
		if err != nil {
			return nil, fmt.Errorf("model %s, batch of %d: %w", spec.Key(), b, err)
		}
		r.Points = append(r.Points, p)
		if o.Progress != nil {
			o.Progress(i+1, len(sizes), p)
		}
	}
	return r, r.finish()
}

// Sizes are the batch sizes that are measured: each up to 4, then steps of
// about a third, and the largest.
func Sizes(maxBatch int) []int {
	var out []int
	for b := 1; b < maxBatch; b += max(1, b/3) {
		out = append(out, b)
	}
	return append(out, maxBatch)
}

func (r *Result) finish() error {
	var high, median []profile.Sample
	for _, p := range r.Points {
		high = append(high, profile.Sample{Batch: p.Batch, Latency: p.High})
		median = append(median, profile.Sample{Batch: p.Batch, Latency: p.Median})
	}
	between := profile.Interpolate
	if r.Ladder {
		between = profile.Steps
	}
	var err error
	if r.Profile, err = between(high); err != nil {
		return err
	}
	if len(median) < 2 {
		r.Line = profile.Line{Beta: median[0].Latency, R2: 1}
		return nil
	}
	r.Line, err = profile.Fit(median)
	return err
}

// newBatch makes a batch of b items with inputs that are neither all equal nor
// random: small ramps, as pixels would be.
func newBatch(index int, spec *catalog.ModelSpec, b int) *executor.Batch {
	in, out := itemSize(spec.Inputs), itemSize(spec.Outputs)
	batch := &executor.Batch{Model: index, Size: b, Input: make([]byte, b*in), Output: make([]byte, b*out)}
	for i := range b {
		batch.Inputs = append(batch.Inputs, batch.Input[i*in:(i+1)*in])
		batch.Outputs = append(batch.Outputs, batch.Output[i*out:(i+1)*out])
	}
	return batch
}

func itemSize(specs []catalog.TensorSpec) int {
	n := int64(0)
	for _, s := range specs {
		n += s.ByteSize()
	}
	return int(n)
}

func measureSize(ctx context.Context, d executor.Device, batch *executor.Batch, o Options, budget mono.Dur) (Point, error) {
	type run struct {
		length mono.Dur
		err    error
	}
	finished := make(chan run, 1)
	batch.Finish = func(start, end mono.Time, err error) { finished <- run{end.Sub(start), err} }
	var lengths []mono.Dur
	for i, begin := 0, mono.Now(); i < o.Warmup+o.Rounds; i++ {
		if err := ctx.Err(); err != nil {
			return Point{}, err
		}
		if i > o.Warmup && mono.Now().Sub(begin) > budget {
			break
		}
		d.Launch(batch)
		r := <-finished
		if r.err != nil {
			return Point{}, r.err
		}
		if i >= o.Warmup {
			lengths = append(lengths, max(1, r.length))
		}
	}
	slices.Sort(lengths)
	n := len(lengths)
	return Point{Batch: batch.Size, Median: lengths[n/2], High: lengths[min(n-1, n*95/100)], Runs: n}, nil
}
