package fakecuda_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/transport/mono"
)

// double is a model: y = 2x, of uint32.
func double(size int, in, out [][]byte) error {
	for i := range size {
		binary.LittleEndian.PutUint32(out[0][4*i:], 2*binary.LittleEndian.Uint32(in[0][4*i:]))
	}
	return nil
}

const largest = 8 // batch size

// pipeline runs batches in two slots between two copies, as a device does.
type pipeline struct {
	*rig
	p       cuda.Program
	in, out cuda.Stream
	slots   [2]slot
}

type slot struct {
	copied, ran, done cuda.Event
	devIn, devOut     cuda.Ptr
	hostIn, hostOut   []byte
}

func newPipeline(t *testing.T, c fakecuda.Config, k fakecuda.Kernel) *pipeline {
	t.Helper()
	r := setUp(t, c)
	p := &pipeline{rig: r, p: load(t, fakecuda.NewRuntime(fakecuda.Kernels{"m": k}), r.c, r.s, 1, 4, largest)}
	var err error
	p.in, err = r.c.NewStream(false)
	must(t, err)
	p.out, err = r.c.NewStream(true)
	must(t, err)
	for i := range p.slots {
		s := &p.slots[i]
		s.devIn, s.devOut = r.dev+cuda.Ptr(1024*i), r.dev+cuda.Ptr(1024*i+512)
		s.hostIn, s.hostOut = r.host[1024*i:][:4*largest], r.host[1024*i+512:][:4*largest]
		for _, e := range []*cuda.Event{&s.copied, &s.ran, &s.done} {
			*e, err = r.c.NewEvent()
			must(t, err)
		}
		for _, size := range []int{1, 4, largest} {
			must(t, p.p.Bind(i, size, []cuda.Ptr{s.devIn}, []cuda.Ptr{s.devOut}))
		}
	}
	return p
}

func (p *pipeline) close() {
	p.t.Helper()
	for i := range p.slots {
		for _, e := range []cuda.Event{p.slots[i].copied, p.slots[i].ran, p.slots[i].done} {
			must(p.t, e.Close())
		}
	}
	must(p.t, p.p.Close())
	must(p.t, p.in.Close())
	must(p.t, p.out.Close())
	p.rig.close()
}

// launch queues a batch in a slot.
func (p *pipeline) launch(i, size int) {
	s := &p.slots[i]
	must(p.t, p.in.CopyIn(s.devIn, s.hostIn[:4*size]))
	must(p.t, p.in.Record(s.copied))
	must(p.t, p.s.Wait(s.copied))
	must(p.t, p.p.Run(i, size))
	must(p.t, p.s.Record(s.ran))
	must(p.t, p.out.Wait(s.ran))
	must(p.t, p.out.CopyOut(s.hostOut[:4*size], s.devOut))
	must(p.t, p.out.Record(s.done))
}

// TestTenThousandBatches: two in flight, each with its own values; nothing grows.
func TestTenThousandBatches(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	p := newPipeline(t, fakecuda.Config{CopyTime: mono.Microsecond}, fakecuda.Kernel{Run: double, Memory: 1 << 20})
	before := p.d.Counts()
	sizes := [2]int{}
	for n := range 10_000 {
		i := n % 2
		s := &p.slots[i]
		must(t, s.done.Synchronize())
		for k := range sizes[i] {
			if got, want := binary.LittleEndian.Uint32(s.hostOut[4*k:]), uint32(2*(n-2+k)); got != want {
				t.Fatalf("batch %d, item %d: %d, want %d", n-2, k, got, want)
			}
		}
		sizes[i] = []int{1, 4, largest}[n%3]
		for k := range sizes[i] {
			binary.LittleEndian.PutUint32(s.hostIn[4*k:], uint32(n+k))
		}
		p.launch(i, sizes[i])
	}
	must(t, p.out.Synchronize())
	if after := p.d.Counts(); after != before {
		t.Errorf("open before: %+v, after: %+v", before, after)
	}
	if got := p.g.Stats(); got.Runs != 10_000 || got.In != 10_000 || got.Out != 10_000 || got.Unpinned != 0 {
		t.Errorf("%+v", got)
	}
	p.close()
	goleak.VerifyNone(t, ignore)
}

// TestTimeIsAsModelled: the device's time says exactly what was configured, however late
// the goroutines were; and copies hide behind kernels.
func TestTimeIsAsModelled(t *testing.T) {
	const copying, running = 100 * mono.Millisecond, 200 * mono.Millisecond
	p := newPipeline(t, fakecuda.Config{CopyTime: copying}, fakecuda.Kernel{Time: func(b int) mono.Dur { return running }})
	for i := range p.slots {
		p.launch(i, 4)
	}
	must(t, p.out.Synchronize())
	since := func(a, b cuda.Event) mono.Dur {
		d, err := a.Since(b)
		must(t, err)
		return d
	}
	a, b := &p.slots[0], &p.slots[1]
	for what, got := range map[string][2]mono.Dur{
		"the first run":                       {since(a.ran, a.copied), running},
		"the first copy out":                  {since(a.done, a.ran), copying},
		"the second run, its copy was hidden": {since(b.ran, a.ran), running},
		"the second copy out":                 {since(b.done, b.ran), copying},
	} {
		if got[0] != got[1] {
			t.Errorf("%s took %v, want %v", what, got[0], got[1])
		}
	}
	p.close()
}

