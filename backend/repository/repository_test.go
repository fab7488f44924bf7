package repository

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

const good = `platform: onnxruntime
slo: 50ms
max_batch: 16
inputs: [{name: x, type: FP32, shape: [1, 8, 8]}]
outputs: [{name: y, type: FP32, shape: [2]}]
image: {layout: NCHW, channels: 1}
labels: [a, b]
`

func put(t *testing.T, dir, path, text string) {
	t.Helper()
	path = filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "cnn/config.yaml", good+"precision: tf32\nprovider: tensorrt\ncuda_graphs: true\ncpu_nodes: true\nbatch_sizes: [1, 4, 16]\n")
	put(t, dir, "cnn/1/model.onnx", "")
	put(t, dir, "cnn/3/model.onnx", "")
	put(t, dir, "emu/config.yaml", "platform: emulated\nslo: 25ms\nmax_batch: 4\ndevice_type: e\nprofile: {alpha_ms: 1, beta_ms: 5}\ninputs: [{name: x, type: FP32, shape: [1]}]\noutputs: [{name: y, type: FP32, shape: [1]}]\n")
	put(t, dir, ".hidden/config.yaml", "nonsense")
	models, failed, err := Load(dir)
	if err != nil || len(failed) > 0 || len(models) != 3 {
		t.Fatalf("%d models, %v, %v", len(models), failed, err)
	}
	m := models[1]
	if m.Spec.Key() != "cnn/3" || m.DeviceType != "cpu" || m.Spec.SLO != 50*mono.Millisecond || m.Path != filepath.Join(dir, "cnn/3/model.onnx") || m.Spec.Image.Channels != 1 {
		t.Errorf("%+v", m)
	}
	if g := m.GPU; g.Precision != "tf32" || g.Provider != "tensorrt" || g.Graphs != "on" || !g.CPUNodes || !slices.Equal(g.Sizes, []int{1, 4, 16}) {
		t.Errorf("%+v", g)
	}
	if e := models[2]; e.Spec.Profile.Beta != 5*mono.Millisecond || e.DeviceType != "e" || e.Spec.Platform != PlatformEmulated {
		t.Errorf("%+v", e)
	}
}

// A wrong model fails alone, with file and field named, all errors at once.
func TestWrongModels(t *testing.T) {
	replace := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(good) }
	for _, c := range []struct {
		name, config string
		want         []string
	}{
		{"missing", "", []string{"config.yaml", "no such file"}},
		{"no yaml", "{{", []string{"yaml"}},
		{"unknown key", good + "colour: red\n", []string{"colour"}},
		{"several", replace("50ms", "soon", "max_batch: 16", "max_batch: 0", "onnxruntime", "magic"), []string{"slo", "max_batch", "platform"}},
		{"type", replace("FP32, shape: [2]", "FLOAT, shape: [2]"), []string{"outputs[0].type", "FLOAT"}},
		{"text in", replace("x, type: FP32", "x, type: BYTES"), []string{"inputs[0].type", `tensor "x" is BYTES (text), which is not served`}},
		{"text out", replace("FP32, shape: [2]", "BYTES, shape: [2]"), []string{"outputs[0].type", "is BYTES (text), which is not served"}},
		{"shape", replace("[1, 8, 8]", "[1, -8, 8]"), []string{"inputs[0].shape"}},
		{"huge", replace("[1, 8, 8]", "[4096, 4096, 4096, 4096, 4096, 4096]"), []string{"inputs[0].shape"}},
		{"no inputs", replace("inputs: [{name: x, type: FP32, shape: [1, 8, 8]}]\n", ""), []string{"inputs", "image"}},
		{"policy", good + "drop_policy: dice\n", []string{"drop_policy"}},
		{"profile", good + "profile: {alpha_ms: 1}\n", []string{"profile"}},
		{"no profile", replace("onnxruntime", "emulated"), []string{"profile"}},
		{"bad profile", replace("onnxruntime", "emulated") + "profile: {alpha_ms: -1, beta_ms: 2}\n", []string{"profile", "negative"}},
		{"labels", replace("[a, b]", "[a, b, c]"), []string{"labels", "3 labels"}},
		{"gpu", good + "precision: int8\nprovider: rocm\nbatch_sizes: [4, 2]\n", []string{"precision", "int8", "provider", "rocm", "batch_sizes", "must rise"}},
		{"short ladder", good + "batch_sizes: [1, 8]\n", []string{"batch_sizes", "must be max_batch, 16"}},
		{"no version", good, []string{"no version"}},
	} {
		dir := t.TempDir()
		put(t, dir, "other/config.yaml", good)
		put(t, dir, "other/1/model.onnx", "")
		put(t, dir, "m/notes.txt", "")
		if c.config != "" {
			put(t, dir, "m/config.yaml", c.config)
		}
		models, failed, err := Load(dir)
		if err != nil || len(models) != 1 || len(failed) != 1 {
			t.Errorf("%s: %d models, %v, %v", c.name, len(models), failed, err)
			continue
		}
		for _, want := range append(c.want, "model m") {
			if !strings.Contains(failed[0].Error(), want) {
				t.Errorf("%s: %q is missing in %v", c.name, want, failed[0])
			}
		}
	}
}

