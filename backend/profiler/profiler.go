// Package profiler measures l(b): how long a device takes for batches of each
// size. The scheduler plans with a high percentile, not with the mean: a plan
// that holds half the time misses half the deadlines.
//
// A measurement keeps to its budget, whatever a run takes. It begins with a batch of 1 and goes
// up; sizes for which there is no time left are estimated from those that were measured
// (estimate.go), and the result says which.
package profiler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/warmup"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Options of a measurement. Zero values mean the defaults in brackets.
type Options struct {
	Warmup int      // runs per batch size that are not counted [3]
	Rounds int      // counted runs per batch size [30]
	Budget mono.Dur // of device time for the whole model; rounds and sizes are left out to keep it [10 s]
	Hang   mono.Dur // the longest that a run may take: then the measurement fails [60 s and the SLO]
	Ladder []int    // the sizes that the device runs, others it rounds up; nil: each size is another

	Inputs   *warmup.Inputs               `json:"-"` // of the runs [zeros; where these fail, others]
	Longest  func() mono.Dur              `json:"-"` // no batch is run that would take longer; nil: each may be run
	Progress func(batch, of int, p Point) `json:"-"` // after each batch size
}

func (o Options) complete(spec *catalog.ModelSpec) Options {
	if o.Warmup == 0 {
		o.Warmup = 3
	}
	if o.Rounds == 0 {
		o.Rounds = 30
	}
	if o.Budget == 0 {
		o.Budget = 10 * mono.Second
	}
	if o.Hang == 0 {
		o.Hang = 60*mono.Second + spec.SLO
	}
	return o
}

// Point is what was measured at one batch size.
type Point struct {
	Batch  int
	Median mono.Dur
	High   mono.Dur // 95th percentile: what the profile has
	Runs   int      // 0: it was not measured, but estimated from other sizes
}

// Result is a measured model.
type Result struct {
	Points    []Point
	Profile   *profile.Profile // through the Highs: interpolated, or on a ladder in steps
	Line      profile.Line     // fit of the medians that were measured, for people
	Ladder    bool             // in steps
	Inputs    *warmup.Inputs   // that it was measured on
	Estimated []int            // sizes that were not measured
}

// What a fit must hold for l(b) to be called a line.
const (
	LineR2       = 0.99
	LineRelError = 0.05
)

// IsLine reports whether the fit describes what was measured. The plan has the table of
// what was measured either way.
func (r *Result) IsLine() bool { return r.Line.R2 >= LineR2 && r.Line.RelError <= LineRelError }

// ErrHang is a run that has not ended in Options.Hang. The device may still be busy with it.
var ErrHang = errors.New("a run does not end")

// Measure runs the model on the device over batch sizes up to MaxBatch. The
// device must be idle. With ErrHang, or the context's error, a run may be under way yet.
func Measure(ctx context.Context, d executor.Device, index int, spec *catalog.ModelSpec, o Options) (*Result, error) {
	o = o.complete(spec)
	sizes := Sizes(spec.MaxBatch)
	if len(o.Ladder) > 0 {
		sizes = o.Ladder
	}
	m := &measurement{ctx: ctx, device: d, index: index, spec: spec, o: o, begin: mono.Now(), points: make([]Point, len(sizes))}
	for i, b := range sizes {
		m.points[i].Batch = b
	}
	if err := m.findInputs(); err != nil {
		return nil, fmt.Errorf("model %s, batch of %d: %w", spec.Key(), sizes[0], err)
	}
	for done, i := range visits(sizes) {
		b := sizes[i]
		if done > 0 && !m.affords(i) {
			continue // a smaller one may fit yet
		}
		p, err := m.measureSize(b, len(sizes)-done)
		if err != nil {
			return nil, fmt.Errorf("model %s, batch of %d: %w", spec.Key(), b, err)
		}
		m.points[i] = p
		if o.Progress != nil {
			o.Progress(done+1, len(sizes), p)
		}
	}
	r := &Result{Ladder: len(o.Ladder) > 0, Points: m.points, Inputs: m.inputs}
	r.estimate()
	return r, r.finish()
}

