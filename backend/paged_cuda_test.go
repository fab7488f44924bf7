package backend

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// seenRuntime notes what is loaded of which bytes, and may hold loads up.
type seenRuntime struct {
	*fakecuda.Runtime

	mu    sync.Mutex
	loads map[string]int
	files map[string]*cuda.File // of models; the last one
	graph map[string]cuda.Graphs
	holds chan struct{} // not nil: loads wait for its end
	held  int           // so many do
}

func (r *seenRuntime) Load(c cuda.Context, s cuda.Stream, m *cuda.Model) (cuda.Program, error) {
	r.mu.Lock()
	r.loads[m.Spec.Name]++
	r.files[m.Spec.Name], r.graph[m.Spec.Name] = m.File, m.Graphs
	holds := r.holds
	if holds != nil {
		r.held++
	}
	r.mu.Unlock()
	if holds != nil {
		<-holds
	}
	if m.Spec.Name == "plain" && m.Graphs != cuda.GraphsOff {
		return nil, fmt.Errorf("%w: it waits for the device", cuda.ErrCapture)
	}
	return r.Runtime.Load(c, s, m)
}

// hold has loads wait for the end of what it returns.
func (r *seenRuntime) hold() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds, r.held = make(chan struct{}), 0
	return r.holds
}

func (r *seenRuntime) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.holds)
	r.holds = nil
}

func (r *seenRuntime) of(model string) (loads int, f *cuda.File, g cuda.Graphs) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loads[model], r.files[model], r.graph[model]
}

