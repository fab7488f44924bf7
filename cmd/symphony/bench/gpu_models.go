package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/bench/gpu"
	"github.com/symphony-serving/symphony/examples/zoo/agree"
	"github.com/symphony-serving/symphony/examples/zoo/nets"
	"github.com/symphony-serving/symphony/frontend/preprocess"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// gathered is where the models to measure are put.
const gathered = "build/gpu/models"

// open loads all models on the first GPU, and their originals on the CPU.
func (h *gpuMachine) open(ctx context.Context) (*gpu.Direct, error) {
	models, err := h.models()
	if err != nil {
		return nil, err
	}
	rt, _, err := h.gpus.Runtime()
	if err != nil {
		return nil, err
	}
	d := &gpu.Direct{Driver: h.gpus.Driver, Runtime: rt}
	originals := originalsOf(models)
	var list []cuda.Model
	for i := range models {
		m := directModel(&models[i])
		m.CPU = slices.IndexFunc(originals, func(o repository.Model) bool { return original(&o) == original(&models[i]) })
		d.Models, list = append(d.Models, m), append(list, m.Model)
	}
	if d.CPU, err = h.cpu(originals); err != nil {
		d.NoCPU = err.Error()
	}
	if err := h.openDevice(d, list); err != nil {
		if d.CPU != nil {
			d.CPU.Close()
		}
		return nil, err
	}
	return d, ctx.Err()
}

// original is the name of the model that a converted one comes from, or its own.
func original(m *repository.Model) string { return strings.TrimSuffix(m.Spec.Name, half) }

// originalsOf are the models that a CPU computes for comparison: converted ones only where
// the original is not here.
func originalsOf(models []repository.Model) (out []repository.Model) {
	for i := range models {
		m := &models[i]
		if original(m) == m.Spec.Name || !slices.ContainsFunc(models, func(o repository.Model) bool { return o.Spec.Name == original(m) }) {
			out = append(out, *m)
		}
	}
	return out
}

// openDevice makes the device with those of the models that it takes.
func (h *gpuMachine) openDevice(d *gpu.Direct, list []cuda.Model) error {
	c, err := h.gpus.Driver.Open(0)
	if err != nil {
		return err
	}
	device, refused, err := cuda.NewDevice(c, d.Runtime, list, cuda.Options{Warn: func(err error) { h.log.Warn().Err(err).Msg("the GPU") }})
	if err != nil {
		return err
	}
	var kept []int
	for i := range list {
		if !slices.ContainsFunc(refused, func(r *cuda.RefusedError) bool { return r.Index == i }) {
			kept = append(kept, i)
		}
	}
	if len(refused) > 0 {
		device.Keep(kept)
		all := d.Models
		d.Models = nil
		for _, i := range kept {
			d.Models = append(d.Models, all[i])
		}
		for _, r := range refused {
			d.Refused = append(d.Refused, r)
		}
	}
	d.GPU = device
	return pin(h.gpus.Driver, d, device)
}

// pin gives the device's batches pinned memory, by a context of its own.
func pin(driver cuda.Driver, d *gpu.Direct, device *cuda.Device) error {
	c, err := driver.Open(0)
	if err != nil {
		device.Close()
		return err
	}
	d.Alloc = func(n int) (b []byte, err error) {
		err = cuda.On(c, func() (err error) { b, err = c.HostAlloc(n); return err })
		return b, err
	}
	d.Free = func(b []byte) { _ = cuda.On(c, func() error { return c.HostFree(b) }) } // of a lost context: gone anyway
	d.Close = func() error {
		device.Close()
		if d.CPU != nil {
			d.CPU.Close()
		}
		return c.Close()
	}
	return nil
}

// models gathers and reads them.
func (h *gpuMachine) models() ([]repository.Model, error) {
	if err := gather(h.repositories, gathered); err != nil {
		return nil, err
	}
	models, failed, err := repository.Load(gathered)
	if err == nil && len(models) == 0 {
		err = errors.Join(failed...)
	}
	for _, f := range failed {
		h.log.Warn().Err(f).Msg("not measured")
	}
	// The first is what single questions are asked of: the largest of the common ones.
	slices.SortStableFunc(models, func(a, b repository.Model) int { return firstOf(a.Spec.Name) - firstOf(b.Spec.Name) })
	return models, err
}

