package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/transport/mono"
)

// The parts that need no system, on a GPU in software: what it was made with is found again,
// and everything that was opened is closed.
func TestDirectParts(t *testing.T) {
	o := options(t, "discovery", "conformance", "outputs", "latency", "spread", "overlap", "scaling")
	r, res := inTime(t, o)
	if !res.Passed || r.opened != 1 || r.closed != 1 {
		t.Fatalf("failed: %v; opened %d times, closed %d", res.Failures(), r.opened, r.closed)
	}
	r.leaks(t)
	if s := outcome(t, res, "scaling"); s.Status != Skipped || !strings.Contains(s.Error, "too few cores: 2") {
		t.Errorf("scaling: %+v", s)
	}
	out := res.Sections["outputs"].(*outputs)
	if len(out.Models) != 2 || out.Models[0].Compared < 10 || out.Models[1].Relative > 1e-6 || out.Models[0].Items != 5 {
		t.Errorf("outputs: %+v", out.Models[0])
	}
	l := res.Sections["latency"].(*latency).Models[0]
	if len(l.Points) != 6 || l.Points[0].MedianMS < rigTime(1).Millis() || l.BetaMS < 0.3 || l.AlphaMS > 0.5 {
		t.Errorf("l(b): %+v", l)
	}
	s := res.Sections["spread"].(*spread)
	if s.Runs < spreadLeast || s.P50MS < rigTime(s.Batch).Millis() || s.P99MS < s.P50MS || s.Batch != 1 {
		t.Errorf("spread: %s", s.summary())
	}
	v := res.Sections["overlap"].(*overlap).Models[0]
	if v.Batches != overlapBatches || v.HiddenIn < 0.5 || v.CopyInUS < 60 || v.RunUS < 1000 || v.Depth != 2 || v.HiddenThere <= 0 || v.GapAheadUS < 0 {
		v.timeline = nil
		t.Errorf("overlap: %+v", v)
	}
	text, err := os.ReadFile(filepath.Join(o.Out, "REPORT.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"**PASSED**", "Fake GPU", "1 passed, 0 failed", "equal enough", "plots/latency.svg", "plots/overlap.svg", "plots/spread.svg", "too few cores"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report has no %q", want)
		}
	}
	if n := len(files(t, o.Out, "plots/*.svg")); n != 3 {
		t.Errorf("%d plots", n)
	}
	if n := len(files(t, o.Out, "data/*.csv")); n != 4 {
		t.Errorf("%d tables", n)
	}
	text, err = os.ReadFile(filepath.Join(o.Out, "data", "result.json"))
	if err != nil || !json.Valid(text) {
		t.Errorf("result.json: %v", err)
	}
}

// l(b) is measured with the time that there is, and no longer: also where memory, or a busy machine,
// takes a moment between the look at the clock and the first run.
func TestLatencyInTime(t *testing.T) {
	r := newRig()
	d, err := r.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	alloc := d.Alloc
	d.Alloc = func(n int) ([]byte, error) { time.Sleep(10 * time.Millisecond); return alloc(n) }
	for range 3 { // the machine may be too busy for the least of each size, but not each time
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // of which each size would take more than its share
		_, err = measureLatency(ctx, &bench{held: d})
		cancel()
		if err == nil {
			break
		}
	}
	if err = errors.Join(err, d.Close()); err != nil {
		t.Error(err)
	}
	r.leaks(t)
}

