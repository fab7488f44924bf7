package backend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Many models that come at once are weighed one after the other on each GPU, and none lacks room for the others.
func TestManyAreWeighed(t *testing.T) {
	defer goleak.VerifyNone(t)
	kernels := fakecuda.Kernels{}
	var sources []catalog.Source
	for i := range 8 {
		name := fmt.Sprintf("m%d", i)
		kernels[name] = steady(12 << 20)
		sources = append(sources, gpuSource(t, name))
	}
	s, d, _ := onPagedGPUs(t, 40, kernels)
	defer ends(t, s, d)
	s.admitted(100)
	most := make(chan int, 1)
	stop := make(chan struct{})
	go func() { // what is loaded at a time
		n := 0
		for {
			select {
			case <-stop:
				most <- n
				return
			case <-time.After(100 * time.Microsecond):
				n = max(n, d.Counts().Programs)
			}
		}
	}()
	s.keep(catalog.Keep{Device: 0, Load: sources})
	for _, m := range sources {
		s.until(m.Key(), catalog.StateReady, 0)
	}
	close(stop)
	if n := <-most; n > 2 || n < 1 {
		t.Errorf("%d models were loaded at a time", n)
	}
	if said := s.log.about("not served"); len(said) > 0 {
		t.Errorf("refused: %v", said)
	}
}

// A model that is taken away while it waits to be weighed is gone at once, and no session is made of it; nor is one when the backend ends.
func TestUnloadedBeforeItIsWeighed(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, d, r := onPagedGPUs(t, 20, fakecuda.Kernels{"a": steady(1 << 20), "b": steady(1 << 20), "gone": steady(1 << 20), "late": steady(1 << 20)})
	s.admitted(100)
	r.hold()
	s.keep(catalog.Keep{Device: 0, Load: []catalog.Source{gpuSource(t, "a"), gpuSource(t, "b")}})
	eventually(t, "both GPUs weigh", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.held == 2 })
	s.keep(catalog.Keep{Device: 0, Load: []catalog.Source{gpuSource(t, "gone"), gpuSource(t, "late")}})
	s.until("gone/1", catalog.StateFetching)
	s.keep(catalog.Keep{Device: 0, Unload: []string{"gone/1"}})
	s.until("gone/1", catalog.StateGone)
	time.AfterFunc(20*time.Millisecond, r.release)
	begin := mono.Now()
	ends(t, s, d)
	if took := mono.Now().Sub(begin); took > 3*mono.Second {
		t.Errorf("it took %v to end", took.Std())
	}
	for _, name := range []string{"gone", "late"} {
		if n, _, _ := r.of(name); n != 0 {
			t.Errorf("%s was loaded %d times", name, n)
		}
	}
}

// While a model that came is measured, what is ordered has all pages; it is measured on a GPU whose pages are all taken, too.
func TestMeasuredBesideAllPages(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, d, _ := onPagedGPUs(t, 39, fakecuda.Kernels{"a": steady(12 << 20), "b": steady(12 << 20), "c": steady(12 << 20), "late": steady(16 << 20)}, "a", "b", "c")
	defer ends(t, s, d)
	s.b.cfg.Profiling.Rounds = 200
	s.admitted(100)
	s.bindAll(10, 3)
	late := gpuSource(t, "late")
	s.keep(catalog.Keep{Device: 0, Load: []catalog.Source{late}})
	g := s.b.pools[0].gpus[0]
	eventually(t, "it is measured", func() bool { return g.device.Stats().Memory.Load() > 16<<20 })
	for k := range wire.LoadID(3) {
		_ = s.control().Send(loadOf(100, k+1, 0, wire.ModelID(10+k), wire.Generation(k+1)).Append(nil))
		if l := s.loaded(k + 1); l.Reason != wire.ReasonNone {
			t.Errorf("beside a model that is measured: %+v", l)
		}
	}
	s.until("late/1", catalog.StateReady, 0)
	if free, _ := s.b.pools[0].executors[0].Pages(); free != 0 {
		t.Errorf("%d pages are free: this test shows nothing", free)
	}
}