func TestNoRepository(t *testing.T) {
	if _, _, err := Load(filepath.Join(t.TempDir(), "nowhere")); err == nil {
		t.Error("a folder that is not there")
	}
	if _, _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has no models") {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestZoo(t *testing.T) {
	const csv = "../../examples/zoo/zoo_1080ti.csv"
	models, err := Zoo{CSV: csv}.Load("e")
	if err != nil || len(models) != 35 {
		t.Fatalf("%d models, %v", len(models), err)
	}
	models, err = Zoo{CSV: csv, Models: []string{"ResNet50"}, Copies: 10, SLO: mono.Second, MaxBatch: 8}.Load("e")
	if err != nil || len(models) != 10 || models[9].Spec.Name != "ResNet50-9" || models[9].Spec.Profile.Alpha != 2050*mono.Microsecond ||
		models[9].Spec.SLO != mono.Second || models[9].Spec.MaxBatch != 8 {
		t.Errorf("%+v, %v", models, err)
	}
	if _, err := (Zoo{CSV: csv, Models: []string{"Nobody"}}).Load("e"); err == nil || !strings.Contains(err.Error(), "Nobody") {
		t.Errorf("unknown row: %v", err)
	}
	dir := t.TempDir()
	put(t, dir, "a.csv", "model,alpha_ms,beta_ms,slo_ms\nA,1,x,3\n")
	put(t, dir, "b.csv", "name,alpha\nA,1\n")
	for file, want := range map[string]string{"a.csv": "line 2", "b.csv": "columns", "c.csv": "no such file"} {
		if _, err := (Zoo{CSV: filepath.Join(dir, file)}).Load("e"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

// A table with weights says what a model takes of a device, and how long it takes to get there.
func TestZooWithWeights(t *testing.T) {
	const csv = "../../bench/zoo/zoo_v100_clockwork.csv"
	models, err := Zoo{CSV: csv, Models: []string{"resnet50_v2"}, Copies: 3, SLO: 100 * mono.Millisecond}.Load("v100")
	if err != nil || len(models) != 3 {
		t.Fatalf("%d models, %v", len(models), err)
	}
	m := models[2]
	if m.Spec.Name != "resnet50_v2-2" || m.Spec.MaxBatch != 16 || len(m.Spec.Profile.Table) != 16 || m.Static < 90e6 || m.Static > 110e6 || m.LoadTime < 8*mono.Millisecond || m.LoadTime > 9*mono.Millisecond {
		t.Errorf("%+v", m)
	}
	all, err := Zoo{CSV: csv, SLO: 100 * mono.Millisecond, MaxBatch: 8}.Load("v100")
	if err != nil || len(all) != 64 || len(all[0].Spec.Profile.Table) != 8 {
		t.Errorf("%d models, %v", len(all), err)
	}
	for text, z := range map[string]Zoo{"no SLOs": {CSV: csv}, "max_batch is 17": {CSV: csv, SLO: 1, MaxBatch: 17}} {
		if _, err := z.Load("v100"); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
}
