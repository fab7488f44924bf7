package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/examples/onnxfile"
	"github.com/symphony-serving/symphony/examples/zoo/nets"
	"github.com/symphony-serving/symphony/transport/mono"
)

// small is a model that is fast to make.
func small() nets.Model {
	return nets.Model{Name: "small", About: "A small one", Seed: 1, Net: nets.Encoder{Layers: 1, Hidden: 8, Heads: 2, Inner: 16, Length: 4, Vocabulary: 10},
		OnGPU: nets.Serving{DeviceType: "cuda", SLO: 30 * time.Millisecond, MaxBatch: 64}, OnCPU: nets.Serving{DeviceType: "cpu", SLO: time.Second, MaxBatch: 4}}
}

func written(t *testing.T, z *zoo, m nets.Model) string {
	t.Helper()
	if err := z.file(m, nets.FP32, false); err != nil {
		t.Fatal(err)
	}
	if err := z.config(m, nets.FP32); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(z.dir, m.Name)
}

// What is there and right stays, what is not is made again; a configuration that a person
// changed stays, one of ours follows the target.
func TestWritesOnce(t *testing.T) {
	m := small()
	sum, err := m.File(nets.FP32).Sum()
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	z := &zoo{dir: filepath.Join(t.TempDir(), "new"), pins: map[string]string{"small": sum}, say: func(line string) { said = append(said, line) }}
	dir := written(t, z, m)
	model, config := filepath.Join(dir, "1", "model.onnx"), filepath.Join(dir, "config.yaml")
	old := time.Unix(1, 0)
	for _, f := range []string{model, config} {
		if err := os.Chtimes(f, old, old); err != nil {
			t.Fatal(err)
		}
	}
	written(t, z, m)
	for _, f := range []string{model, config} {
		if info, err := os.Stat(f); err != nil || !info.ModTime().Equal(old) {
			t.Errorf("%s was written again: %v", f, err)
		}
	}
	if err := os.Truncate(model, 100); err != nil {
		t.Fatal(err)
	}
	z.target = "cpu"
	written(t, z, m)
	if got, err := onnxfile.SumFile(model); err != nil || got != sum {
		t.Errorf("a cut file was not made again: %v", err)
	}
	if b, err := os.ReadFile(config); err != nil || !strings.Contains(string(b), "slo: 1s\n") {
		t.Errorf("%s, %v", b, err)
	}
	z.target = ""
	written(t, z, m)
	if b, err := os.ReadFile(config); err != nil || !strings.Contains(string(b), "slo: 1s\n") {
		t.Errorf("without a target: %s, %v", b, err)
	}
	z.target = "cpu"
	if err := os.WriteFile(config, []byte("slo: 7s\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	written(t, z, m)
	if b, _ := os.ReadFile(config); string(b) != "slo: 7s\n" || !strings.Contains(strings.Join(said, "\n"), "stays as it is") {
		t.Errorf("%q, said %q", b, said)
	}
	left, err := filepath.Glob(filepath.Join(dir, "1", ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A model that comes out otherwise than pinned is not written.
func TestOtherSumIsRefused(t *testing.T) {
	z := &zoo{dir: t.TempDir(), pins: map[string]string{"small": strings.Repeat("0", 64)}, say: func(string) {}}
	if err := z.file(small(), nets.FP32, false); err == nil || !strings.Contains(err.Error(), "-pin") {
		t.Errorf("%v", err)
	}
	if files, _ := filepath.Glob(filepath.Join(z.dir, "small", "1", "*")); len(files) > 0 {
		t.Errorf("written: %v", files)
	}
	delete(z.pins, "small")
	if err := z.file(small(), nets.FP32, false); err == nil || !strings.Contains(err.Error(), "no SHA-256") {
		t.Errorf("%v", err)
	}
}

// Each model of the zoo is pinned in both precisions, and its configuration is one that
// the backend reads: for a GPU and for a CPU.
func TestZoo(t *testing.T) {
	pins := parsePins(pinned)
	if formatPins(pins) != pinned {
		t.Errorf("zoo.sha256 is not as -pin writes it:\n%s", pinned)
	}
	for _, m := range nets.Zoo() {
		for _, p := range []nets.Precision{nets.FP32, nets.FP16} {
			if len(pins[m.Key(p)]) != 64 {
				t.Errorf("%s is not pinned", m.Key(p))
			}
			for _, target := range []string{"", "gpu", "cpu"} {
				z := &zoo{dir: t.TempDir(), target: target}
				file := filepath.Join(z.dir, m.Key(p), "1", "model.onnx")
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, nil, 0o644); err != nil {
					t.Fatal(err)
				}
				if err := z.config(m, p); err != nil {
					t.Fatal(err)
				}
				want := m.OnGPU
				if target == "cpu" {
					want = m.OnCPU
				}
				models, failed, err := repository.Load(z.dir)
				if err != nil || len(failed) > 0 || len(models) != 1 || models[0].DeviceType != want.DeviceType ||
					models[0].Spec.SLO != mono.Dur(want.SLO) || models[0].Spec.MaxBatch != want.MaxBatch || models[0].Spec.Inputs[0].Elements() < 1 || (models[0].GPU.Precision == "fp16") != (p == nets.FP16) {
					t.Errorf("%s: %+v, %v, %v", m.Key(p), models, failed, err)
				}
			}
		}
	}
}

func TestFlags(t *testing.T) {
	for want, c := range map[string][2]string{"fp32 or fp16": {"fp32,tf32", "gpu"}, "gpu or cpu": {"fp16", "tpu"}} {
		if err := new(zoo).check(c[0], c[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	z := &zoo{}
	if err := z.check("fp32,fp16", "cpu"); err != nil || len(z.precisions) != 2 {
		t.Errorf("%v, %v", z.precisions, err)
	}
	if err := z.write([]string{"vgg"}, false); err == nil || !strings.Contains(err.Error(), "resnet50, mobilenet, bert-base") {
		t.Errorf("%v", err)
	}
}

// cpu.yaml is a configuration, and serves each model of the zoo on the CPU's device type.
func TestCPUConfiguration(t *testing.T) {
	c, err := config.Load("cpu.yaml", nil, nil)
	if err != nil || len(c.Backend.Pools) != 1 {
		t.Fatalf("%d pools, %v", len(c.Backend.Pools), err)
	}
	for _, m := range nets.Zoo() {
		if p := c.Backend.Pools[0]; p.DeviceType != m.OnCPU.DeviceType || !slices.Contains(p.Models, m.Name) {
			t.Errorf("%s is not served by %+v", m.Name, p)
		}
	}
}