// A model that has a profile, and is ordered to be measured where there is no room, is served on, and measured when there is.
func TestMeasuredLater(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, d, _ := onPagedGPUs(t, 20, fakecuda.Kernels{"a": steady(4 << 20)})
	defer ends(t, s, d)
	s.admitted(100)
	a := gpuSource(t, "a")
	a.Profile = &catalog.Profile{Alpha: mono.Millisecond, Beta: 50 * mono.Millisecond}
	s.keep(catalog.Keep{Device: 0, Load: []catalog.Source{a}})
	s.until("a/1", catalog.StateReady, 0)
	for i := range 2 {
		d.GPU(i).SetMemory(2 << 20)
	}
	s.keep(catalog.Keep{Device: 0, Measure: []string{"a/1"}})
	eventually(t, "it cannot be measured", func() bool { return len(s.log.about("cannot be measured now")) == 1 })
	if l := s.until("a/1", catalog.StateReady, 0); l.Error != "" || l.Spec.Profile.Beta != 50*mono.Millisecond {
		t.Errorf("%+v", l)
	}
	if said := s.log.about("cannot be measured now", "leave a GPU room for it with fewer pages"); len(said) != 1 || len(s.log.about("not served")) != 0 {
		t.Errorf("said %v", s.log.about(""))
	}
	for i := range 2 {
		d.GPU(i).SetMemory(64 << 20)
	}
	s.wait("its own profile", func() bool { sp := s.last("a/1").Spec; return sp != nil && len(sp.Profile.Table) == 8 })
}

// A model is measured on a GPU that is in service, though another one has more room.
func TestMeasuredInService(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, d, _ := onPagedGPUs(t, 20, fakecuda.Kernels{"a": steady(4 << 20)})
	defer ends(t, s, d)
	s.admitted(100)
	s.b.OutOfService(0, 0, sourceTelemetry, "for the test")
	s.keep(catalog.Keep{Device: 1, Load: []catalog.Source{gpuSource(t, "a")}})
	s.until("a/1", catalog.StateReady, 1)
	if n := s.b.pools[0].gpus[0].device.Stats().Batches.Load(); n != 0 {
		t.Errorf("%d batches ran on a GPU that is out of service", n)
	}
}

// A model is measured on a GPU that is in no sub-cluster, if there is one: no batches run there.
func TestMeasuredNowhere(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, d, _ := onPagedGPUs(t, 20, fakecuda.Kernels{"a": steady(4 << 20)})
	defer ends(t, s, d)
	s.admitted(100)
	s.keep(catalog.Keep{Device: 1, In: catalog.Nowhere})
	s.keep(catalog.Keep{Device: 0, Load: []catalog.Source{gpuSource(t, "a")}})
	s.until("a/1", catalog.StateReady, 0)
	if in, out := s.b.pools[0].gpus[0].device.Stats().Batches.Load(), s.b.pools[0].gpus[1].device.Stats().Batches.Load(); in != 0 || out == 0 {
		t.Errorf("%d batches ran on a GPU of a sub-cluster, %d on the other one", in, out)
	}
}

