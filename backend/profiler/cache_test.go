package profiler

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// storedKey is a key whose profile is stored.
func storedKey(t *testing.T) (key Key, path string) {
	t.Helper()
	dir := t.TempDir()
	model := filepath.Join(dir, "model.onnx")
	if err := os.WriteFile(model, []byte("weights"), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Table([]mono.Dur{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	key = Key{ModelPath: model, Dir: dir, Version: "1", Runtime: "r", Device: "cpu", Threads: 1, MaxBatch: 3, Host: Host{CPU: "fast", Processors: 8}}
	if _, err := Read(key); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before it was written: %v", err)
	}
	if path, err = Write(key, &Result{Profile: p}); err != nil {
		t.Fatal(err)
	}
	return key, path
}

// A stored profile is found again for the same file, library, setting and host only, and
// what differs is said.
func TestCache(t *testing.T) {
	key, path := storedKey(t)
	if doc, err := Read(key); err != nil || !slices.Equal(doc.Table, []mono.Dur{1, 2, 3}) {
		t.Errorf("%v, %v", doc, err)
	}
	for want, change := range map[Mismatch]func(*Key){
		{"runtime", "r", "other"}:          func(k *Key) { k.Runtime = "other" },
		{"threads", "1", "2"}:              func(k *Key) { k.Threads = 2 },
		{"max_batch", "3", "4"}:            func(k *Key) { k.MaxBatch = 4 },
		{"CPU", "fast", "slow"}:            func(k *Key) { k.Host.CPU = "slow" },
		{"number of processors", "8", "2"}: func(k *Key) { k.Host.Processors = 2 },
	} {
		k := key
		change(&k)
		var m *Mismatch
		if _, err := Read(k); !errors.As(err, &m) || *m != want || !strings.Contains(err.Error(), want.Here) {
			t.Errorf("%v, want %+v", err, want)
		}
	}
	k := key
	k.Device = "gpu"
	if _, err := Read(k); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("another device: %v", err)
	}
	if err := os.WriteFile(key.ModelPath, []byte("other weights"), 0o644); err != nil {
		t.Fatal(err)
	}
	var m *Mismatch
	if _, err := Read(key); !errors.As(err, &m) || m.Field != "model file" {
		t.Errorf("another file: %v", err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(key); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("half a file: %v", err)
	}
}

// On a GPU what it is and how the model runs there belongs to the profile, too.
func TestCacheOfGPU(t *testing.T) {
	key, _ := storedKey(t)
	key.Host, key.Threads = Host{}, 0
	key.GPU = GPU{Product: "G", Driver: "CUDA 13.0", Power: "700 W", Precision: "fp16", Provider: "cuda", Sizes: []int{1, 3}}
	p, err := profile.Table([]mono.Dur{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Write(key, &Result{Profile: p}); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(key); err != nil {
		t.Error(err)
	}
	for want, change := range map[Mismatch]func(*GPU){
		{"GPU", "G", "H"}:                    func(g *GPU) { g.Product = "H" },
		{"driver", "CUDA 13.0", "CUDA 13.1"}: func(g *GPU) { g.Driver = "CUDA 13.1" },
		{"power limit", "700 W", "350 W"}:    func(g *GPU) { g.Power = "350 W" },
		{"precision", "fp16", "tf32"}:        func(g *GPU) { g.Precision = "tf32" },
		{"provider", "cuda", "tensorrt"}:     func(g *GPU) { g.Provider = "tensorrt" },
		{"CUDA graphs", "", "on"}:            func(g *GPU) { g.Graphs = "on" },
		{"batch sizes", "1 3", "1 2 3"}:      func(g *GPU) { g.Sizes = []int{1, 2, 3} },
	} {
		k := key
		change(&k.GPU)
		var m *Mismatch
		if _, err := Read(k); !errors.As(err, &m) || *m != want {
			t.Errorf("%v, want %+v", err, want)
		}
	}
}

// Where the power's limit is not known, it is no reason to measure anew.
func TestCacheWithoutPower(t *testing.T) {
	key, _ := storedKey(t)
	key.GPU.Power = "700 W"
	if _, err := Read(key); err != nil {
		t.Error(err)
	}
}

// A file of before profiles knew their host is of no known host.
func TestCacheWithoutHost(t *testing.T) {
	key, path := storedKey(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil || doc["cpu"] != "fast" || doc["processors"] != 8.0 {
		t.Fatalf("%v, %v", doc, err)
	}
	delete(doc, "cpu")
	delete(doc, "processors")
	if text, err = json.Marshal(doc); err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	var m *Mismatch
	if _, err := Read(key); !errors.As(err, &m) || *m != (Mismatch{"CPU", "", "fast"}) {
		t.Errorf("%v", err)
	}
	key.Host = Host{} // what does not run on this host's processors
	if _, err := Read(key); err != nil {
		t.Errorf("no host here either: %v", err)
	}
}
