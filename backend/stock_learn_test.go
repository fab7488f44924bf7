//go:build cgo

package backend

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// learner is a backend of CPU devices that keeps profiles in dir, and has one model with a profile that is given.
func learner(t *testing.T, dir string, given mono.Dur) *stocking {
	s := onCPU(t)
	s.b.cfg.ProfileDir = dir // nothing reads it before a model comes
	s.admitted(100)
	m := onnxSource(t, "m", reshaperConfig, reshaper(0))
	m.Profile = &catalog.Profile{Table: []mono.Dur{given, given}}
	s.keep(catalog.Keep{Device: 0, In: "east", Load: []catalog.Source{m}})
	s.until("m/1", catalog.StateReady, 0)
	return s
}

// alone is what the scheduler was told last that the model takes for one.
func (s *stocking) alone() mono.Dur {
	spec := s.last("m/1").Spec
	if spec == nil {
		return 0
	}
	return spec.Profile.Alone()
}

// TestProfileIsLearnt: runs of 20 ms correct a profile of 2 us. The scheduler is told, the model is served all the
// while, and the next start begins with what was learnt.
func TestProfileIsLearnt(t *testing.T) {
	dir := t.TempDir()
	s := learner(t, dir, 2*mono.Microsecond)
	counters := s.b.pools[0].countersOf(0)
	stop := make(chan struct{})
	go func() {
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-tick.C:
				counters.ran.add(1, 20*mono.Millisecond)
			case <-stop:
				return
			}
		}
	}()
	s.wait("a profile that was learnt", func() bool { return s.alone() == 20*mono.Millisecond })
	stored := func() (doc struct {
		Profile catalog.Profile
		Learnt  *profiler.Learnt
	}) {
		text, err := os.ReadFile(filepath.Join(dir, "m", "profiles", "c-v1.json"))
		if err == nil {
			err = json.Unmarshal(text, &doc)
		}
		if err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
		return doc
	}
	s.wait("it on disk", func() bool {
		got := stored()
		return got.Learnt != nil && got.Learnt.Runs > 0 && got.Learnt.Largest == 1 && got.Profile.Alone() == 20*mono.Millisecond
	})
	close(stop)
	if len(s.log.about("the profile is corrected", "m/1")) == 0 {
		t.Error("nobody was told")
	}
	all, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	steps := 0.0
	for _, f := range all {
		if f.GetName() == "symphony_backend_profile_corrections_total" {
			steps += f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	if steps < 3 {
		t.Errorf("%v corrections are counted, of a profile that was 10,000 times too short", steps)
	}
	for _, told := range s.stocks() {
		if told.Key == "m/1" && len(told.Devices) == 0 && told.State != catalog.StateLoading && told.State != catalog.StateFetching && told.State != catalog.StateMeasuring {
			t.Errorf("it was not served meanwhile: %+v", told)
		}
	}
	s.end()

	s = learner(t, dir, 2*mono.Microsecond) // what is stored here goes before what an order brings
	defer s.end()
	if got := s.alone(); got != 20*mono.Millisecond {
		t.Errorf("the next start begins with %v, not with what was learnt", got)
	}
}

// TestHopelessProfileIsMeasured: by its profile no request can be served, so none would run and show that it is wrong.
func TestHopelessProfileIsMeasured(t *testing.T) {
	s := learner(t, t.TempDir(), 20*mono.Second)
	defer s.end()
	s.wait("a profile that was measured", func() bool { l := s.alone(); return l > 0 && l < 50*mono.Millisecond })
	if len(s.log.about("it is measured again", "m/1")) == 0 {
		t.Error("nobody was told")
	}
}
