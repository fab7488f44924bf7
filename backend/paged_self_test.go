package backend

import (
	"context"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"

	"github.com/rs/zerolog"
)

// tooMany gives a pool forty models of 102 MB, and memory for each device.
func tooMany(memory int64, change func(*PoolConfig)) func(*Config) {
	return func(cfg *Config) {
		p := &cfg.Pools[0]
		p.Zoo = []repository.Zoo{{CSV: "../bench/zoo/zoo_v100_clockwork.csv", Models: []string{"resnet50_v2"}, Copies: 40, SLO: 100 * mono.Millisecond}}
		p.Memory, p.Page = memory, 16<<20
		if change != nil {
			change(p)
		}
	}
}

// A pool whose own models do not fit into its devices' memory becomes paged by itself and says so; one that is to stay resident, or
// whose models fit, does not.
func TestPoolBecomesPaged(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, c := range map[string]struct {
		memory  int64
		change  func(*PoolConfig)
		pages   int // 0: it is resident
		models  int
		cannot  string
		becomes bool
	}{
		"too many":         {memory: 1 << 30, pages: 64, models: 40, becomes: true},
		"they fit":         {memory: 8 << 30, models: 40},
		"without a bound":  {memory: 0, models: 40},
		"resident":         {memory: 1 << 30, change: func(p *PoolConfig) { p.Resident = true }, models: 10, cannot: "resident: true"},
		"paged as it says": {memory: 0, change: func(p *PoolConfig) { p.Paged = &Paged{Page: 16 << 20, Pages: 70} }, pages: 70, models: 40},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newCluster(t)
			log := &lines{}
			b := cl.backend(tooMany(c.memory, c.change), func(cfg *Config) { cfg.Logger = zerolog.New(log) })
			doc := b.pools[0].doc
			if pages := pagesOf(doc.Paged); pages != c.pages || len(b.pools[0].specs) != c.models || !strings.Contains(doc.CannotPage, c.cannot) || (doc.CannotPage == "") != (c.cannot == "") {
				t.Errorf("%d pages, %d models, cannot page for %q; want %d, %d, %q", pages, len(b.pools[0].specs), doc.CannotPage, c.pages, c.models, c.cannot)
			}
			if said := len(log.about("the pool is paged", "its 40 models take", "resident: true")) == 1; said != c.becomes {
				t.Errorf("that it became paged is said: %v, want %v", said, c.becomes)
			}
			b.Close()
			cl.close()
		})
	}
}

func pagesOf(m *catalog.Paged) int {
	if m == nil {
		return 0
	}
	return m.Pages
}

// Of models that are to stay on a paged pool's devices those that do not fit beside the others are refused, and who says so says what
// to do; a memory without a page is refused.
func TestResidentModelsOfAPagedPool(t *testing.T) {
	defer goleak.VerifyNone(t)
	cl := newCluster(t)
	b := cl.backend(tooMany(0, func(p *PoolConfig) {
		p.Paged = &Paged{Page: 16 << 20, Pages: 70}
		p.Zoo[0].Resident = true
	}))
	p := b.pools[0]
	if len(p.specs) != 10 || len(p.refused) != 30 || !p.specs[9].Resident || !strings.Contains(p.refused[0].err.Error(), "11 models that are to stay on the devices (resident: true) take 77 pages of a device's 70: leave resident out of some of them") {
		t.Errorf("%d models are there, %d refused: %+v", len(p.specs), len(p.refused), p.refused[:min(1, len(p.refused))])
	}
	b.Close()
	b = cl.backend(tooMany(0, func(p *PoolConfig) { // nine that stay leave seven pages, and one of the others needs more
		p.Paged = &Paged{Page: 16 << 20, Pages: 70}
		p.Zoo = append(p.Zoo, p.Zoo[0])
		p.Zoo[0].Copies, p.Zoo[0].Resident = 9, true
		p.Zoo[1].Copies, p.Zoo[1].Models = 1, []string{"resnet101_v2"}
	}))
	p = b.pools[0]
	if len(p.specs) != 9 || len(p.refused) != 1 || !strings.Contains(p.refused[0].err.Error(), "9 models that are to stay on the devices (resident: true) take 63 pages of a device's 70, and the largest of the others ") {
		t.Errorf("%d models are there, %d refused: %+v", len(p.specs), len(p.refused), p.refused)
	}
	b.Close()
	cl.close()
	cfg := Config{Name: "b", Scheduler: "inproc:s", Network: cl.network, Pools: []PoolConfig{{DeviceType: "e", Kind: KindEmulated, Devices: 1}}}
	tooMany(1<<20, nil)(&cfg)
	if _, err := New(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), "has 0 pages of 16.0 MiB: raise the pool's memory") {
		t.Errorf("a memory without a page: %v", err)
	}
}

// A pool does not become paged for models that it does not serve: their labels are too long to tell, or its devices run none of their
// platform.
func TestRefusedModelsPageNoPool(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	for name, c := range map[string]struct{ label, static string }{"good": {"dog", "3MiB"}, "long": {strings.Repeat("x", 5000), "11MiB"}} {
		if err := os.MkdirAll(dir+"/"+name+"/1", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+name+"/config.yaml", []byte(strings.Replace(labelledModel, "dog", c.label, 1)+"memory: {static: "+c.static+"}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cl := newCluster(t)
	defer cl.close()
	b := cl.backend(func(cfg *Config) {
		cfg.Repository, cfg.Pools[0].Zoo = dir, nil
		cfg.Pools[0].Memory, cfg.Pools[0].Page = 10<<20, 1<<20
	})
	defer b.Close()
	if p := b.pools[0]; p.doc.Paged != nil || len(p.specs) != 1 || len(p.refused) != 1 {
		t.Errorf("%d models are there, %d refused, pages %+v", len(p.specs), len(p.refused), p.doc.Paged)
	}
	for _, kind := range []string{KindCPU, KindEmulated} {
		other := map[string]string{KindCPU: repository.PlatformEmulated, KindEmulated: repository.PlatformONNX}[kind]
		cfg := PoolConfig{Kind: kind, Memory: 1, Page: 1}
		m := repository.Model{Path: dir + "/long/config.yaml", Static: 7, Spec: catalog.ModelSpec{Platform: other}}
		if why, err := cfg.pageIfNeeded([]repository.Model{m}); cfg.Paged != nil || err != nil {
			t.Errorf("a pool of kind %s is paged for a model of platform %s: %q, %v", kind, other, why, err)
		}
	}
}

// What a model of files takes is what its loader reserves for it; of files that are not there nothing.
func TestSizeOf(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/model.onnx", make([]byte, 1000), 0o644); err != nil {
		t.Fatal(err)
	}
	m := repository.Model{Path: dir + "/model.onnx", Static: 7, Dynamic: 3, Spec: catalog.ModelSpec{MaxBatch: 2, Inputs: []catalog.TensorSpec{{Type: catalog.FP32, Shape: []int64{4}}}}}
	if s, d := sizeOf(&PoolConfig{Kind: KindCPU}, &m); s != 1000 || d != 32 {
		t.Errorf("of files: %d, %d", s, d)
	}
	if s, d := sizeOf(&PoolConfig{Kind: KindEmulated}, &m); s != 7 || d != 3 {
		t.Errorf("of an emulated one: %d, %d", s, d)
	}
}
