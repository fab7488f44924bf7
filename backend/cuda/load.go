package cuda

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/mono"
)

// RefusedError: a model that a device does not serve.
type RefusedError struct {
	Index int    // into the models
	Model string // "name/version"
	GPU   string
	// Of a model that does not fit: what it would take, as far as it came, what there was for
	// it, and of which budget. 0: another reason.
	Need, Left, Budget int64
	Err                error
}

// Error says what to do.
func (e *RefusedError) Error() string {
	if e.Need == 0 {
		return fmt.Sprintf("model %s is not served by %s: %v", e.Model, e.GPU, e.Err)
	}
	return fmt.Sprintf("model %s does not fit on %s: it takes at least %s of its memory, with inputs and outputs, and %s are left of %s: "+
		"raise the device's budget, serve fewer models there, or lower max_batch: %v", e.Model, e.GPU, size(e.Need), size(e.Left), size(e.Budget), e.Err)
}

func (e *RefusedError) Unwrap() error { return e.Err }

func size(bytes int64) string {
	if bytes < 10<<20 {
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

// served is a model that is loaded.
type served struct {
	m       *Model
	program Program
	in, out layout
	slots   [Depth]places
	stages  [Depth]stages  // of a model that came later: its own
	marks   slot           // of a model that is loaded later: events that time its first runs
	need    int64          // bytes of the device
	most    int64          // that it may take; 0: what there is
	ran     bool           // once at least. Owned by the run thread
	waited  mono.Dur       // of a model that is loaded later: for gaps
	lengths []atomic.Int64 // ns of an execution, the longest so far, by index of size
}

func newServed(m *Model) *served {
	return &served{m: m, in: layoutOf(m.Spec.Inputs, m.Spec.MaxBatch), out: layoutOf(m.Spec.Outputs, m.Spec.MaxBatch), lengths: make([]atomic.Int64, len(m.Sizes))}
}

// stages are pinned memory of the host, for batches that are rearranged.
type stages struct{ in, out []byte }

// places are a model's memory on the device for one slot.
type places struct{ in, out Ptr }

// warmRuns are timed runs of each size, after the first one.
const warmRuns = 3

// load makes all that batches need. On the run thread.
func (p *pipeline) load(models []*Model) error {
	p.settle()
	if err := p.ctx.Enter(); err != nil {
		return err
	}
	if err := p.makeStreams(); err != nil {
		return err
	}
	count := 0
	for i, m := range models {
		p.models = append(p.models, nil)
		if m == nil {
			continue
		}
		select {
		case <-p.left:
			return errClosed
		default:
		}
		p.step.Store(int64(mono.Now()))
		s, err := p.loadModel(m)
		switch {
		case err == nil:
			p.models[i] = s
			count++
		case errors.Is(err, ErrLost):
			p.unloadModel(s)
			return err
		default:
			p.refuse(i, m, s, err)
		}
	}
	if count == 0 && !p.o.Empty {
		var errs []error
		for _, r := range p.refused {
			errs = append(errs, r)
		}
		return errors.Join(append(errs, errors.New("no model is left to serve"))...)
	}
	return p.makeStages()
}

// refuse gives back what a model had and keeps why.
func (p *pipeline) refuse(i int, m *Model, s *served, err error) {
	r := &RefusedError{Index: i, Model: m.Spec.Key(), GPU: p.name(), Err: err}
	if errors.Is(err, ErrMemory) {
		r.Need = max(s.need, 1)
	}
	p.unloadModel(s)
	if r.Need > 0 {
		r.Left, r.Budget = p.room()
	}
	p.refused = append(p.refused, r)
}

// room is how much of the device's memory models may still take, and of how much.
func (p *pipeline) room() (left, budget int64) {
	free, total, err := p.ctx.Memory()
	if err != nil {
		return 0, p.o.Budget
	}
	if p.o.Budget == 0 {
		return free, total
	}
	return max(0, min(free, p.o.Budget-p.stats.Memory.Load())), p.o.Budget
}

func (p *pipeline) makeStreams() error {
	var errs [3]error
	p.in, errs[0] = p.ctx.NewStream(true)
	p.compute, errs[1] = p.ctx.NewStream(false)
	p.out, errs[2] = p.ctx.NewStream(true)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	for i := range p.slots {
		for _, e := range p.slots[i].events() {
			var err error
			if *e, err = p.ctx.NewEvent(); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadModel loads one; with an error, what it had got so far.
func (p *pipeline) loadModel(m *Model) (*served, error) {
	s, err := p.loadAs(m)
	if plain := p.plain(m, err); plain != nil {
		p.unloadModel(s)
		s, err = p.loadAs(plain)
	}
	return s, err
}

// plain is the model without graphs, where they were an attempt and have failed; else nil.
func (p *pipeline) plain(m *Model, err error) *Model {
	if m.Graphs != GraphsAuto || !errors.Is(err, ErrCapture) {
		return nil
	}
	p.o.Warn(fmt.Errorf("%s: model %s runs without CUDA graphs (cuda_graphs: false leaves out the attempt): %w", p.name(), m.Spec.Key(), err))
	plain := *m
	plain.Graphs = GraphsOff
	return &plain
}

func (p *pipeline) loadAs(m *Model) (*served, error) {
	s := newServed(m)
	before, _, err := p.ctx.Memory()
	if err != nil {
		return s, err
	}
	s.need = Depth * (s.in.bytes + s.out.bytes)
	if err := p.fits(s); err != nil {
		return s, err
	}
	if err := p.makePlaces(s, p.in); err != nil {
		return s, err
	}
	if s.program, err = p.rt.Load(p.ctx, p.compute, m); err != nil {
		s.program = nil
		return s, err
	}
	s.need += s.program.Memory()
	if err := p.fits(s); err != nil {
		return s, err
	}
	if err := p.warm(s); err != nil {
		return s, err
	}
	after, _, err := p.ctx.Memory()
	if err != nil {
		return s, err
	}
	// Kernels' workspace came with the first runs; others on the device may have freed some.
	s.need = max(Depth*(s.in.bytes+s.out.bytes)+s.program.Memory(), before-after)
	if err := p.fits(s); err != nil {
		return s, err
	}
	p.stats.Memory.Add(s.need)
	return s, nil
}

// fits holds a model against the budget.
func (p *pipeline) fits(s *served) error { return p.fitsWith(s, s.need) }

// fitsWith is fits for a model that takes so much.
func (p *pipeline) fitsWith(s *served, need int64) error {
	if p.o.Budget > 0 && p.stats.Memory.Load()+need > p.o.Budget {
		return fmt.Errorf("%w: beyond the budget", ErrMemory)
	}
	if s.most > 0 && need > s.most {
		return fmt.Errorf("%w: beyond what is left beside pages", ErrMemory)
	}
	return nil
}

// makePlaces takes memory for a model's inputs and outputs; the inputs are those of warm-up runs at first.
func (p *pipeline) makePlaces(s *served, zeroing Stream) (err error) {
	for i := range s.slots {
		at := &s.slots[i]
		if at.in, err = p.ctx.Alloc(max(1, s.in.bytes)); err != nil {
			return err
		}
		if at.out, err = p.ctx.Alloc(max(1, s.out.bytes)); err != nil {
			return err
		}
		if err := s.fill(zeroing, at.in, s.m.Warmup); err != nil {
			return err
		}
	}
	return nil
}

// zero fills memory of the device.
func zero(by Stream, at Ptr, n int64) error {
	zeros := make([]byte, min(n, 1<<20))
	for done := int64(0); done < n; done += int64(len(zeros)) {
		if err := by.CopyIn(at+Ptr(done), zeros[:min(int64(len(zeros)), n-done)]); err != nil {
			return err
		}
	}
	return by.Synchronize()
}

// warm binds each size in each slot and runs it: kernels are chosen and memory for them is
// taken at the first run. The times are what the watchdog expects.
func (p *pipeline) warm(s *served) error {
	e := &p.slots[0]
	for i, n := range slices.Backward(s.m.Sizes) { // a runtime's own memory grows once that way
		for slot := range s.slots {
			at := s.slots[slot]
			if err := s.program.Bind(slot, n, s.in.pointers(at.in), s.out.pointers(at.out)); err != nil {
				return fmt.Errorf("batches of %d: %w", n, err)
			}
			for run := range 1 + warmRuns {
				p.step.Store(int64(mono.Now()))
				length, err := p.warmRun(e, s, slot, n)
				if err != nil {
					return fmt.Errorf("first run of a batch of %d: %w", n, err)
				}
				if run > 0 {
					s.lengths[i].Store(max(s.lengths[i].Load(), int64(length)))
				}
			}
		}
	}
	return nil
}

// timed runs a batch of whatever lies there.
func (p *pipeline) timed(e *slot, program Program, slot, n int) (mono.Dur, error) {
	if err := p.compute.Record(e.begin); err != nil {
		return 0, err
	}
	if err := program.Run(slot, n); err != nil {
		return 0, errors.Join(err, p.compute.Synchronize())
	}
	if err := p.compute.Record(e.end); err != nil {
		return 0, err
	}
	if err := p.compute.Synchronize(); err != nil {
		return 0, err
	}
	return e.end.Since(e.begin)
}

// makeStages takes pinned memory for the largest batch that must be rearranged on the host.
func (p *pipeline) makeStages() error {
	in, out := 0, 0
	for _, s := range p.models {
		if s != nil && s.in.staged() {
			in = max(in, s.in.item*s.m.Spec.MaxBatch)
		}
		if s != nil && s.out.staged() {
			out = max(out, s.out.item*s.m.Spec.MaxBatch)
		}
	}
	for i := range p.slots {
		for stage, n := range map[*[]byte]int{&p.slots[i].stageIn: in, &p.slots[i].stageOut: out} {
			if n == 0 {
				continue
			}
			var err error
			if *stage, err = p.ctx.HostAlloc(n); err != nil {
				return fmt.Errorf("%d bytes of pinned memory: %w", n, err)
			}
			p.stats.Staged.Add(int64(n))
		}
	}
	return nil
}

// unloadModel gives back what a model has. On the run thread, with nothing under way.
func (p *pipeline) unloadModel(s *served) {
	if s == nil {
		return
	}
	if s.program != nil {
		p.give(s.program.Close())
	}
	for _, at := range s.slots {
		for _, ptr := range []Ptr{at.in, at.out} {
			if ptr != 0 {
				p.give(p.ctx.Free(ptr))
			}
		}
	}
	for _, e := range s.marks.events() {
		if *e != nil {
			p.give((*e).Close())
			*e = nil
		}
	}
	for _, at := range s.stages {
		for _, stage := range [][]byte{at.in, at.out} {
			if stage != nil {
				p.give(p.ctx.HostFree(stage))
				p.stats.Staged.Add(-int64(len(stage)))
			}
		}
	}
}

// unload gives everything back, and the context, on the run thread, with nothing under way
// but what the streams still have queued.
func (p *pipeline) unload() {
	for _, s := range []Stream{p.in, p.compute, p.out} {
		if s != nil {
			_ = s.Synchronize() // an error is that of a lost device
		}
	}
	for _, s := range slices.Concat(p.models, p.orphans, slices.Collect(maps.Values(p.asides))) {
		p.unloadModel(s)
	}
	for i := range p.slots {
		s := &p.slots[i]
		for _, stage := range [][]byte{s.stageIn, s.stageOut} {
			if stage != nil {
				p.give(p.ctx.HostFree(stage))
			}
		}
		for _, e := range s.events() {
			if *e != nil {
				p.give((*e).Close())
			}
		}
	}
	for _, s := range []Stream{p.in, p.compute, p.out} {
		if s != nil {
			p.give(s.Close())
		}
	}
	if p.o.Pinned != nil {
		p.o.Pinned.Detach(p.ctx)
	}
	p.give(p.ctx.Close())
	p.stats.Memory.Store(0)
	p.stats.Staged.Store(0)
}

// give tells of what cannot be given back; of a lost device nothing else is to be expected.
func (p *pipeline) give(err error) {
	if err != nil && !errors.Is(err, ErrLost) {
		p.o.Warn(fmt.Errorf("%s: %w", p.name(), err))
	}
}
