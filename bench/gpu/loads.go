package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/transport/mono"
)

// loads is what execution and loads beside it take from each other.
type loads struct {
	Model string `json:"model"` // that executes, and of which another is loaded
	Batch int    `json:"batch"`
	// Executions alone, before and after the rest; while memory is copied to the device as fast as
	// it goes; and while models are loaded and unloaded, one after the other.
	Alone  besides `json:"alone"`
	Copies besides `json:"beside_copies"`
	Loads  besides `json:"beside_loads"`
	Loaded int     `json:"loads"`
	LoadMS float64 `json:"load_ms"` // median of one
	Bytes  int64   `json:"load_bytes"`
	// Copies to the device, bytes/s: large ones alone, those of weights beside execution, and those of
	// batches' inputs alone, of the largest size.
	Peak       float64 `json:"peak_bytes_per_s"`
	BesideRate float64 `json:"beside_bytes_per_s"`
	BatchRate  float64 `json:"batch_bytes_per_s"`
	BatchBytes int     `json:"batch_bytes"`
	Error      string  `json:"error,omitempty"` // of the loads
}

// besides are executions under a condition.
type besides struct {
	Runs  int     `json:"runs"`
	P50MS float64 `json:"p50_ms"`
	P99MS float64 `json:"p99_ms"`

	spans []mono.Dur
}

// What a device that loads beside execution is meant to keep.
const (
	slowerMost = 1.05 // p99 of executions beside loads, over that alone
	shareLeast = 0.8  // of the peak, copies beside execution
)

// pieceBytes are copied at a time: the link's peak is that of large pieces, two queued at any time.
// Beside execution each is queued when the one before has ended, as weights are to come: a stream that never runs
// dry keeps the link, and a batch's inputs wait for as long as it has something (drivertest, "turns").
const (
	pieceBytes  = 64 << 20
	weightBytes = 32 << 20
)

// loader is a device that takes models while it executes.
type loader interface {
	Load(ctx context.Context, slot int, m cuda.Model) (int64, error)
	Unload(slot int)
}

// measureLoads runs the middle size of the first model over and over, beside one thing after
// the other.
func measureLoads(ctx context.Context, b *bench) (section, error) {
	d, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	m := &d.Models[0]
	l := &loads{Model: m.Spec.Key(), Batch: m.Sizes[len(m.Sizes)/2]}
	s, free, err := d.shot(m, 0, l.Batch, 0)
	if err != nil {
		return nil, err
	}
	defer free()
	each := leftOf(ctx) / 8
	for _, step := range []func() error{
		func() error { return d.execute(ctx, s, &l.Alone, during(each)) },
		func() error { return l.measureCopies(ctx, d, s, each) },
		func() error { return l.measureLoading(ctx, d, s, 3*each) },
		func() error { return d.execute(ctx, s, &l.Alone, during(each)) },
	} {
		if err = step(); err != nil {
			break
		}
	}
	if err == nil && l.Error != "" {
		err = errors.New(l.Error)
	}
	for _, of := range []*besides{&l.Alone, &l.Copies, &l.Loads} {
		of.done()
		if err == nil && of.Runs < spreadLeast {
			err = fmt.Errorf("only %d runs of one kind in its time, too few to tell a p99", of.Runs)
		}
	}
	return l, err
}

// execute runs a shot over and over, as long as more says.
func (d *Direct) execute(ctx context.Context, s *shot, of *besides, more func() bool) error {
	for i := 0; more(); i++ {
		r, err := s.run(ctx, d.GPU)
		if err != nil {
			return err
		}
		if i >= warmRuns {
			of.spans = append(of.spans, r.span())
		}
	}
	return nil
}

// during is true for a span.
func during(span mono.Dur) func() bool {
	end := mono.Now().Add(span)
	return func() bool { return mono.Now() < end }
}

func (b *besides) done() {
	if b.Runs = len(b.spans); b.Runs == 0 {
		return
	}
	sorted := slices.Clone(b.spans)
	slices.Sort(sorted)
	b.P50MS, b.P99MS = percentile(sorted, 0.5).Millis(), percentile(sorted, 0.99).Millis()
}