// firstOf orders models: as the zoo has them, then the others.
func firstOf(name string) int {
	for i, m := range nets.Zoo() {
		switch name {
		case m.Name:
			return i
		case m.Name + half:
			return 100 + i
		}
	}
	return 200
}

// directModel is a model with its inputs, and with what its outputs must keep.
func directModel(m *repository.Model) gpu.Model {
	spec := m.Spec
	precision := cuda.Precision(m.GPU.Precision)
	if precision == "" {
		precision = cuda.FP32
	}
	sizes := m.GPU.Sizes
	if sizes == nil {
		sizes = cuda.Ladder(spec.MaxBatch)
	}
	g := gpu.Model{Model: cuda.Model{Spec: &spec, Path: m.Path, Precision: precision, Provider: cuda.Provider(m.GPU.Provider), Graphs: cuda.Graphs(m.GPU.Graphs), CPUNodes: m.GPU.CPUNodes, Sizes: sizes},
		Tolerance: agree.Tolerance(nets.Precision(precision)), Argmax: strings.HasPrefix(spec.Name, "digits"),
		Compare: func(got, want []byte) (gpu.Difference, error) {
			d, err := agree.Outputs(spec.Outputs, got, want)
			return gpu.Difference{Relative: d.Relative, Where: d.Where, Argmax: d.Argmax}, err
		}}
	g.Item, g.Items = itemsOf(&spec)
	return g
}

// itemsMade are as many inputs as are made of a model.
const itemsMade = 16

// itemsOf are inputs of a model: the network's own, pictures of digits, or numbers.
func itemsOf(spec *catalog.ModelSpec) (func(i int) []byte, int) {
	if found, err := nets.Find([]string{strings.TrimSuffix(spec.Name, half)}); err == nil {
		return kept(func(i int) []byte { return found[0].Net.Item(uint64(i)) }), itemsMade
	}
	if pictures := digitsOf(spec); len(pictures) > 0 {
		return func(i int) []byte { return pictures[i%len(pictures)] }, len(pictures)
	}
	return kept(func(i int) []byte { return numbersOf(spec, i) }), itemsMade
}

// kept makes each item once: a picture of 600 kB takes a while.
func kept(item func(i int) []byte) func(i int) []byte {
	all := make([][]byte, itemsMade)
	return func(i int) []byte {
		i %= itemsMade
		if all[i] == nil {
			all[i] = item(i)
		}
		return all[i]
	}
}

// digitsFolder has pictures of all digits.
const digitsFolder = "examples/digits/images"

// digitsOf prepares the pictures as the frontend would; none where the model takes no such.
func digitsOf(spec *catalog.ModelSpec) (items [][]byte) {
	if spec.Image == nil || len(spec.Inputs) != 1 {
		return nil
	}
	plan, err := preprocess.NewPlan(*spec.Image, spec.Inputs[0])
	files, _ := filepath.Glob(filepath.Join(digitsFolder, "*.png"))
	if err != nil {
		return nil
	}
	for _, f := range files {
		encoded, err := os.ReadFile(f)
		item := make([]byte, plan.Size())
		if err == nil && plan.Into(item, encoded) == nil {
			items = append(items, item)
		}
	}
	return items
}

// numbersOf are small numbers of any type; bytes of other floats than FP32 stay 0, for they
// could be no number.
func numbersOf(spec *catalog.ModelSpec, seed int) (out []byte) {
	for _, t := range spec.Inputs {
		b := make([]byte, t.ByteSize())
		switch t.Type {
		case catalog.FP32:
			for k := range len(b) / 4 {
				binary.LittleEndian.PutUint32(b[4*k:], math.Float32bits(float32(math.Sin(float64(seed*7919+k)))))
			}
		case catalog.Int64, catalog.Uint64:
			for k := range len(b) / 8 {
				b[8*k] = byte((seed + k) % 100)
			}
		}
		out = append(out, b...)
	}
	return out
}

// onCPU opens models with ONNX Runtime, each on all processors.
func onCPU(models []repository.Model) (executor.Device, error) {
	var sessions []*onnx.Session
	for i := range models {
		m := &models[i]
		s, err := onnx.Open(m.Path, &m.Spec, max(1, runtime.NumCPU()))
		if err != nil {
			onnx.NewDevice(sessions).Close()
			return nil, fmt.Errorf("%s: %w", m.Spec.Key(), err)
		}
		sessions = append(sessions, s)
	}
	return onnx.NewDevice(sessions), nil
}
