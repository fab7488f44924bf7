//go:build cgo

package backend

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A paged pool of this host's processors makes sessions as it is told, of its own models and of those that are
// ordered later, and ends them.
func TestPagedCPU(t *testing.T) {
	library := needONNX(t)
	models := loadReshapers(t, map[string]byte{"good": 0, "bad": 1})
	dir := filepath.Dir(models[0].Dir)
	late := loadReshapers(t, map[string]byte{"late": 0})[0]
	s := newStocking(t, func(cfg *Config) {
		cfg.ONNXRuntime, cfg.Repository, cfg.ProfileDir = library, dir, t.TempDir()
		cfg.Pools[0] = PoolConfig{DeviceType: "cpu", Kind: KindCPU, Devices: 2, Paged: &Paged{Page: 64 << 20, Pages: 1}}
	})
	defer s.end()
	s.mu.Lock()
	p := s.info.Pools[0]
	s.mu.Unlock()
	spec := s.b.pools[0].spec(0)
	if p.Paged == nil || p.Paged.Pages != 1 || spec == nil || spec.Name != "good" || spec.WeightsBytes <= 0 || spec.LoadTime <= 0 || spec.Profile.Alpha+spec.Profile.Beta <= 0 && spec.Profile.Table == nil {
		t.Fatalf("%+v, %+v", p, spec)
	}
	s.admitted(100)
	s.bindAll(3, 1)
	if l := s.until("bad/1", catalog.StateFailed); l.Error == "" {
		t.Errorf("%+v", l)
	}
	s.keep(catalog.Keep{Device: 1, Load: []catalog.Source{{Name: "late", Version: "1", URL: "file://" + late.Dir}}})
	if l := s.until("late/1", catalog.StateReady, 1); l.Spec.WeightsBytes <= 0 || l.Spec.LoadTime <= 0 {
		t.Errorf("%+v", l.Spec)
	}
	s.bindTo(map[string]wire.ModelID{"late/1": 4})
	send := func(m *wire.Load) { _ = s.control().Send(m.Append(nil)) }
	id := wire.BatchID(0)
	for turn := range 3 {
		for k, model := range []wire.ModelID{3, 4} { // there is room for one at a time
			gen := wire.Generation(10*turn + k + 1)
			load := wire.LoadID(2 * gen)
			send(loadOf(100, load, 1, model, gen))
			if l := s.loaded(load); l.Reason != wire.ReasonNone || l.Free != 0 || l.Copied == 0 || l.End <= l.Start {
				t.Errorf("%+v", l)
			}
			id++
			if d := s.runWith(100, id, 1, model, gen, 16); d.Ran != 1 || d.Reason != wire.ReasonNone {
				t.Errorf("%+v", d)
			}
			send(loadOf(100, load+100, 1, 7-model, gen+1))
			if l := s.loaded(load + 100); l.Reason != wire.ReasonMemory {
				t.Errorf("there is no room, and it is loaded: %+v", l)
			}
			send(unloadOf(100, load+1, 1, model, gen))
			s.loaded(load + 1)
			id++
			if d := s.runWith(100, id, 1, model, gen, 16); d.Reason != wire.ReasonCold {
				t.Errorf("%+v", d)
			}
		}
	}
	s.keep(catalog.Keep{Device: 1, Unload: []string{"late/1"}})
	s.until("late/1", catalog.StateGone)
	if l, ok := s.b.pools[0].loader.(*pagedCPULoader); !ok || len(l.blobs) != 1 {
		t.Errorf("files of models that are gone stay in memory: %+v", l)
	}
	if len(s.log.about("could not be loaded")) != 0 {
		t.Errorf("log:\n%s", strings.Join(s.log.about(""), "\n"))
	}
}