// measureCopies finds the peak, then copies beside execution.
func (l *loads) measureCopies(ctx context.Context, d *Direct, s *shot, each mono.Dur) error {
	m := &d.Models[0]
	l.BatchBytes = m.Sizes[len(m.Sizes)-1] * itemSize(m.Spec.Inputs)
	var err, err2 error
	if l.Peak, err = d.copies(pieceBytes, slots, during(each/2)); err != nil {
		return err
	}
	if l.BatchRate, err = d.copies(l.BatchBytes, slots, during(each/2)); err != nil {
		return err
	}
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.BesideRate, err2 = d.copies(weightBytes, 1, func() bool { return !stop.Load() })
	}()
	err = d.execute(ctx, s, &l.Copies, during(each))
	stop.Store(true)
	<-done
	return errors.Join(err, err2)
}

// copies copies pieces of pinned memory to the device, as many queued at any time as it is told, and tells
// how many bytes a second that are.
func (d *Direct) copies(piece, queued int, more func() bool) (rate float64, err error) {
	if d.Driver == nil {
		return 0, errors.New("no driver to queue copies with")
	}
	if d.PieceMost > 0 {
		piece = min(piece, d.PieceMost)
	}
	c, err := d.Driver.Open(d.Index)
	if err != nil {
		return 0, err
	}
	err = cuda.On(c, func() (err error) {
		p := &copier{}
		defer func() { err = errors.Join(err, p.close()) }()
		if err = p.open(c, piece); err != nil {
			return err
		}
		rate, err = p.run(queued, more)
		return err
	})
	return rate, errors.Join(err, c.Close())
}

// copier is a stream with memory on both sides.
type copier struct {
	pipe pipeline // whose closing it shares
	ends [slots]cuda.Event
	host [slots][]byte
	at   [slots]cuda.Ptr
}

func (p *copier) close() error { return p.pipe.close() }

func (p *copier) open(c cuda.Context, piece int) (err error) {
	if p.pipe.copyIn, err = c.NewStream(false); err != nil {
		return err
	}
	p.pipe.keep(p.pipe.copyIn.Close)
	for i := range slots {
		if p.host[i], err = c.HostAlloc(piece); err != nil {
			return err
		}
		p.pipe.keep(func() error { return c.HostFree(p.host[i]) })
		if p.at[i], err = c.Alloc(int64(piece)); err != nil {
			return err
		}
		p.pipe.keep(func() error { return c.Free(p.at[i]) })
		if p.ends[i], err = c.NewEvent(); err != nil {
			return err
		}
		p.pipe.keep(p.ends[i].Close)
		for k := 0; k < piece; k += 512 { // pages that were touched
			p.host[i][k] = byte(k>>9) + 1
		}
	}
	return nil
}

// run copies as long as more says; the first copies are not counted.
func (p *copier) run(queued int, more func() bool) (float64, error) {
	by := p.pipe.copyIn
	var begin, end mono.Time
	n := -queued
	for i := 0; ; i++ {
		slot := i % queued
		if i >= queued { // the slot's copy before is over
			if err := p.ends[slot].Synchronize(); err != nil {
				return 0, err
			}
			end = mono.Now()
			if n++; n == 0 {
				begin = end
			}
		}
		if n > 0 && !more() {
			return float64(n) * float64(len(p.host[0])) / end.Sub(begin).Seconds(), nil
		}
		if err := errors.Join(by.CopyIn(p.at[slot], p.host[slot]), by.Record(p.ends[slot])); err != nil {
			return 0, err
		}
	}
}

// measureLoading loads the model once more, over and over, beside execution. What goes wrong with
// that stands in Error.
func (l *loads) measureLoading(ctx context.Context, d *Direct, s *shot, span mono.Dur) error {
	to, ok := d.GPU.(loader)
	if !ok {
		l.Error = "the device takes no models while it executes"
		return nil
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []mono.Dur // the loading's, until ended is closed
	var some atomic.Bool
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		slot := len(d.Models)
		for failed == nil && within.Err() == nil {
			begin := mono.Now()
			var bytes int64
			if bytes, failed = to.Load(within, slot, d.Models[0].Model); failed != nil {
				return
			}
			all, l.Bytes = append(all, mono.Now().Sub(begin)), bytes
			some.Store(true)
			to.Unload(slot)
		}
	}()
	inTime := during(span)
	err := d.execute(ctx, s, &l.Loads, func() bool {
		select {
		case <-ended:
			return false
		default:
			return inTime() || !some.Load()
		}
	})
	cancel()
	<-ended
	if l.Loaded = len(all); l.Loaded > 0 {
		l.LoadMS = median(all).Millis()
	}
	if failed != nil && !errors.Is(failed, context.Canceled) && !errors.Is(failed, context.DeadlineExceeded) {
		l.Error = fmt.Sprintf("loading %s once more: %v", l.Model, failed)
	}
	return err
}