// TestOneCopyInAtATime: two streams share the engine, the second waits for the first.
func TestOneCopyInAtATime(t *testing.T) {
	const copying = 100 * mono.Millisecond
	r := setUp(t, fakecuda.Config{CopyTime: copying})
	other, err := r.c.NewStream(false)
	must(t, err)
	end, err := r.c.NewEvent()
	must(t, err)
	must(t, r.s.CopyIn(r.dev, r.host[:8]))
	must(t, r.s.Record(r.e))
	must(t, other.CopyIn(r.dev+8, r.host[8:16]))
	must(t, other.Record(end))
	must(t, end.Synchronize())
	must(t, r.e.Synchronize())
	took, err := end.Since(r.e)
	must(t, err)
	// Whichever goroutine came first.
	if took != copying && took != -copying {
		t.Errorf("the copies ended %v apart, want %v", took, copying)
	}
	must(t, end.Close())
	must(t, other.Close())
	r.close()
}

// TestWaitTakesTheMarkOfItsCall: a mark that is made anew later does not hold who waits
// for the one before.
func TestWaitTakesTheMarkOfItsCall(t *testing.T) {
	r := setUp(t, fakecuda.Config{})
	run := execute2(t, r, fakecuda.Kernel{})
	other, err := r.c.NewStream(false)
	must(t, err)
	must(t, r.s.Record(r.e))
	must(t, other.Wait(r.e))
	r.g.Hang()
	must(t, run())
	must(t, r.s.Record(r.e))
	must(t, other.Synchronize())
	if ok, err := r.e.Done(); ok || err != nil {
		t.Errorf("the last mark counts: done %v, %v", ok, err)
	}
	must(t, other.Wait(r.e)) // this one waits
	second, err := r.c.NewEvent()
	must(t, err)
	must(t, other.Record(second))
	if ok, err := second.Done(); ok || err != nil {
		t.Errorf("behind a hung kernel: done %v, %v", ok, err)
	}
	r.g.Release()
	must(t, second.Synchronize())
	must(t, second.Close())
	must(t, other.Close())
}

// TestRunAllocatesNothing: nor does all else that a batch needs.
func TestRunAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p := newPipeline(t, fakecuda.Config{CopyTime: mono.Microsecond}, fakecuda.Kernel{Run: double})
	i := 0
	if n := testing.AllocsPerRun(500, func() {
		i = 1 - i
		must(t, p.slots[i].done.Synchronize())
		p.launch(i, largest)
	}); n != 0 {
		t.Errorf("%v allocations a batch, want 0", n)
	}
	must(t, p.out.Synchronize())
	p.close()
}

// TestOrderedErrors: as ordered, in order, and then no more; nothing is queued.
func TestOrderedErrors(t *testing.T) {
	r := setUp(t, fakecuda.Config{})
	k := fakecuda.NewRuntime(fakecuda.Kernels{"m": {}})
	why := errors.New("why")
	k.FailLoads(nil, why)
	p := load(t, k, r.c, r.s, 1)
	if _, err := k.Load(r.c, r.s, model("m", 1)); !errors.Is(err, why) {
		t.Errorf("Load: %v", err)
	}
	must(t, p.Bind(0, 1, []cuda.Ptr{r.dev}, []cuda.Ptr{r.dev + 4}))
	k.FailRuns(why, nil)
	if err := p.Run(0, 1); !errors.Is(err, why) {
		t.Errorf("Run: %v", err)
	}
	must(t, p.Run(0, 1))
	must(t, p.Run(0, 1))
	must(t, r.s.Synchronize())
	if n := r.g.Stats().Runs; n != 2 {
		t.Errorf("%d runs, want 2", n)
	}
	must(t, p.Close())
	r.close()
}

// TestWrongBindings are refused, each for its reason.
func TestWrongBindings(t *testing.T) {
	r := setUp(t, fakecuda.Config{})
	p := load(t, fakecuda.NewRuntime(fakecuda.Kernels{"m": {}}), r.c, r.s, 1, 4)
	in, out := []cuda.Ptr{r.dev}, []cuda.Ptr{r.dev + 64}
	must(t, p.Bind(0, 4, in, out))
	for what, err := range map[string]error{
		"no size of its":   p.Bind(0, 3, in, out),
		"a second time":    p.Bind(0, 4, in, out),
		"a tensor less":    p.Bind(1, 4, in, nil),
		"beyond":           p.Bind(1, 4, in, []cuda.Ptr{r.dev + room - 8}),
		"no memory at all": p.Bind(1, 4, []cuda.Ptr{0}, out),
		"run without":      p.Run(1, 4),
	} {
		if err == nil {
			t.Errorf("%s: taken", what)
		}
	}
	if m := r.d.Misused(); len(m) != 6 {
		t.Errorf("kept: %v", m)
	}
	if _, err := fakecuda.NewRuntime(nil).Load(r.c, r.s, model("m", 1)); err == nil {
		t.Error("a model without a kernel was loaded")
	}
}