// What libraries leave on a GPU is no model's weight, whichever GPU loads first, and after a loss.
func TestLibrariesAreNoWeight(t *testing.T) {
	d := fakecuda.New(fakecuda.Config{GPUs: make([]cuda.Info, 2), Libraries: 100 << 20})
	b, _ := onFakes(t, d, fakecuda.Kernels{"a": steady(1 << 20), "b": steady(1 << 20)})
	b.cfg.ProfileDir = t.TempDir()
	models := gpuRepository(t, map[string]string{"a": "device_type: cuda\n", "b": "device_type: cuda\n"})
	p, err := b.buildPool(t.Context(), PoolConfig{Kind: KindCUDA, Paged: &Paged{Page: 1 << 20, Pages: 10}}, models)
	if err != nil {
		t.Fatal(err)
	}
	defer ended(t, b, p, d)
	l := p.loader.(*pagedCUDALoader)
	for i := range p.specs {
		if n := p.specs[i].WeightsBytes; n < 1<<20 || n > 2<<20 {
			t.Errorf("%s weighs %d", p.specs[i].Key(), n)
		}
	}
	for k, g := range p.gpus {
		if n, err := g.device.Load(t.Context(), 0, gpuModel(&models[0], &p.cfg)); err != nil || n > 2<<20 {
			t.Errorf("GPU %d: its first model takes %d: %v", k, n, err)
		}
	}
	g := p.gpus[0]
	g.device.Fail(cuda.ErrLost)
	eventually(t, "all is given back", func() bool { return g.device.Released() == nil })
	c, err := d.Open(0)
	if err == nil {
		err = g.device.Reopen(c)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := models[1]
	a, err := l.bring(t.Context(), &m, p.gpus[:1])
	if err != nil || a.Bytes > 2<<20 {
		t.Fatalf("%+v, %v", a, err)
	}
	a.end()
}

// A model's file is in memory from its weighing until nobody has the model any more, and is read once; of one that is refused it goes.
func TestFilesAreGivenBack(t *testing.T) {
	d := fakecuda.New(fakecuda.Config{})
	b, _ := onFakes(t, d, fakecuda.Kernels{"a": steady(1 << 20), "huge": steady(90 << 20)})
	b.cfg.ProfileDir = t.TempDir()
	models := gpuRepository(t, map[string]string{"a": "device_type: cuda\n", "huge": "device_type: cuda\n"})
	p, err := b.buildPool(t.Context(), PoolConfig{Kind: KindCUDA, Paged: &Paged{Page: 1 << 20, Pages: 10}}, models[:1])
	if err != nil {
		t.Fatal(err)
	}
	defer ended(t, b, p, d)
	l := p.loader.(*pagedCUDALoader)
	p.stock = newStock(b, p, 0)
	defer p.stock.stop()
	var refused *repository.Model
	for i := range models {
		if models[i].Spec.Name == "huge" {
			refused = &models[i]
		}
	}
	if err := l.check(t.Context(), refused); !errors.Is(err, errRoom) || len(l.files) != 1 {
		t.Errorf("%d files are kept: %v", len(l.files), err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.check(canceled, refused); !errors.Is(err, context.Canceled) || len(l.files) != 1 {
		t.Errorf("%d files are kept: %v", len(l.files), err)
	}
	late := *refused
	late.Path = p.built[0].Path
	late.Spec.Name = "a"
	kept := l.files[late.Path]
	if err := l.check(t.Context(), &late); err != nil || l.files[late.Path] != kept || kept.uses != 2 {
		t.Errorf("kept %+v: %v", l.files, err)
	}
	file := kept.File
	l.unload(0, 0)
	if file.Bytes() == nil {
		t.Error("the file of a model that is kept is gone")
	}
	l.forget(&late)
	if len(l.files) != 0 || file.Bytes() != nil {
		t.Errorf("the file stays: %+v", l.files)
	}
}

// Turns are one at a time for each GPU, go to the better one, and end with who waits.
func TestWeighings(t *testing.T) {
	a, b := &gpu{budget: 1}, &gpu{budget: 2}
	larger := func(a, b *gpu) int { return int(b.budget - a.budget) }
	w := weighings{busy: map[*gpu]bool{}, freed: make(chan struct{})}
	both := []*gpu{a, b}
	for _, want := range []*gpu{b, a} {
		if g, err := w.take(t.Context(), both, larger); g != want || err != nil {
			t.Fatalf("%+v, %v", g, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if g, err := w.take(ctx, both, larger); err == nil {
		t.Errorf("two have %+v", g)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			g, err := w.take(t.Context(), both, larger)
			if err != nil {
				t.Error(err)
				return
			}
			w.leave(g)
		})
	}
	w.leave(a)
	w.leave(b)
	all.Wait()
}
