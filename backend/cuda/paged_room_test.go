package cuda_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/transport/mono"
)

// countedLoads counts the programs that are made, whose ends may take long.
type countedLoads struct {
	cuda.Runtime
	loads atomic.Int64
	end   atomic.Int64 // ns
	ends  atomic.Int64 // that have begun
}

func (k *countedLoads) Load(c cuda.Context, s cuda.Stream, m *cuda.Model) (cuda.Program, error) {
	k.loads.Add(1)
	p, err := k.Runtime.Load(c, s, m)
	if err != nil {
		return nil, err
	}
	return &slowEnd{p, k}, nil
}

type slowEnd struct {
	cuda.Program
	of *countedLoads
}

func (p *slowEnd) Close() error {
	p.of.ends.Add(1)
	time.Sleep(time.Duration(p.of.end.Load()))
	return p.Program.Close()
}

// What the first model of a device leaves there, such as kernels of the libraries, is no model's weight, neither at the start nor after
// a loss: all weigh the same, and what is counted is theirs alone.
func TestPagedIsWarm(t *testing.T) {
	defer leaks(t)
	r := newPaged(t, config{fake: fakecuda.Config{Libraries: 8 << 20}})
	weighs := func(what string) {
		t.Helper()
		c := have(t, what, r.load(0))
		if c.Err != nil || c.Bytes < 1<<20 || c.Bytes > 2<<20 || r.device.Stats().Memory.Load() != c.Bytes {
			t.Errorf("%s: %+v, %d bytes are counted", what, c, r.device.Stats().Memory.Load())
		}
	}
	weighs("a load")
	r.device.Fail(errors.New("for the test"))
	r.reopen()
	weighs("a load after a loss")
	r.device.Fail(errors.New("for the test"))
	r.reopen()
	if err := r.paged.Warm(t.Context(), 1); err != nil || r.device.Stats().Memory.Load() != 0 {
		t.Errorf("%d bytes are held: %v", r.device.Stats().Memory.Load(), err)
	}
	a, end, err := r.paged.Aside(t.Context(), r.models[0], 2<<20)
	if err != nil || a.Bytes > 2<<20 {
		t.Fatalf("aside: %+v, %v", a, err)
	}
	end()
	r.paged.Close()
	r.check()
}

