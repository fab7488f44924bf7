// Package repository reads models from disk, in the layout people know:
//
//	<repo>/<model>/config.yaml
//	<repo>/<model>/<version>/model.onnx
//
// A wrong or missing file fails its model with a message that names file and
// field; the others are served. Emulated models have no file: their latency
// profile stands in config.yaml, or in a table of profiles (Zoo). Links are followed as
// far as they stay in the repository.
package repository

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/backend/warmup"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Platforms of a model.
const (
	PlatformONNX     = "onnxruntime_onnx"
	PlatformEmulated = "emulated"
)

// file is config.yaml.
type file struct {
	Platform   string               `yaml:"platform"` // onnxruntime or emulated
	SLO        string               `yaml:"slo"`
	MaxBatch   int                  `yaml:"max_batch"`
	DeviceType string               `yaml:"device_type"` // cpu when empty
	DropPolicy string               `yaml:"drop_policy"`
	Inputs     []catalog.TensorSpec `yaml:"inputs"`
	Outputs    []catalog.TensorSpec `yaml:"outputs"`
	Image      *catalog.ImageSpec   `yaml:"image"`
	Labels     []string             `yaml:"labels"`
	Profile    *profileFile         `yaml:"profile"`  // emulated models
	Memory     *memoryFile          `yaml:"memory"`   // likewise: what they take of a device
	Load       string               `yaml:"load"`     // likewise: how long loading takes
	Resident   bool                 `yaml:"resident"` // in a paged pool: it is on all of its devices at all times
	Warmup     *warmup.Setting      `yaml:"warmup"`   // what runs before the first request get; zeros when empty

	// On GPUs; what is empty says the pool.
	Precision  string `yaml:"precision"`   // fp32, tf32, fp16: a file whose weights were converted
	Provider   string `yaml:"provider"`    // cuda, tensorrt
	CUDAGraphs *bool  `yaml:"cuda_graphs"` // each batch size as one launch; empty: where that can be done
	CPUNodes   bool   `yaml:"cpu_nodes"`   // nodes that the provider leaves to the CPU, of shapes mostly, may run there
	BatchSizes []int  `yaml:"batch_sizes"` // what batches are rounded up to; the last one is max_batch
}

type profileFile struct {
	AlphaMS float64   `yaml:"alpha_ms"`
	BetaMS  float64   `yaml:"beta_ms"`
	TableMS []float64 `yaml:"table_ms"`
}

// Model is a model of the repository.
type Model struct {
	Spec       catalog.ModelSpec // Profile is empty for models that must be measured
	DeviceType string
	Path       string // of model.onnx; empty for emulated models
	Dir        string // <repo>/<model>
	Files      string // folder that Path and what lies beside it are in, where they are a Snapshot; else empty
	GPU        GPU
	Warmup     *warmup.Inputs // of runs before the first request; nil: the default

	// Of an emulated model: what it takes of a device's memory while it is loaded, and
	// beyond that while it runs, bytes; and how long loading takes.
	Static, Dynamic int64
	LoadTime        mono.Dur
}

// GPU is how a model runs on GPUs; what is empty says the pool.
type GPU struct {
	Precision string
	Provider  string
	Graphs    string // on, off
	CPUNodes  bool
	Sizes     []int // ascending, the last one max_batch
}

func onOff(v *bool) string {
	switch {
	case v == nil:
		return ""
	case *v:
		return "on"
	}
	return "off"
}

// spec turns the file into a model without its version; all errors at once.
func (f *file) spec(name string) (Model, error) {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	m := Model{DeviceType: f.DeviceType, Spec: catalog.ModelSpec{Name: name, MaxBatch: f.MaxBatch, Inputs: f.Inputs, Outputs: f.Outputs,
		Image: f.Image, Labels: f.Labels, DropPolicy: f.DropPolicy, Resident: f.Resident},
		GPU: GPU{Precision: f.Precision, Provider: f.Provider, Graphs: onOff(f.CUDAGraphs), CPUNodes: f.CPUNodes, Sizes: f.BatchSizes}}
	if m.DeviceType == "" {
		m.DeviceType = "cpu"
	}
	switch f.Platform {
	case "onnxruntime", PlatformONNX:
		m.Spec.Platform = PlatformONNX
		if f.Profile != nil {
			bad("profile", "only emulated models have one here; real ones are measured (symphony profile)")
		}
	case PlatformEmulated:
		m.Spec.Platform = PlatformEmulated
		m.Spec.Profile = f.Profile.doc()
		if f.Profile == nil {
			bad("profile", "an emulated model needs alpha_ms and beta_ms, or table_ms")
		}
		if f.Warmup != nil {
			bad("warmup", "an emulated model has no runs before its first request: leave it out")
		}
	default:
		bad("platform", "%q is none of onnxruntime, emulated", f.Platform)
	}
	slo, err := time.ParseDuration(f.SLO)
	if err != nil || slo <= 0 || slo > time.Hour {
		bad("slo", "%q is no span above 0 and up to an hour: write it like 50ms", f.SLO)
	}
	m.Spec.SLO = mono.Dur(slo)
	if f.MaxBatch < 1 || f.MaxBatch > 1024 {
		bad("max_batch", "is %d, must be 1 to 1024", f.MaxBatch)
	}
	if f.DropPolicy != "" && f.DropPolicy != "target" && f.DropPolicy != "head" {
		bad("drop_policy", "%q is none of target, head", f.DropPolicy)
	}
	f.emulation(&m, bad)
	f.checkGPU(bad)
	checkTensors("inputs", f.Inputs, bad)
	checkTensors("outputs", f.Outputs, bad)
	if f.Platform == PlatformEmulated && f.Profile != nil && f.MaxBatch >= 1 {
		if _, err := profile.FromDoc(m.Spec.Profile, f.MaxBatch); err != nil {
			bad("profile", "%v", err)
		}
	}
	if n := lastDimension(f.Outputs); len(f.Labels) > 0 && int64(len(f.Labels)) != n {
		bad("labels", "%d labels for an output of %d classes", len(f.Labels), n)
	}
	if f.Image != nil && len(f.Inputs) != 1 {
		bad("image", "image preprocessing needs exactly one input")
	}
	return m, errors.Join(errs...)
}

