package repository

import (
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

const emulated = `platform: emulated
slo: 50ms
max_batch: 16
profile: {alpha_ms: 1, beta_ms: 5}
inputs: [{name: x, type: FP32, shape: [8]}]
outputs: [{name: y, type: FP32, shape: [8]}]
`

// An emulated model says what it takes; sizes and spans that are none are refused by field, and
// so is a real model that says them.
func TestEmulatedMemoryAndLoad(t *testing.T) {
	for _, c := range []struct {
		more, want      string
		static, dynamic int64
		load            mono.Dur
	}{
		{"", "", 0, 0, 0},
		{"memory: {static: 100MiB, dynamic: 1.5 KB}\nload: 200ms\n", "", 100 << 20, 1500, 200 * mono.Millisecond},
		{"memory: {static: 7}\n", "", 7, 0, 0},
		{"memory: {static: much}\n", "memory.static", 0, 0, 0},
		{"memory: {dynamic: -1MiB}\n", "memory.dynamic", 0, 0, 0},
		{"memory: {dynamic: 9e9GiB}\n", "memory.dynamic", 0, 0, 0},
		{"load: soon\n", "load", 0, 0, 0},
		{"load: 2h\n", "load", 0, 0, 0},
	} {
		dir := t.TempDir()
		put(t, dir, "config.yaml", emulated+c.more)
		m, err := Read(dir, "m", "7")
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: %v, want %q", c.more, err, c.want)
			}
			continue
		}
		if err != nil || m.Spec.Key() != "m/7" || m.Static != c.static || m.Dynamic != c.dynamic || m.LoadTime != c.load {
			t.Errorf("%q: %+v, %v", c.more, m, err)
		}
	}
	dir := t.TempDir()
	put(t, dir, "config.yaml", good+"memory: {static: 1MiB}\nload: 1s\n")
	put(t, dir, "1/model.onnx", "")
	if _, err := Read(dir, "m", "1"); err == nil || !strings.Contains(err.Error(), "memory") || !strings.Contains(err.Error(), "load") {
		t.Errorf("a real model: %v", err)
	}
}

// A version is read from a folder of any name; one that is not there is said.
func TestReadOne(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "config.yaml", good)
	put(t, dir, "2/model.onnx", "")
	if m, err := Read(dir, "m", "2"); err != nil || m.Spec.Key() != "m/2" || m.Path == "" {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := Read(dir, "m", "3"); err == nil || !strings.Contains(err.Error(), "no version 3") {
		t.Errorf("%v", err)
	}
	if _, err := Read(t.TempDir(), "m", "1"); err == nil || !strings.Contains(err.Error(), "config.yaml") {
		t.Errorf("%v", err)
	}
}