// A model beside those of slots takes no more than it may, and one that is known to have no room is refused before a session is made.
func TestRoomOfPaged(t *testing.T) {
	defer leaks(t)
	counted := &countedLoads{}
	r := newPaged(t, config{options: cuda.Options{Budget: 8 << 20}, runtime: func(k cuda.Runtime) cuda.Runtime { counted.Runtime = k; return counted }})
	a, end, err := r.paged.Aside(t.Context(), r.models[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	end()
	var refused *cuda.RefusedError
	if _, _, err := r.paged.Aside(t.Context(), r.models[0], a.Bytes-1); !errors.As(err, &refused) || !errors.Is(err, cuda.ErrMemory) || refused.Left != a.Bytes-1 || !strings.Contains(err.Error(), "beside pages") {
		t.Errorf("with room for less: %v", err)
	}
	if _, end, err = r.paged.Aside(t.Context(), r.models[0], a.Bytes); err != nil {
		t.Fatal(err)
	}
	end()
	before := counted.loads.Load()
	weighed := r.models[0]
	weighed.Weighed = a.Bytes
	if _, _, err := r.paged.Aside(t.Context(), weighed, a.Bytes-1); !errors.Is(err, cuda.ErrMemory) || counted.loads.Load() != before {
		t.Errorf("%d sessions were made: %v", counted.loads.Load()-before, err)
	}
	weighed.Weighed = 9 << 20
	r.paged.Put(0, weighed)
	if c := have(t, "a load", r.load(0)); !errors.Is(c.Err, cuda.ErrMemory) || !strings.Contains(c.Err.Error(), "9216 KiB") || counted.loads.Load() != before {
		t.Errorf("%d sessions were made: %+v", counted.loads.Load()-before, c)
	}
	r.paged.Close()
	r.check()
}

// Batches that come while a model is unloaded, or given up, wait for that, however long a session takes to end: the device is not lost.
func TestUnloadTakesLong(t *testing.T) {
	defer leaks(t)
	counted := &countedLoads{}
	r := newPaged(t, config{options: cuda.Options{Hang: 50 * mono.Millisecond, HangFactor: 1}, runtime: func(k cuda.Runtime) cuda.Runtime { counted.Runtime = k; return counted }})
	for slot := range 2 {
		if c := have(t, "a load", r.load(slot)); c.Err != nil {
			t.Fatal(c.Err)
		}
	}
	counted.end.Store(int64(400 * time.Millisecond))
	for what, do := range map[string]func() func(){
		"an unload": func() func() {
			unload := r.unload(1)
			return func() { have(t, "an unload", unload) }
		},
		"a load that is given up": func() func() {
			r.runtime.FailRuns(errors.New("for the test"))
			load := r.load(2)
			return func() { have(t, "a load", load) }
		},
	} {
		ends := counted.ends.Load()
		done := do()
		until(t, what, func() bool { return counted.ends.Load() > ends })
		if e := r.run(0, 1, 3); e.err != nil {
			t.Errorf("beside %s: %v", what, e.err)
		}
		done()
	}
	counted.end.Store(0)
	if r.losses() > 0 {
		t.Error("the device is lost")
	}
	r.paged.Close()
	r.check()
}

// hungDriver is a context whose driver hangs.
type hungDriver struct {
	cuda.Context
	here, on chan struct{}
}

func (c *hungDriver) NewStream(urgent bool) (cuda.Stream, error) {
	select {
	case c.here <- struct{}{}:
	default:
	}
	<-c.on
	return nil, cuda.ErrLost
}

// A reopening that hangs, and an unload that waits for it, hold up the closing of a device no longer than the driver is waited for.
func TestPagedClosedWhileAReopeningHangs(t *testing.T) {
	defer leaks(t)
	r := newPaged(t, config{})
	have(t, "a load", r.load(0))
	r.device.Fail(errors.New("for the test"))
	until(t, "all is given back", func() bool { return r.device.Released() == nil })
	c := &hungDriver{r.open(), make(chan struct{}, 1), make(chan struct{})}
	reopened := make(chan error, 1)
	go func() { reopened <- r.device.Reopen(c) }()
	<-c.here
	r.paged.Unload(0, func() {})
	time.Sleep(20 * time.Millisecond)
	begin := mono.Now()
	r.paged.Close()
	if took := mono.Now().Sub(begin); took > 4*mono.Second {
		t.Errorf("Close took %v", took.Std())
	}
	if err := have(t, "the reopening", reopened); err == nil {
		t.Error("it is reopened")
	}
	close(c.on)
	until(t, "all is given back", func() bool { return r.driver.Counts() == fakecuda.Counts{} })
	r.mu.Lock()
	r.warn = nil // that its driver hung
	r.mu.Unlock()
	r.check()
}

// What a model that is weighed takes to load is as on a device that has nothing to do: what its first runs waited for gaps is not in it.
func TestWeighedBesideBatches(t *testing.T) {
	defer leaks(t)
	r := newPaged(t, config{length: func(int) mono.Dur { return 2 * mono.Millisecond }})
	for slot := range 2 {
		have(t, "a load", r.load(slot))
	}
	l := r.rig.load(heap, func([]byte) {})
	begin := mono.Now()
	a, end, err := r.paged.Aside(t.Context(), r.models[2], 0)
	took := mono.Now().Sub(begin)
	l.end()
	if err != nil {
		t.Fatal(err)
	}
	if took-a.Took < 300*mono.Millisecond || a.Took <= 0 {
		t.Errorf("loaded in %v beside batches, weighed as %v", took.Std(), a.Took.Std())
	}
	end()
	r.paged.Close()
	r.check()
}

// Loads that are stopped end, and what is loaded stays and runs: the device is not closed.
func TestPagedStops(t *testing.T) {
	defer leaks(t)
	slow := &slowLoads{here: make(chan struct{}), on: make(chan struct{})}
	r := newPaged(t, config{runtime: func(k cuda.Runtime) cuda.Runtime { slow.Runtime = k; return slow }})
	have(t, "a load", r.load(0))
	slow.waits.Store(true)
	load := r.load(1)
	<-slow.here
	time.AfterFunc(20*time.Millisecond, func() { close(slow.on) })
	r.paged.Stop()
	if n := r.driver.Counts().Programs; n != 1 {
		t.Errorf("%d models are loaded", n)
	}
	next := r.load(2)
	if e := r.run(0, 1, 3); e.err != nil {
		t.Error(e.err)
	}
	if len(load)+len(next) != 0 {
		t.Error("what was stopped is told of")
	}
	r.paged.Close()
	r.check()
}
