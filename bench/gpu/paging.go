package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/mono"
)

// paging is what loads and unloads by order, as those of paged pools, leave behind, while others run.
type paging struct {
	Model  string `json:"model"` // that comes and goes, and is resident beside that, and runs
	Sizes  []int  `json:"sizes"` // that it is loaded with: as in a pool
	Runs   []int  `json:"runs"`  // those of them whose outputs are compared
	Bytes  int64  `json:"load_bytes"`
	Before int64  `json:"free_before"` // bytes of the device, after a first load and unload, which do not count

	Rounds []round `json:"rounds"`

	Compared  int     `json:"compared"` // outputs of what was loaded, with those of what is resident
	Relative  float64 `json:"relative"` // the largest difference
	Tolerance float64 `json:"tolerance"`
	Beside    int     `json:"runs_beside"`       // of the resident one, meanwhile
	Wrong     int     `json:"wrong_runs_beside"` // whose outputs were not those of before
}

// round is a load and the unload after it.
type round struct {
	LoadMS   float64 `json:"load_ms"`
	UnloadMS float64 `json:"unload_ms"`
	Free     int64   `json:"free"` // bytes of the device, then
}

const (
	pagingLeast = 3
	pagingMost  = 20
	// pagingSlack is what may be less free at the end: the driver and ONNX Runtime have memory of their own.
	pagingSlack = 16 << 20
)

// measurePaging loads and unloads the first model over and over, from memory, while the same one, which is resident, runs
// with as long pauses as runs.
func measurePaging(ctx context.Context, b *bench) (section, error) {
	d, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	device, ok := d.GPU.(*cuda.Device)
	if !ok || d.Driver == nil {
		return nil, errors.New("the device takes no models by order")
	}
	m := &d.Models[0]
	own, last := m.Model, m.Sizes[len(m.Sizes)-1]
	if own.Path != "" {
		if own.File, err = cuda.ReadFile(own.Path); err != nil {
			return nil, err
		}
		defer own.File.Close()
	}
	l := &paging{Model: m.Spec.Key(), Sizes: own.Sizes, Runs: slices.Compact([]int{own.Sizes[0], last}), Tolerance: m.Tolerance}
	p := &pager{d: d, device: device, paged: cuda.NewPaged(device, 1), slot: len(d.Models)} // not to be closed: the device is the bench's
	defer p.paged.Stop()
	p.paged.Put(p.slot, own)
	if p.context, err = d.Driver.Open(d.Index); err != nil {
		return nil, err
	}
	err = errors.Join(p.rounds(ctx, l, during(leftOf(ctx)*3/4)), p.context.Close())
	if err == nil {
		err = l.judge()
	}
	return l, err
}

// pager loads and unloads one model.
type pager struct {
	d       *Direct
	device  *cuda.Device
	paged   *cuda.Paged
	slot    int
	context cuda.Context // to look at the device's memory
}

// rounds loads and unloads as long as more says.
func (p *pager) rounds(ctx context.Context, l *paging, more func() bool) (err error) {
	resident := map[int]*shot{} // by size, with outputs that are right
	for _, size := range l.Runs {
		s, free, err := p.d.shot(&p.d.Models[0], 0, size, 0)
		if err != nil {
			return err
		}
		defer free()
		if _, err := s.run(ctx, p.device); err != nil {
			return err
		}
		resident[size] = s
	}
	end, err := p.beside(ctx, l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	for i := 0; i <= pagingLeast || more() && i <= pagingMost; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := p.round(ctx, l, resident)
		if err != nil {
			return err
		}
		if i == 0 { // what a first load leaves, such as kernels of the libraries, stays
			l.Before = r.Free
			continue
		}
		l.Rounds = append(l.Rounds, r)
	}
	return nil
}

// beside runs the resident model until end is called.
func (p *pager) beside(ctx context.Context, l *paging) (end func() error, err error) {
	m := &p.d.Models[0]
	s, free, err := p.d.shot(m, 0, m.Sizes[len(m.Sizes)/2], 0)
	if err != nil {
		return nil, err
	}
	if _, err := s.run(ctx, p.device); err != nil {
		free()
		return nil, err
	}
	want := slices.Clone(s.batch.Outputs[0])
	var stop atomic.Bool
	done := make(chan error, 1)
	go func() {
		var err error
		for err == nil && !stop.Load() {
			var r ran
			if r, err = s.run(ctx, p.device); err != nil {
				break
			}
			l.Beside++
			if diff, bad := m.Compare(s.batch.Outputs[0], want); bad != nil || !(diff.Relative <= m.Tolerance) {
				l.Wrong++
			}
			time.Sleep(r.span().Std())
		}
		done <- err
	}()
	return func() error {
		stop.Store(true)
		defer free()
		return <-done
	}, nil
}