// The size that is run over and over is the largest, up to the ladder's middle, for which
// there is time.
func TestSizeFor(t *testing.T) {
	r := newRig()
	d, err := r.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for want, span := range map[int]mono.Dur{4: 3600 * mono.Second, 1: mono.Second} {
		if size, err := d.sizeFor(t.Context(), span); err != nil || size != want {
			t.Errorf("in %v: %d, %v; want %d", span, size, err, want)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	r.leaks(t)
}

// Loads and copies beside execution, alone: a load waits a second for the device to have nothing to do,
// which takes a larger share of the time than the part has among the others.
func TestLoads(t *testing.T) {
	o := options(t, "loads")
	o.Limit = 7 * mono.Second
	r, res := inTime(t, o)
	if !res.Passed {
		t.Fatalf("failed: %v", res.Failures())
	}
	r.leaks(t)
	w := res.Sections["loads"].(*loads)
	if w.Alone.Runs < spreadLeast || w.Alone.P50MS < rigTime(w.Batch).Millis() || w.Loads.P99MS < w.Loads.P50MS || w.Copies.Runs < spreadLeast || w.Loaded < 1 || w.LoadMS < rigTime(1).Millis() || w.Bytes == 0 {
		t.Errorf("loads: %s; %d of %d bytes", w.summary(), w.Loaded, w.Bytes)
	}
	for _, rate := range []float64{w.Peak, w.BesideRate, w.BatchRate} { // a busy processor copies slowly, but never above the fake's bandwidth
		if most := float64(2 << 30); rate > 1.05*most || rate < most/100 {
			t.Errorf("copies of %g bytes/s, beside execution %g, of batches %g", w.Peak, w.BesideRate, w.BatchRate)
		}
	}
	if n := len(files(t, o.Out, "plots/loads.svg")) + len(files(t, o.Out, "data/loads.csv")); n != 2 {
		t.Errorf("%d files of a plot and a table", n)
	}
}

// A model that cannot be loaded once more fails the part, which has what it measured without that.
func TestLoadsRefused(t *testing.T) {
	r := newRig()
	m := r.machine()
	open := m.Open
	m.Open = func(ctx context.Context) (*Direct, error) {
		d, err := open(ctx)
		d.Runtime.(*fakecuda.Runtime).FailLoads(errRig)
		return d, err
	}
	o := options(t, "loads")
	o.Limit = 7 * mono.Second // it needs half of it
	res, err := Run(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	if o := outcome(t, res, "loads"); o.Status != Failed || !strings.Contains(o.Error, "loading doubles/1 once more: ") {
		t.Errorf("%+v", o)
	}
	if l := res.Sections["loads"].(*loads); l.Peak == 0 || l.Alone.Runs == 0 || l.Loaded != 0 {
		t.Errorf("%s", l.summary())
	}
	r.leaks(t)
}

// Loads and unloads by order beside execution: outputs are right, and the device has what it had.
func TestPaging(t *testing.T) {
	o := options(t, "paging")
	o.Limit = 7 * mono.Second
	r, res := inTime(t, o)
	if !res.Passed {
		t.Fatalf("failed: %v", res.Failures())
	}
	r.leaks(t)
	l := res.Sections["paging"].(*paging)
	if len(l.Rounds) < pagingLeast || l.Compared != 9*(len(l.Rounds)+1) || l.Relative > 1e-6 || l.Bytes == 0 || l.Beside < 1 || l.Wrong != 0 || l.kept() != 0 || l.Before == 0 {
		t.Errorf("%s: %+v", l.summary(), l)
	}
	if !slices.Equal(l.Sizes, cuda.Ladder(8)) || !slices.Equal(l.Runs, []int{1, 8}) {
		t.Errorf("loaded for batches of %v, ran %v", l.Sizes, l.Runs)
	}
	if load, unload := l.medians(); load < 8*rigTime(1).Millis() || unload <= 0 {
		t.Errorf("loads take %v ms, unloads %v", load, unload)
	}
	if n := len(files(t, o.Out, "data/paging.csv")); n != 1 {
		t.Errorf("%d tables", n)
	}
}

// What a load leaves behind fails the part, by numbers.
func TestPagingLeaves(t *testing.T) {
	r := newRig()
	m := r.machine()
	open := m.Open
	m.Open = func(ctx context.Context) (*Direct, error) {
		d, err := open(ctx)
		if err != nil {
			return nil, err
		}
		own, err := r.driver.Open(0)
		if err != nil {
			return nil, err
		}
		var kept []cuda.Ptr
		r.during = func() { // a load
			_ = cuda.On(own, func() error {
				at, err := own.Alloc(6 << 20)
				kept = append(kept, at)
				return err
			})
		}
		end := d.Close
		d.Close = func() error {
			err := cuda.On(own, func() (err error) {
				for _, at := range kept {
					err = errors.Join(err, own.Free(at))
				}
				return err
			})
			return errors.Join(err, own.Close(), end())
		}
		return d, nil
	}
	o := options(t, "paging")
	o.Limit = 20 * mono.Second
	res, err := Run(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	if p := outcome(t, res, "paging"); p.Status != Failed || !strings.Contains(p.Error, "MiB less of the device's memory is free, tolerated are 16.0 MiB") {
		t.Errorf("%+v", p)
	}
	r.leaks(t)
}

// What is not as it is meant to be is told.
func TestPagingIsJudged(t *testing.T) {
	free := func(n int64) []round { return []round{{Free: 1 << 30}, {Free: n}} }
	for want, l := range map[string]*paging{
		"": {Before: 1 << 30, Rounds: free(1<<30 - pagingSlack), Tolerance: 1e-3, Relative: 1e-3, Beside: 7},
		"differ from those of the resident one by 0.002": {Before: 1 << 30, Rounds: free(1 << 30), Tolerance: 1e-3, Relative: 2e-3},
		"by NaN of the largest":                          {Tolerance: 1e-3, Relative: math.NaN()},
		"1 of 7 runs beside loads had other outputs":     {Tolerance: 1e-3, Beside: 7, Wrong: 1},
		"after 2 loads and unloads 32.0 MiB less":        {Before: 1 << 30, Rounds: free(1<<30 - 32<<20), Tolerance: 1e-3},
	} {
		if err := l.judge(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A model whose outputs are wrong fails that part, by name and numbers; those after it run.
func TestWrongOutputs(t *testing.T) {
	r := newRig()
	r.off = 0.01
	opts := options(t, "outputs", "latency")
	opts.Limit = 60 * mono.Second // none of them takes long, but on a busy machine
	res, err := Run(t.Context(), r.machine(), opts)
	if err != nil {
		t.Fatal(err)
	}
	o := outcome(t, res, "outputs")
	if o.Status != Failed || !strings.Contains(o.Error, "halves/1") || strings.Contains(o.Error, "doubles") || !strings.Contains(o.Error, "0.01 of the largest") {
		t.Errorf("%+v", o)
	}
	if l := outcome(t, res, "latency"); l.Status != Done || res.Passed {
		t.Errorf("latency: %+v", l)
	}
	if len(res.Sections["outputs"].(*outputs).Models) != 2 {
		t.Error("the right model's outputs are not in the report")
	}
	if f := res.Failures(); len(f) != 1 || !strings.HasPrefix(f[0], "outputs: failed: ") {
		t.Errorf("%q", f)
	}
	r.leaks(t)
}

// Each part may fail alone, and says so.
func TestPartsFailAlone(t *testing.T) {
	r := newRig()
	m := r.machine()
	m.Look = func() ([]Reading, error) { return nil, errRig }
	m.Suite = func(_ context.Context, to io.Writer) error {
		_, _ = io.WriteString(to, "    --- FAIL: TestDriver/order (0.10s)\n        3 before 2\n--- FAIL: TestDriver (0.10s)\n")
		return errRig
	}
	m.Open = func(context.Context) (*Direct, error) { panic("a bug") }
	m.Processors = 16
	m.Scaling = func(_ context.Context, loops int, _ mono.Dur) (float64, error) {
		if loops == 3 {
			return 0, errRig
		}
		return 1e5 * float64(loops), nil
	}
	o := options(t)
	o.Limit = LimitDefault // none of them takes long
	res, err := Run(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"discovery": "NVML: no more", "conformance": "1 of 1 tests failed: TestDriver/order", "outputs": "panic: a bug", "goodput": "built without CUDA",
		"prediction": "built without CUDA", "scaling": "3 model loops: no more"} {
		if p := outcome(t, res, name); p.Status != Failed || !strings.Contains(p.Error, want) {
			t.Errorf("%s: %+v, want %q", name, p, want)
		}
	}
	if s := res.Sections["scaling"].(*scaling); len(s.Points) != 5 || s.factor(s.Points[4]) != 8 {
		t.Errorf("scaling: %+v", s)
	}
	text, err := os.ReadFile(filepath.Join(o.Out, "REPORT.md"))
	if err != nil || !strings.Contains(string(text), "**FAILED**: of 12 parts, 12 failed.") || !strings.Contains(string(text), "3 before 2") {
		t.Errorf("%v\n%.600s", err, text)
	}
}

// Without a device nothing but the reason is there.
func TestNoDevice(t *testing.T) {
	r := newRig()
	r.driver.GPU(0).Vanish()
	res, err := Run(t.Context(), r.machine(), options(t, "latency"))
	if err != nil {
		t.Fatal(err)
	}
	if p := outcome(t, res, "latency"); p.Status != Failed || !strings.Contains(p.Error, "lost") {
		t.Errorf("%+v", p)
	}
}

// A kernel that hangs loses the device: the part says so, and the next ones go on to say what
// they can. Nothing waits for ever.
func TestHang(t *testing.T) {
	r := newRig()
	r.hang = 200 * mono.Millisecond
	m := r.machine()
	open := m.Open
	m.Open = func(ctx context.Context) (*Direct, error) {
		d, err := open(ctx)
		r.driver.GPU(0).Hang()
		return d, err
	}
	begin := mono.Now()
	res, err := Run(t.Context(), m, options(t, "latency", "spread", "discovery"))
	if err != nil {
		t.Fatal(err)
	}
	if p := outcome(t, res, "latency"); p.Status != Failed || !strings.Contains(p.Error, "lost") {
		t.Errorf("%+v", p)
	}
	if p := outcome(t, res, "discovery"); p.Status != Done {
		t.Errorf("what needs no device: %+v", p)
	}
	if took := mono.Now().Sub(begin); took > 60*mono.Second {
		t.Errorf("took %v", took)
	}
}

// A part that does not come back, such as a library that hangs, costs those that need the
// GPU, and not the report.
func TestStuck(t *testing.T) {
	r := newRig()
	m := r.machine()
	free := make(chan struct{})
	defer close(free)
	m.Open = func(context.Context) (*Direct, error) { <-free; return nil, errRig }
	o := options(t, "outputs", "latency", "discovery")
	o.Limit = 4 * mono.Second
	res, err := Run(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	if p := outcome(t, res, "outputs"); p.Status != Failed || !strings.Contains(p.Error, "did not come back") {
		t.Errorf("%+v", p)
	}
	if p := outcome(t, res, "latency"); p.Status != NotRun {
		t.Errorf("%+v", p)
	}
	if res.Seconds > 30 {
		t.Errorf("it took %.0f s of 4", res.Seconds)
	}
	if len(files(t, o.Out, "REPORT.md")) != 1 {
		t.Error("no report")
	}
}

// Ctrl-C ends it with a report of what was done.
func TestInterrupted(t *testing.T) {
	r := newRig()
	ctx, cancel := context.WithCancel(t.Context())
	m := r.machine()
	open := m.Open
	m.Open = func(ctx context.Context) (*Direct, error) {
		d, err := open(ctx)
		d.GPU = &counted{Device: d.GPU, launches: 50, then: cancel}
		return d, err
	}
	o := options(t, "discovery", "spread", "overlap")
	res, err := Run(ctx, m, o)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := outcome(t, res, "spread"), outcome(t, res, "overlap"); a.Status != Interrupted || b.Status != Interrupted || outcome(t, res, "discovery").Status != Done {
		t.Errorf("%+v, %+v", a, b)
	}
	text, err := os.ReadFile(filepath.Join(o.Out, "REPORT.md"))
	if err != nil || !strings.Contains(string(text), "**INTERRUPTED**: of 3 parts, 1 done, 2 interrupted.") {
		t.Errorf("%v\n%.400s", err, text)
	}
	if s, ok := res.Sections["spread"].(*spread); !ok || s.Runs == 0 {
		t.Error("what the interrupted part had measured is not there")
	}
	r.leaks(t)
}

// Time that one part does not use goes to the next; of one part alone, no more than twice its own.
func TestShares(t *testing.T) {
	b := &bench{o: Options{Limit: LimitDefault, reserve: reserveDefault}, begin: mono.Now()}
	all, sum := parts(), mono.Dur(0)
	for i, p := range all {
		sum += b.share(p, all) // as if each began now
		if s := b.share(p, all[i:i+1]); s != min(b.left(), 2*p.budget) && math.Abs(float64(s-2*p.budget)) > 1e6 {
			t.Errorf("%s alone: %v of %v", p.name, s, p.budget)
		}
	}
	if left := b.left(); sum > left+mono.Second || sum < left*9/10 {
		t.Errorf("shares of %v, left are %v", sum, left)
	}
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{"--only: \"x\" is none of discovery": {Out: t.TempDir(), Only: []string{"x"}}, "--limit: 1s": {Out: t.TempDir(), Limit: mono.Second}, "--out: ": {Out: "/dev/null/a"}} {
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