// onPagedGPUs is a backend whose two GPUs have pages of 1 MiB, and the models of a folder.
func onPagedGPUs(t *testing.T, pages int, k fakecuda.Kernels, names ...string) (*stocking, *fakecuda.Driver, *seenRuntime) {
	t.Helper()
	d := fakecuda.New(fakecuda.Config{GPUs: []cuda.Info{{Name: "NVIDIA T1", Memory: 64 << 20}, {Name: "NVIDIA T1", Memory: 64 << 20}}})
	r := &seenRuntime{Runtime: fakecuda.NewRuntime(k), loads: map[string]int{}, files: map[string]*cuda.File{}, graph: map[string]cuda.Graphs{}}
	dir := t.TempDir()
	for _, name := range names {
		if err := os.Rename(strings.TrimPrefix(gpuSource(t, name).URL, "file://"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := newStocking(t, func(c *Config) {
		c.Profiling, c.ProfileDir = profiler.Options{Warmup: 1, Rounds: 2}, t.TempDir()
		c.Pools[0] = PoolConfig{DeviceType: "g", Kind: KindCUDA, Models: names, Paged: &Paged{Page: 1 << 20, Pages: pages}}
		c.GPUs = &GPUs{Driver: d, Runtime: func() (cuda.Runtime, string, error) { return r, "fake 1", nil }}
		if len(names) > 0 {
			c.Repository = dir
		}
	})
	return s, d, r
}

// ends closes a backend and looks for what is left on its GPUs.
func ends(t *testing.T, s *stocking, d *fakecuda.Driver) {
	t.Helper()
	s.end()
	if c := d.Counts(); c != (fakecuda.Counts{}) {
		t.Errorf("left open: %+v", c)
	}
	for _, err := range d.Misused() {
		t.Error(err)
	}
}

// holding waits until the GPUs hold so many programs.
func (s *stocking) holding(d *fakecuda.Driver, programs int) {
	s.t.Helper()
	s.wait(fmt.Sprintf("%d programs", programs), func() bool { return d.Counts().Programs == programs })
}

// The models of a paged pool of GPUs are weighed and measured at the start, and then no GPU has any; what is ordered is loaded
// there, of the bytes in memory, runs, and goes again with all its memory. One that cannot be loaded, or is too large, is refused with
// the reason.
func TestPagedGPUs(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, d, r := onPagedGPUs(t, 5, fakecuda.Kernels{"a": steady(2 << 20), "huge": steady(7 << 20), "plain": steady(2 << 20)}, "a", "broken", "huge", "plain")
	defer ends(t, s, d)
	s.mu.Lock()
	p := s.info.Pools[0]
	s.mu.Unlock()
	if p.Paged == nil || *p.Paged != (catalog.Paged{Page: 1 << 20, Pages: 5}) || p.Devices != 2 || len(p.Held) != 2 || len(p.Held[0])+len(p.Held[1]) != 0 || p.CannotPage != "" {
		t.Errorf("introduced as %+v", p)
	}
	for slot, name := range []string{"a", "plain"} {
		spec := s.b.pools[0].spec(slot)
		if spec == nil || spec.Name != name || spec.WeightsBytes < 2<<20 || spec.WeightsBytes > 3<<20 || spec.LoadTime < 10*mono.Millisecond || len(spec.Profile.Table) != 8 {
			t.Fatalf("slot %d: %+v", slot, spec)
		}
	}
	if c := d.Counts(); c.Programs != 0 || len(s.log.about("weighed", `"pages":3`)) != 2 {
		t.Errorf("at the start: %+v, log:\n%s", c, strings.Join(s.log.about(""), "\n"))
	}
	s.admitted(100)
	s.bindAll(10, 2)
	if l := s.until("broken/1", catalog.StateFailed); !strings.Contains(l.Error, `no kernel "broken"`) {
		t.Errorf("%+v", l)
	}
	if l := s.until("huge/1", catalog.StateFailed); !strings.Contains(l.Error, "8 pages, and a device has 5: raise paged.pages") {
		t.Errorf("%+v", l)
	}
	send := func(m *wire.Load) { _ = s.control().Send(m.Append(nil)) }
	if d := s.runWith(100, 1, 1, 10, 1, 32); d.Reason != wire.ReasonCold {
		t.Errorf("without weights: %+v", d)
	}
	before, file, _ := r.of("a")
	send(loadOf(100, 1, 1, 10, 1))
	if l := s.loaded(1); l.Reason != wire.ReasonNone || l.Free != 2 || l.Copied < 2<<20 || l.End.Sub(l.Start) < mono.Millisecond {
		t.Errorf("%+v", l)
	}
	if n, f, _ := r.of("a"); n != before+1 || f != file || f == nil || string(f.Bytes()) != "a" {
		t.Errorf("loaded %d times of %v", n-before, f)
	}
	if d := s.runWith(100, 2, 1, 10, 1, 32); d.Ran != 1 || d.Reason != wire.ReasonNone {
		t.Errorf("%+v", d)
	}
	send(loadOf(100, 2, 1, 11, 2))
	if l := s.loaded(2); l.Reason != wire.ReasonMemory {
		t.Errorf("there is no room, and it is loaded: %+v", l)
	}
	send(unloadOf(100, 3, 1, 10, 1))
	before, _, _ = r.of("plain")
	send(loadOf(100, 4, 1, 11, 3))
	if l := s.loaded(4); l.Reason != wire.ReasonNone {
		t.Errorf("%+v", l)
	}
	if n, _, g := r.of("plain"); n != before+1 || g != cuda.GraphsOff { // it was found out when it was weighed
		t.Errorf("loaded %d times, at last with graphs %q", n-before, g)
	}
	if d := s.runWith(100, 3, 1, 10, 1, 32); d.Reason != wire.ReasonCold {
		t.Errorf("%+v", d)
	}
	if d := s.runWith(100, 4, 1, 11, 3, 32); d.Ran != 1 {
		t.Errorf("%+v", d)
	}
	s.holding(d, 1)
	send(unloadOf(100, 5, 1, 11, 3))
	s.loaded(5)
	s.holding(d, 0)
	if n := s.b.pools[0].gpus[1].device.Stats().Memory.Load(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}

// A GPU that is lost comes back without models, also where one was being loaded: its scheduler hears that it is out of service and
// back, and nothing of the load.
func TestPagedGPUIsLost(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, d, r := onPagedGPUs(t, 8, fakecuda.Kernels{"a": steady(2 << 20), "b": steady(2 << 20), "late": steady(1 << 20)}, "a", "b")
	defer ends(t, s, d)
	s.admitted(100)
	s.bindAll(10, 2)
	send := func(m *wire.Load) { _ = s.control().Send(m.Append(nil)) }
	send(loadOf(100, 1, 1, 10, 1))
	s.loaded(1)
	r.hold()
	send(loadOf(100, 2, 1, 11, 2))
	eventually(t, "a load", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.held == 1 })
	d.GPU(1).Lose()
	s.b.pools[0].gpus[1].device.Fail(cuda.ErrLost)
	r.release()
	s.wait("the GPU is out of service, and back", func() bool { n, works := s.services(); return n == 2 && works })
	e := s.b.pools[0].executors[1]
	if free, all := e.Pages(); free != all || len(e.Held()) != 0 || d.Counts().Programs != 0 {
		t.Errorf("it is back with %d of %d pages free, %+v, %+v", free, all, e.Held(), d.Counts())
	}
	if d := s.runWith(100, 1, 1, 10, 1, 32); d.Reason != wire.ReasonCold {
		t.Errorf("%+v", d)
	}
	for k, model := range []wire.ModelID{11, 10} {
		load, gen := wire.LoadID(3+k), wire.Generation(3+k)
		send(loadOf(100, load, 1, model, gen))
		if l := s.loaded(load); l.Reason != wire.ReasonNone {
			t.Errorf("%+v", l)
		}
		if d := s.runWith(100, wire.BatchID(2+k), 1, model, gen, 32); d.Ran != 1 {
			t.Errorf("%+v", d)
		}
	}
	s.mu.Lock()
	for _, l := range s.loads {
		if l.Load == 2 {
			t.Errorf("a load of the life before is reported: %+v", l)
		}
	}
	s.mu.Unlock()
	d.GPU(0).Vanish()
	s.b.pools[0].gpus[0].device.Fail(cuda.ErrLost)
	s.keep(catalog.Keep{Device: 1, Load: []catalog.Source{gpuSource(t, "late")}})
	s.until("late/1", catalog.StateReady, 1) // weighed by the one that is there
	held := s.again(1)
	if len(held) != 2 {
		t.Errorf("a new link is told that it holds %+v", held)
	}
}

// A GPU of a paged pool has nothing of what it had when it comes back, whatever its executor had unloaded by then.
func TestPagedGPUForgets(t *testing.T) {
	d := fakecuda.New(fakecuda.Config{})
	b, _ := onFakes(t, d, fakecuda.Kernels{"a": steady(1 << 20)})
	models := gpuRepository(t, map[string]string{"a": "device_type: cuda\n"})
	p, err := b.buildPool(t.Context(), PoolConfig{Kind: KindCUDA, Paged: &Paged{Page: 1 << 20, Pages: 10}}, models)
	if err != nil {
		t.Fatal(err)
	}
	defer ended(t, b, p, d)
	g := p.gpus[0]
	if n, err := g.device.Load(t.Context(), 0, gpuModel(&models[0], &p.cfg)); err != nil || g.device.Held(0) != n {
		t.Fatal(n, err)
	}
	g.device.Fail(cuda.ErrLost)
	eventually(t, "all is given back", func() bool { return g.device.Released() == nil })
	c, err := d.Open(0)
	if err == nil {
		err = g.device.Reopen(c)
	}
	if err != nil || g.device.Held(0) != 0 || d.Counts().Programs != 0 {
		t.Errorf("it is back with %d bytes, %+v: %v", g.device.Held(0), d.Counts(), err)
	}
}

// Models come to a paged pool of GPUs that has none: they are weighed and measured beside those that are loaded, in the memory that
// pages leave, and go with their weights. One that has no room there is refused, and says what to do, also while no page is taken.
func TestPagedGPUModelsComeAndGo(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, d, r := onPagedGPUs(t, 29, fakecuda.Kernels{"a": steady(2 << 20), "b": steady(2 << 20), "large": steady(60 << 20), "wide": steady(29 << 20), "fills": steady(25 << 20), "other": steady(25 << 20)})
	defer ends(t, s, d)
	s.admitted(100)
	s.keep(catalog.Keep{Device: 1, Load: []catalog.Source{gpuSource(t, "a")}})
	got := s.until("a/1", catalog.StateReady, 1)
	if sp := got.Spec; sp.WeightsBytes < 2<<20 || sp.LoadTime < 10*mono.Millisecond || len(sp.Profile.Table) != 8 || sp.Profile.Table[0] < mono.Millisecond {
		t.Errorf("told %+v", sp)
	}
	s.holding(d, 0)
	fills := gpuSource(t, "fills")
	s.keep(catalog.Keep{Device: 0, Load: []catalog.Source{fills}})
	s.keep(catalog.Keep{Device: 1, Load: []catalog.Source{fills, gpuSource(t, "large"), gpuSource(t, "wide")}})
	s.until("fills/1", catalog.StateReady, 0, 1)
	for _, key := range []string{"large/1", "wide/1"} {
		if l := s.until(key, catalog.StateFailed); !strings.Contains(l.Error, "does not fit on GPU") || !strings.Contains(l.Error, "leave a GPU room for it with fewer pages") {
			t.Errorf("%+v", l)
		}
	}
	s.bindTo(map[string]wire.ModelID{"a/1": 1, "fills/1": 2})
	send := func(m *wire.Load) { _ = s.control().Send(m.Append(nil)) }
	send(loadOf(100, 1, 1, 1, 1))
	send(loadOf(100, 2, 1, 2, 2))
	send(loadOf(100, 3, 0, 2, 3))
	for load := range wire.LoadID(3) {
		if l := s.loaded(load + 1); l.Reason != wire.ReasonNone {
			t.Errorf("%+v", l)
		}
	}
	if d := s.runWith(100, 1, 1, 1, 1, 32); d.Ran != 1 {
		t.Errorf("%+v", d)
	}
	s.keep(catalog.Keep{Device: 0, Load: []catalog.Source{gpuSource(t, "b")}}) // beside these
	s.keep(catalog.Keep{Device: 1, Load: []catalog.Source{gpuSource(t, "other")}})
	s.until("b/1", catalog.StateReady, 0)
	s.until("other/1", catalog.StateReady, 1)
	if d := s.runWith(100, 2, 1, 2, 2, 32); d.Ran != 1 {
		t.Errorf("%+v", d)
	}
	send(unloadOf(100, 4, 1, 2, 2))
	s.keep(catalog.Keep{Device: 1, Unload: []string{"a/1", "large/1", "wide/1", "fills/1", "other/1"}})
	s.keep(catalog.Keep{Device: 0, Unload: []string{"b/1", "fills/1"}})
	for _, key := range []string{"a/1", "large/1", "wide/1", "fills/1", "b/1", "other/1"} {
		s.until(key, catalog.StateGone)
	}
	s.holding(d, 0)
	if free, all := s.b.pools[0].executors[1].Pages(); free != all {
		t.Errorf("%d of %d pages are free", free, all)
	}
	if l := s.b.pools[0].loader.(*pagedCUDALoader); len(l.files) != 0 {
		t.Errorf("files of models that are gone stay in memory: %v", l.files)
	}
	if n, f, _ := r.of("a"); n != 4 && n != 5 || f == nil || f.Bytes() != nil { // for nothing, to be weighed, to be measured, by order; and where it was the first on the other GPU, too
		t.Errorf("loaded %d times of %v, which has %q", n, f, f.Bytes())
	}
}

// A backend that ends while its GPUs load gives all back.
func TestPagedGPUsEndInALoad(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, d, r := onPagedGPUs(t, 8, fakecuda.Kernels{"a": steady(2 << 20)}, "a")
	s.admitted(100)
	s.bindAll(10, 1)
	r.hold()
	for device := range 2 {
		_ = s.control().Send(loadOf(100, wire.LoadID(1+device), device, 10, 1).Append(nil))
	}
	eventually(t, "two loads", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.held == 2 })
	time.AfterFunc(20*time.Millisecond, r.release)
	ends(t, s, d)
}

// holdOn has another process take memory of each GPU, until the end that it returns.
func holdOn(t *testing.T, d *fakecuda.Driver, bytes int64) (end func()) {
	t.Helper()
	if bytes == 0 {
		return func() {}
	}
	var ends []func() error
	for i := range 2 {
		c, err := d.Open(i)
		if err != nil {
			t.Fatal(err)
		}
		var at cuda.Ptr
		if err := cuda.On(c, func() error { at, err = c.Alloc(bytes); return err }); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, func() error { return errors.Join(cuda.On(c, func() error { return c.Free(at) }), c.Close()) })
	}
	return func() {
		for _, end := range ends {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Pages that a GPU has no room for are refused, and say what to do: the GPU alone where others have it. A pool of GPUs becomes paged
// by no lack of room, and says how it does.
func TestPagesOfGPUs(t *testing.T) {
	models := gpuRepository(t, map[string]string{"a": "device_type: cuda\n"})
	for name, c := range map[string]struct {
		small []int // GPUs that have less memory
		busy  int64 // bytes of each that other processes have
		cfg   PoolConfig
		gpus  int // 0: it fails
		says  string
	}{
		"all have room":      {cfg: PoolConfig{Paged: &Paged{Page: 1 << 20, Pages: 921}}, gpus: 2, says: "weighed"},
		"none has":           {cfg: PoolConfig{Paged: &Paged{Page: 1 << 20, Pages: 922}}, says: "paged: 922 pages of 1.0 MiB are 922.0 MiB, and GPU 0 has 921.6 MiB for models: lower paged.pages"},
		"one has":            {small: []int{1}, cfg: PoolConfig{Paged: &Paged{Page: 1 << 20, Pages: 500}}, gpus: 1, says: "and GPU 1 has 460.8 MiB for models"},
		"another has it":     {busy: 400 << 20, cfg: PoolConfig{Memory: 900 << 20, Paged: &Paged{Page: 1 << 20, Pages: 800}}, says: "800 pages of 1.0 MiB are 800.0 MiB, and GPU 0 has 624.0 MiB for models"},
		"far too many":       {cfg: PoolConfig{Paged: &Paged{Page: 1 << 60, Pages: 64}}, says: "are 70368744177664.0 MiB"},
		"fewer than memory":  {cfg: PoolConfig{Memory: 900 << 20, Paged: &Paged{Page: 1 << 20, Pages: 500}}, gpus: 2, says: "weighed"},
		"memory has none":    {cfg: PoolConfig{Memory: 99 << 20, Paged: &Paged{Page: 1 << 20, Pages: 100}}, says: "GPU 0 has 99.0 MiB"},
		"resident, no room":  {cfg: PoolConfig{Memory: 1 << 20, Page: 1 << 20}, says: "does not fit on GPU 0"},
		"no model, no shelf": {cfg: PoolConfig{Models: []string{}, DeviceType: "x", Paged: &Paged{Page: 1 << 20, Pages: 10}}, says: "has no model"},
	} {
		t.Run(name, func(t *testing.T) {
			d := fakecuda.New(fakecuda.Config{GPUs: make([]cuda.Info, 2)})
			for _, i := range c.small {
				d.GPU(i).SetMemory(512 << 20)
			}
			others := holdOn(t, d, c.busy)
			b, log := onFakes(t, d, fakecuda.Kernels{"a": steady(1 << 20)})
			b.cfg.ProfileDir = t.TempDir()
			c.cfg.Kind = KindCUDA
			own := models
			if c.cfg.DeviceType == "x" {
				own = nil
			}
			p, err := b.buildPool(t.Context(), c.cfg, own)
			defer func() {
				others()
				ended(t, b, p, d)
			}()
			said := log.String()
			if err != nil {
				said += err.Error()
			}
			if (err == nil) != (c.gpus > 0) || !strings.Contains(said, c.says) {
				t.Fatalf("%v; %q is missing in\n%s", err, c.says, said)
			}
			if err == nil && (len(p.gpus) != c.gpus || p.doc.Devices != c.gpus || p.doc.Paged == nil || len(p.specs) != 1) {
				t.Errorf("%d GPUs, %+v", len(p.gpus), p.doc)
			}
		})
	}
	cfg := PoolConfig{Kind: KindCUDA, Memory: 1, Page: 1}
	if why, err := cfg.pageIfNeeded([]repository.Model{{Static: 1 << 30, Spec: catalog.ModelSpec{Platform: repository.PlatformONNX}}}); cfg.Paged != nil || why != "" || err != nil {
		t.Errorf("a pool of GPUs is paged by itself: %q, %v", why, err)
	}
	if why := cfg.cannotPage(); !strings.Contains(why, "give it paged") {
		t.Errorf("it cannot be paged because %q", why)
	}
	cfg.Paged = &Paged{Page: 1, Pages: 1}
	if why := cfg.cannotPage(); why != "" || cfg.checkPaged() != nil {
		t.Errorf("a paged pool of GPUs cannot be paged because %q, %v", why, cfg.checkPaged())
	}
}

// Where the first GPU is lost while models are weighed at the start, the start fails, as for a resident pool: nobody would bring
// the GPU back.
func TestPagedGPUIsLostAtTheStart(t *testing.T) {
	d := fakecuda.New(fakecuda.Config{GPUs: make([]cuda.Info, 2)})
	b, _ := onFakes(t, d, fakecuda.Kernels{"a": steady(1 << 20)})
	d.GPU(0).FailKernel()
	p, err := b.buildPool(t.Context(), PoolConfig{Kind: KindCUDA, Paged: &Paged{Page: 1 << 20, Pages: 10}}, gpuRepository(t, map[string]string{"a": "device_type: cuda\n"}))
	if err == nil || !strings.Contains(err.Error(), "model a/1: ") || !strings.Contains(err.Error(), "lost") {
		t.Errorf("%v", err)
	}
	ended(t, b, p, d)
}