// round loads the model, compares what it computes with what the resident one has computed, and unloads it.
func (p *pager) round(ctx context.Context, l *paging, resident map[int]*shot) (r round, err error) {
	loaded, unloaded := make(chan executor.Copied, 1), make(chan struct{}, 1)
	p.paged.Load(p.slot, func(c executor.Copied) { loaded <- c })
	c, err := await(ctx, loaded)
	if err == nil {
		err = c.Err
	}
	if err != nil {
		return r, fmt.Errorf("loading %s: %w", l.Model, err)
	}
	l.Bytes, r.LoadMS = c.Bytes, c.End.Sub(c.Start).Millis()
	for _, size := range l.Runs {
		if err = p.compare(ctx, l, resident[size]); err != nil {
			break
		}
	}
	begin := mono.Now()
	p.paged.Unload(p.slot, func() { unloaded <- struct{}{} })
	if _, late := await(ctx, unloaded); late != nil {
		return r, errors.Join(err, fmt.Errorf("unloading %s: %w", l.Model, late))
	}
	r.UnloadMS = mono.Now().Sub(begin).Millis()
	return r, errors.Join(err, cuda.On(p.context, func() (err error) {
		r.Free, _, err = p.context.Memory()
		return err
	}))
}

// compare runs what was loaded with the inputs of a batch of the resident model.
func (p *pager) compare(ctx context.Context, l *paging, of *shot) error {
	m := &p.d.Models[0]
	s, free, err := p.d.shot(m, p.slot, of.batch.Size, 0)
	if err != nil {
		return err
	}
	defer free()
	if _, err := s.run(ctx, p.device); err != nil {
		return err
	}
	for i, got := range s.batch.Outputs {
		diff, err := m.Compare(got, of.batch.Outputs[i])
		if err != nil {
			return err
		}
		l.Compared++
		if !(diff.Relative <= l.Relative) {
			l.Relative = diff.Relative
		}
	}
	return nil
}

// await waits for what comes once, and some time beyond the end of ctx.
func await[T any](ctx context.Context, from <-chan T) (v T, err error) {
	select {
	case v = <-from:
		return v, nil
	case <-ctx.Done():
	}
	late := time.NewTimer(hangMax)
	defer late.Stop()
	select {
	case v = <-from:
		return v, nil
	case <-late.C:
		return v, errHang
	}
}

// judge says what is not as it is meant to be.
func (l *paging) judge() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !(l.Relative <= l.Tolerance) {
		fail("outputs of what was loaded differ from those of the resident one by %.2g of the largest, tolerated are %g", l.Relative, l.Tolerance)
	}
	if l.Wrong > 0 {
		fail("%d of %d runs beside loads had other outputs than before", l.Wrong, l.Beside)
	}
	if kept := l.kept(); kept > pagingSlack {
		fail("after %d loads and unloads %s less of the device's memory is free, tolerated are %s", len(l.Rounds), mebibytes(kept), mebibytes(pagingSlack))
	}
	return errors.Join(errs...)
}

// kept is how much less is free at the end than at the beginning.
func (l *paging) kept() int64 {
	if len(l.Rounds) == 0 {
		return 0
	}
	return l.Before - l.Rounds[len(l.Rounds)-1].Free
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// medians are those of loads and unloads, ms.
func (l *paging) medians() (load, unload float64) {
	var loads, unloads []mono.Dur
	for _, r := range l.Rounds {
		loads = append(loads, mono.Dur(r.LoadMS*float64(mono.Millisecond)))
		unloads = append(unloads, mono.Dur(r.UnloadMS*float64(mono.Millisecond)))
	}
	if len(loads) == 0 {
		return 0, 0
	}
	return median(loads).Millis(), median(unloads).Millis()
}

func (l *paging) summary() string {
	load, unload := l.medians()
	return fmt.Sprintf("%s loaded and unloaded %d times beside %d runs: %.0f and %.1f ms, %s each; %s less is free then", l.Model, len(l.Rounds), l.Beside, load, unload, mebibytes(l.Bytes), mebibytes(l.kept()))
}

func (l *paging) table() [][]string {
	t := [][]string{{"round", "load_ms", "unload_ms", "free_bytes"}}
	for i, r := range l.Rounds {
		t = append(t, []string{fmt.Sprint(i + 1), precise(r.LoadMS), precise(r.UnloadMS), fmt.Sprint(r.Free)})
	}
	return t
}

func (l *paging) pictures() []named { return nil }

func (l *paging) text() string {
	load, unload := l.medians()
	var times []string
	for _, r := range l.Rounds {
		times = append(times, fmt.Sprintf("%.0f", r.LoadMS))
	}
	t := grid{{"what", "found", "as meant?"}}
	t = append(t, []string{"outputs compared with the resident one's", fmt.Sprintf("%d, apart by %.2g", l.Compared, l.Relative), meets(l.Relative <= l.Tolerance)})
	t = append(t, []string{"runs of the resident one meanwhile, and wrong ones", fmt.Sprintf("%d, %d", l.Beside, l.Wrong), meets(l.Wrong == 0)})
	t = append(t, []string{"less free at the end", mebibytes(l.kept()), meets(l.kept() <= pagingSlack)})
	return fmt.Sprintf("%s, with its own %d batch sizes, is loaded by order from the host's memory, runs, and is unloaded, over and over, as in a paged pool, while the same model, which is resident, runs with as long pauses. %d times, after a first one that does not count: a load takes %.0f ms, an unload %.1f ms (medians), and %s of the device. Loads, ms: %s.\n\n%s",
		l.Model, len(l.Sizes), len(l.Rounds), load, unload, mebibytes(l.Bytes), strings.Join(times, ", "), t)
}
