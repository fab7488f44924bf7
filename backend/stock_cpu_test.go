//go:build cgo

package backend

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/shelf"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// reshaperConfig is of loadReshapers' models.
const reshaperConfig = "platform: onnxruntime\nslo: 50ms\nmax_batch: 2\n" +
	"inputs: [{name: x, type: FP32, shape: [4]}]\noutputs: [{name: y, type: FP32, shape: [4]}]\n"

func onnxSource(t *testing.T, name, config, file string) catalog.Source {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{"config.yaml": config, "1/model.onnx": file} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	digest, bytes, err := shelf.DigestOf(dir, "1")
	if err != nil {
		t.Fatal(err)
	}
	return catalog.Source{Name: name, Version: "1", URL: "file://" + dir, Digest: digest, Bytes: bytes}
}

// onCPU is a backend of two CPU devices, with a shelf.
func onCPU(t *testing.T) *stocking {
	t.Helper()
	library := needONNX(t)
	kept, err := shelf.Open(shelf.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return newStocking(t, func(c *Config) {
		c.ONNXRuntime, c.Shelf, c.Profiling = library, kept, profiler.Options{Warmup: 1, Rounds: 3}
		c.Pools[0] = PoolConfig{DeviceType: "c", Kind: KindCPU, Devices: 2, Memory: 1 << 20}
	})
}

// Real models come onto CPU devices that serve: from a folder by digest, measured in gaps or
// with the profile that is ordered; what is broken fails alone, and says why; they go again.
func TestONNXModelsComeAndGo(t *testing.T) {
	s := onCPU(t)
	defer s.end()
	s.admitted(100)
	cnn, err := os.ReadFile("../examples/digits/models/digits-cnn/1/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile("../examples/digits/models/digits-cnn/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	digits := onnxSource(t, "digits", string(config), string(cnn))
	s.keep(catalog.Keep{Device: 0, In: "east", Load: []catalog.Source{digits}})
	got := s.until("digits/1", catalog.StateReady, 0)
	if l := got.Spec.Profile.Table; len(l) != 32 || l[0] <= 0 || got.Static != int64(len(cnn)) || got.Dynamic != 32*(64+10)*4 || got.Spec.LabelsID == "" {
		t.Errorf("told %+v with %v", got, got.Spec)
	}
	s.tell(wire.DocWant, catalog.Want{Labels: got.Spec.LabelsID})
	s.wait("its labels", func() bool {
		for _, d := range s.docs {
			if d.kind == wire.DocLabels {
				labels, err := catalog.DecodeLabels(d.payload)
				return err == nil && len(labels) == 10
			}
		}
		return false
	})
	given := &catalog.Profile{Alpha: mono.Millisecond, Beta: mono.Millisecond}
	good, half := onnxSource(t, "good", reshaperConfig, reshaper(0)), onnxSource(t, "half", reshaperConfig, reshaper(1))
	good.Profile = given
	other := onnxSource(t, "other", strings.Replace(reshaperConfig, "name: x", "name: z", 1), reshaper(0))
	large := onnxSource(t, "large", reshaperConfig, strings.Repeat("x", 1<<20))
	changed := onnxSource(t, "changed", reshaperConfig, reshaper(0))
	changed.Digest = good.Digest[2:] + "00"
	s.keep(catalog.Keep{Device: 1, Load: []catalog.Source{onnxSource(t, "broken", reshaperConfig, "no model"), half, other, large, changed, good}})
	if got := s.until("good/1", catalog.StateReady, 1); got.Spec.Profile.Alpha != mono.Millisecond {
		t.Errorf("told %+v", got.Spec)
	}
	for key, want := range map[string]string{"broken/1": "model.onnx", "half/1": "Reshape", "other/1": "input", "large/1": "is free", "changed/1": "was ordered"} {
		if got := s.until(key, catalog.StateFailed); !strings.Contains(got.Error, want) {
			t.Errorf("%s: %q is missing in %q", key, want, got.Error)
		}
	}
	// Measured when that is ordered, although it has a profile.
	s.keep(catalog.Keep{Device: 1, In: catalog.Nowhere, Measure: []string{"good/1"}})
	s.wait("a profile of its own", func() bool { sp := s.last("good/1").Spec; return sp != nil && len(sp.Profile.Table) == 2 })
	s.keep(catalog.Keep{Device: 1, Load: []catalog.Source{digits}}) // the profile is there already
	s.until("digits/1", catalog.StateReady, 0, 1)
	s.bindTo(map[string]wire.ModelID{"digits/1": 3, "good/1": 4})
	for i, c := range []struct {
		device int
		model  wire.ModelID
		length uint32
	}{{0, 3, 256}, {1, 3, 256}, {1, 4, 16}} {
		now := mono.Now()
		m := wire.Batch{Epoch: 100, Batch: wire.BatchID(i), Model: c.model, Device: uint32(c.device), Exec: now, Until: now, Latest: mono.Never, Items: []wire.BatchItem{
			{Request: wire.RequestID(i), Frontend: 3, Deadline: now.Add(20 * mono.Second), Input: wire.SlabRef{Length: c.length}}}}
		_ = s.control().Send(m.Append(nil))
		s.wait("a report", func() bool { return len(s.dones) == i+1 })
		if d := s.dones[i]; d.Reason != wire.ReasonNone || d.Ran != 1 {
			t.Errorf("model %d on %d: %+v", c.model, c.device, d)
		}
	}
	s.keep(catalog.Keep{Device: 0, Unload: []string{"digits/1"}})
	s.keep(catalog.Keep{Device: 1, Unload: []string{"digits/1", "good/1", "half/1"}})
	for _, key := range []string{"digits/1", "good/1", "half/1"} {
		s.until(key, catalog.StateGone)
	}
}

// What this host has measured goes before the profile that comes with an order; that is taken
// where it has measured nothing.
func TestOwnProfileGoesFirst(t *testing.T) {
	s := onCPU(t)
	defer s.end()
	s.admitted(100)
	good := onnxSource(t, "good", reshaperConfig, reshaper(0))
	good.Profile = &catalog.Profile{Alpha: mono.Millisecond, Beta: mono.Millisecond}
	loads := func() catalog.Profile {
		s.keep(catalog.Keep{Device: 1, In: catalog.Nowhere, Load: []catalog.Source{good}})
		return s.until("good/1", catalog.StateReady, 1).Spec.Profile
	}
	if p := loads(); p.Alpha != mono.Millisecond {
		t.Fatalf("with nothing measured here: %+v", p)
	}
	s.keep(catalog.Keep{Device: 1, In: catalog.Nowhere, Measure: []string{"good/1"}})
	s.wait("a profile of its own", func() bool { sp := s.last("good/1").Spec; return sp != nil && len(sp.Profile.Table) == 2 })
	s.keep(catalog.Keep{Device: 1, Unload: []string{"good/1"}})
	s.until("good/1", catalog.StateGone)
	if p := loads(); len(p.Table) != 2 {
		t.Errorf("with a profile of its own: %+v", p)
	}
}