// Warm runs a batch of a size once, on inputs that the model takes, and says how long it took: the
// measurement of a model that is loaded is spared the first run's costs.
func Warm(ctx context.Context, d executor.Device, index int, spec *catalog.ModelSpec, o Options, size int) (mono.Dur, error) {
	m := &measurement{ctx: ctx, device: d, index: index, spec: spec, o: o.complete(spec), begin: mono.Now(), points: []Point{{Batch: size}}}
	err := m.findInputs()
	return m.first, err
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
		if p.Runs > 0 {
			median = append(median, profile.Sample{Batch: p.Batch, Latency: p.Median})
		}
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

// measurement is one under way.
type measurement struct {
	ctx    context.Context
	device executor.Device
	index  int
	spec   *catalog.ModelSpec
	o      Options
	begin  mono.Time
	spent  mono.Dur // of the budget: the runs' lengths
	points []Point
	inputs *warmup.Inputs
	first  mono.Dur // length of the first run that did not fail
}

// wallFactor is how many times its budget a measurement lasts at most, the waits for a
// device included.
const wallFactor = 20

// left is the device time that there is yet.
func (m *measurement) left() mono.Dur {
	if mono.Now().Sub(m.begin) > wallFactor*m.o.Budget {
		return 0
	}
	return m.o.Budget - m.spent
}

// affords reports whether there is time for two runs of a size, as long as they may be by what
// is known.
func (m *measurement) affords(i int) bool {
	length := m.expected(i)
	return 2*length <= m.left() && (m.o.Longest == nil || length <= m.o.Longest())
}

// findInputs runs a first batch of 1, or of the smallest size, on inputs that the model takes.
func (m *measurement) findInputs() (err error) {
	m.inputs, err = warmup.Try(m.o.Inputs, m.final, func(in *warmup.Inputs) error {
		length, err := m.run(newBatch(m.index, m.spec, m.points[0].Batch, in))
		m.first = length
		return err
	})
	return err
}

// final reports whether an error has nothing to do with a run's inputs.
func (m *measurement) final(err error) bool {
	return m.ctx.Err() != nil || errors.Is(err, ErrHang) || errors.Is(err, executor.ErrLost) || errors.Is(err, executor.ErrMemory)
}

// newBatch makes a batch of b items with warm-up inputs.
func newBatch(index int, spec *catalog.ModelSpec, b int, inputs *warmup.Inputs) *executor.Batch {
	in, out := itemSize(spec.Inputs), itemSize(spec.Outputs)
	batch := &executor.Batch{Model: index, Size: b, Input: make([]byte, b*in), Output: make([]byte, b*out)}
	for i := range b {
		batch.Inputs = append(batch.Inputs, batch.Input[i*in:(i+1)*in])
		batch.Outputs = append(batch.Outputs, batch.Output[i*out:(i+1)*out])
		inputs.Fill(spec.Inputs, i, batch.Inputs[i])
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

// run runs a batch once, and counts its length as spent.
func (m *measurement) run(batch *executor.Batch) (mono.Dur, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	type end struct {
		length mono.Dur
		err    error
	}
	ended := make(chan end, 1)
	batch.Finish = func(start, stop mono.Time, err error) { ended <- end{max(1, stop.Sub(start)), err} }
	m.device.Launch(batch)
	hang := time.NewTimer(m.o.Hang.Std())
	defer hang.Stop()
	select {
	case e := <-ended:
		m.spent += e.length
		return e.length, e.err
	case <-m.ctx.Done():
		return 0, m.ctx.Err()
	case <-hang.C:
		return 0, fmt.Errorf("%w: %v have passed", ErrHang, m.o.Hang)
	}
}

// measureSize runs batches of a size: some that are not counted, then those that count, as many as
// a fair share of what is left allows, and one at least. sizes are those yet to be measured, this
// one included. Of the first size, where there is no time for another run, the first one counts.
func (m *measurement) measureSize(b, sizes int) (Point, error) {
	batch, share, used := newBatch(m.index, m.spec, b, m.inputs), m.left()/mono.Dur(sizes), mono.Dur(0)
	run := func() (mono.Dur, error) {
		length, err := m.run(batch)
		used += length
		return length, err
	}
	warm := m.o.Warmup
	if b == m.points[0].Batch {
		if 2*m.first > m.left() || m.o.Longest != nil && m.first > m.o.Longest() {
			return Point{Batch: b, Median: m.first, High: m.first, Runs: 1}, nil
		}
		warm-- // one has found the inputs
	}
	for i := 0; i < warm && 3*used <= share; i++ {
		if _, err := run(); err != nil {
			return Point{}, err
		}
	}
	var lengths []mono.Dur
	for len(lengths) < m.o.Rounds {
		length, err := run()
		if err != nil {
			return Point{}, err
		}
		if lengths = append(lengths, length); used+length > share {
			break
		}
	}
	return pointOf(b, lengths), nil
}

func pointOf(b int, lengths []mono.Dur) Point {
	slices.Sort(lengths)
	n := len(lengths)
	return Point{Batch: b, Median: lengths[n/2], High: lengths[min(n-1, n*95/100)], Runs: n}
}