// slower is how the 99th percentile of executions beside something compares with that alone.
func (l *loads) slower(b *besides) float64 {
	if l.Alone.P99MS == 0 {
		return 0
	}
	return b.P99MS / l.Alone.P99MS
}

// share is a rate's of the peak.
func (l *loads) share(rate float64) float64 {
	if l.Peak == 0 {
		return 0
	}
	return rate / l.Peak
}

func (l *loads) summary() string {
	return fmt.Sprintf("%s, batches of %d: p99 %.3f ms alone, %.2f times that beside loads, %.2f times beside copies, which reach %s of %.1f GB/s",
		l.Model, l.Batch, l.Alone.P99MS, l.slower(&l.Loads), l.slower(&l.Copies), percent(l.share(l.BesideRate)), l.Peak/1e9)
}

func (l *loads) table() [][]string {
	t := [][]string{{"beside", "run", "us"}}
	for _, k := range []struct {
		name string
		of   *besides
	}{{"nothing", &l.Alone}, {"copies", &l.Copies}, {"loads", &l.Loads}} {
		for i, s := range k.of.spans {
			t = append(t, []string{k.name, fmt.Sprint(i), precise(float64(s) / 1e3)})
		}
	}
	return t
}

func (l *loads) pictures() []named {
	c := plot.CDF{X: plot.Axis{Label: "execution (ms)"}, Of: "runs"}
	for _, k := range []struct {
		name string
		of   *besides
	}{{"alone", &l.Alone}, {"beside copies", &l.Copies}, {"beside loads", &l.Loads}} {
		if k.of.Runs < 2 {
			return nil
		}
		s := plot.Samples{Name: k.name}
		for _, span := range k.of.spans {
			s.Values = append(s.Values, span.Millis())
		}
		c.Series = append(c.Series, s)
	}
	return []named{{"loads", "Executions beside loads", plot.Size{W: 6.5, H: 3.6}, c}}
}

// meets says whether a figure is what it is meant to be.
func meets(ok bool) string { return map[bool]string{true: "yes", false: "no"}[ok] }

func (l *loads) text() string {
	t := grid{{"executions", "runs", "p50 ms", "p99 ms", "p99 / that alone", fmt.Sprintf("at most %.2f?", slowerMost)}}
	row := func(name string, b *besides) {
		if b.Runs == 0 {
			t = append(t, []string{name, "0", "-", "-", "-", "-"})
			return
		}
		t = append(t, []string{name, fmt.Sprint(b.Runs), fmt.Sprintf("%.4f", b.P50MS), fmt.Sprintf("%.4f", b.P99MS), fmt.Sprintf("%.3f", l.slower(b)), meets(l.slower(b) <= slowerMost)})
	}
	row("alone", &l.Alone)
	row("beside copies to the device", &l.Copies)
	row("beside loads of the model", &l.Loads)
	r := grid{{"copies to the device, from pinned memory", "GB/s", "of the peak", fmt.Sprintf("%.1f at least?", shareLeast)}}
	rate := func(name string, v float64) {
		if v > 0 {
			r = append(r, []string{name, fmt.Sprintf("%.2f", v/1e9), fmt.Sprintf("%.3f", l.share(v)), meets(l.share(v) >= shareLeast)})
		}
	}
	rate(fmt.Sprintf("pieces of %d MiB, alone: the peak", pieceBytes>>20), l.Peak)
	rate(fmt.Sprintf("pieces of %d MiB, one at a time, beside execution", weightBytes>>20), l.BesideRate)
	rate(fmt.Sprintf("inputs of the largest batch (%.2f MB), alone", float64(l.BatchBytes)/1e6), l.BatchRate)
	return fmt.Sprintf("%s in batches of %d, one after the other, by the device's events: alone, before and after the rest; while another stream copies to the device, piece after piece, as weights come; and while the model is loaded once more and unloaded, over and over: %d loads of %s, %.0f ms each (median), with a first run of every size.\n\n%s\n%s",
		l.Model, l.Batch, l.Loaded, gibibytes(l.Bytes), l.LoadMS, t, r)
}