// checkGPU checks what GPUs are told.
func (f *file) checkGPU(bad func(field, format string, args ...any)) {
	if !slices.Contains([]string{"", "fp32", "tf32", "fp16"}, f.Precision) {
		bad("precision", "%q is none of fp32, tf32, fp16", f.Precision)
	}
	if !slices.Contains([]string{"", "cuda", "tensorrt"}, f.Provider) {
		bad("provider", "%q is none of cuda, tensorrt", f.Provider)
	}
	before := 0
	for _, n := range f.BatchSizes {
		if n <= before {
			bad("batch_sizes", "%v must rise, from 1 or more", f.BatchSizes)
			return
		}
		before = n
	}
	if len(f.BatchSizes) > 0 && before != f.MaxBatch {
		bad("batch_sizes", "the last one of %v must be max_batch, %d", f.BatchSizes, f.MaxBatch)
	}
}

// lastDimension is the number of classes that labels name.
func lastDimension(outputs []catalog.TensorSpec) int64 {
	if len(outputs) == 0 || len(outputs[0].Shape) == 0 {
		return 1
	}
	return outputs[0].Shape[len(outputs[0].Shape)-1]
}

func (p *profileFile) doc() catalog.Profile {
	if p == nil {
		return catalog.Profile{}
	}
	d := catalog.Profile{Alpha: mono.FromMillis(p.AlphaMS), Beta: mono.FromMillis(p.BetaMS)}
	for _, l := range p.TableMS {
		d.Table = append(d.Table, mono.FromMillis(l))
	}
	return d
}

// Bounds of one item's tensors: inputs, as what a slab holds; outputs, as what can be sent (wire.OutputMax).
const (
	inputMax  = 16 << 20
	outputMax = 1 << 30
)

func checkTensors(side string, specs []catalog.TensorSpec, bad func(field, format string, args ...any)) {
	if len(specs) == 0 {
		bad(side, "there must be at least one")
	}
	itemMax := int64(inputMax)
	if side == "outputs" {
		itemMax = outputMax
	}
	total, seen := int64(0), map[string]bool{}
	for i, s := range specs {
		field := fmt.Sprintf("%s[%d]", side, i)
		if s.Name == "" || seen[s.Name] {
			bad(field+".name", "%q is empty or there twice", s.Name)
		}
		seen[s.Name] = true
		if s.Type == catalog.Bytes {
			bad(field+".type", "tensor %q is BYTES (text), which is not served: let the model take numbers, and turn text into them before it is sent", s.Name)
			continue
		}
		if s.Type.Size() < 1 {
			bad(field+".type", "%q is none of BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 FP32 FP64", s.Type)
			continue
		}
		n := int64(s.Type.Size())
		for _, d := range s.Shape {
			if d < 1 || d > itemMax || n*d > itemMax {
				bad(field+".shape", "%v: dimensions must be positive and an item at most %d bytes; leave the batch dimension out", s.Shape, itemMax)
				n = 0
				break
			}
			n *= d
		}
		total += n
	}
	if total > itemMax {
		bad(side, "%d bytes an item, at most %d", total, itemMax)
	}
}

// ModelError says why a model is not served.
type ModelError struct {
	Model   string
	Version string // "": all versions
	File    string
	Err     error
}

func (e *ModelError) Error() string {
	return fmt.Sprintf("model %s: %s: %s", e.Model, e.File, strings.ReplaceAll(e.Err.Error(), "\n", "; "))
}

func (e *ModelError) Unwrap() error { return e.Err }
