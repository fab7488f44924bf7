//go:build cgo

package onnx

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/cgo/onnxrt"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// program is a model on a device. All calls come from the device's thread: ONNX Runtime
// keeps handles of cuBLAS and cuDNN, and captured graphs, by thread.
type program struct {
	runtime *CUDA
	context cuda.Context
	stream  cuda.Stream
	model   *cuda.Model // Graphs is on or off
	attempt bool        // graphs are an attempt
	// By size. Where the provider keeps plans of the last shape (plansByShape) each has a session of its own:
	// the plan of another size would be made for each batch anew, and a graph of the size before would be left
	// with kernels that were dropped with their plan, and answer wrongly. Else it is the same one.
	sessions map[int]*ort.DynamicAdvancedSession
	place    *ort.MemoryInfo
	options  []*ort.RunOptions
	bound    [][]*binding // by slot and size; nil: not bound
	held     int64        // bytes of the device
}

type binding struct {
	*onnxrt.Binding
	ran bool // once at least
}

// launch runs it. It allocates nothing while it succeeds.
func (b *binding) launch() error {
	if err := b.Run(); err != nil {
		return runError(err)
	}
	return nil
}

// slotsMost bounds a slot's number: a mistake, not a device, has more.
const slotsMost = 64

func (p *program) open() error {
	m := p.model
	if err := p.check(); err != nil {
		return err
	}
	var err error
	if p.place, err = ort.NewMemoryInfo(p.runtime.place, ort.AllocatorTypeDevice, p.context.Info().Index, ort.MemTypeDefault); err != nil {
		return err
	}
	apart := m.Provider != cuda.ProviderTensorRT && p.plansByShape()
	var s *ort.DynamicAdvancedSession
	p.sessions = map[int]*ort.DynamicAdvancedSession{}
	for _, size := range m.Sizes {
		if s == nil || apart {
			if s, err = p.session(); err != nil {
				return err
			}
		}
		p.sessions[size] = s
	}
	return nil
}

// check holds the file against its specification: the bytes that sessions are made of, once.
func (p *program) check() error {
	m := p.model
	if !p.inMemory() {
		return checkFile(m.Path, m.Spec)
	}
	defer runtime.KeepAlive(m.File)
	return m.File.Checked(func() error { return checkBytes(m.File.Bytes(), m.Path, m.Spec) })
}

// session makes one of the model on the device.
func (p *program) session() (*ort.DynamicAdvancedSession, error) {
	o, err := cudaSession()
	if err != nil {
		return nil, err
	}
	defer o.Destroy()
	if err := p.runtime.provide(o, p.context.Info().Index, p.stream.Handle(), p.model); err != nil {
		return nil, err
	}
	m := p.model
	in, out := names(m.Spec.Inputs), names(m.Spec.Outputs)
	if !p.inMemory() {
		return ort.NewDynamicAdvancedSession(m.Path, in, out, o)
	}
	if err := o.AddSessionConfigEntry(besides, filepath.Dir(m.Path)); err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(m.File) // and so its bytes
	return ort.NewDynamicAdvancedSessionWithONNXData(m.File.Bytes(), in, out, o)
}

// besides is where weights lie that are not in the model's file itself.
const besides = "session.model_external_initializers_file_folder_path"

// inMemory reports whether sessions are made of bytes. TensorRT's provider names the engines that it keeps by the file: it has the path.
func (p *program) inMemory() bool {
	return p.model.File != nil && p.model.Provider != cuda.ProviderTensorRT
}

// plansByShape reports whether the provider keeps plans of the model's last shape.
func (p *program) plansByShape() bool {
	if !p.inMemory() {
		return plansByShape(p.model.Path)
	}
	defer runtime.KeepAlive(p.model.File)
	return plansByShapeIn(p.model.File.Bytes())
}

// Bind implements cuda.Program.
func (p *program) Bind(slot, size int, in, out []cuda.Ptr) error {
	m := p.model.Spec
	if slot < 0 || slot >= slotsMost || !slices.Contains(p.model.Sizes, size) || len(in) != len(m.Inputs) || len(out) != len(m.Outputs) {
		return fmt.Errorf("%s: slot %d, batch of %d, %d inputs and %d outputs cannot be bound", m.Key(), slot, size, len(in), len(out))
	}
	if p.at(slot, size) != nil {
		return fmt.Errorf("%s: slot %d is bound already for a batch of %d", m.Key(), slot, size)
	}
	for len(p.bound) <= slot {
		p.bound = append(p.bound, make([]*binding, m.MaxBatch+1))
	}
	o, err := p.runOptions(slot, size)
	if err != nil {
		return err
	}
	b, err := onnxrt.Bind(p.sessions[size], o, p.place, tensors(m.Inputs, size, in), tensors(m.Outputs, size, out))
	if err != nil {
		return deviceError(err)
	}
	p.bound[slot][size] = &binding{Binding: b}
	return nil
}

// tensors are those of a batch of size items at addresses.
func tensors(specs []catalog.TensorSpec, size int, at []cuda.Ptr) []onnxrt.Tensor {
	var all []onnxrt.Tensor
	for i, s := range specs {
		all = append(all, onnxrt.Tensor{Name: s.Name, Type: elementType(s.Type), Shape: append([]int64{int64(size)}, s.Shape...),
			At: uintptr(at[i]), Bytes: int64(size) * s.ByteSize()})
	}
	return all
}

// runOptions: a run does not wait for the device. A graph has fixed addresses, so each slot
// and size has its own, by a number; without graphs all runs have the same options.
func (p *program) runOptions(slot, size int) (*ort.RunOptions, error) {
	if len(p.options) > 0 && p.model.Graphs == cuda.GraphsOff {
		return p.options[0], nil
	}
	o, err := ort.NewRunOptions()
	if err != nil {
		return nil, err
	}
	p.options = append(p.options, o)
	err = o.AddRunConfigEntry("disable_synchronize_execution_providers", "1")
	if err == nil && p.model.Graphs == cuda.GraphsOn {
		err = o.AddRunConfigEntry("gpu_graph_id", strconv.Itoa(slot*(batchMost+1)+size))
	}
	return o, err
}

// batchMost is the largest batch of any model (backend/repository).
const batchMost = 1024

// Run implements cuda.Program.
func (p *program) Run(slot, size int) error {
	b := p.at(slot, size)
	if b == nil {
		return fmt.Errorf("%s: a batch of %d in slot %d was not bound", p.model.Spec.Key(), size, slot)
	}
	if b.ran {
		return b.launch()
	}
	// The first run chooses kernels, takes memory and captures the graph.
	err := p.measured(b.launch)
	b.ran = err == nil
	if err != nil {
		if not := p.uncaptured(err); not != nil {
			return errors.Join(not, p.stream.EndCapture()) // the capture may have been left open
		}
	}
	return err
}

// at is nil where nothing is bound.
func (p *program) at(slot, size int) *binding {
	if slot < 0 || slot >= len(p.bound) || size < 0 || size >= len(p.bound[slot]) {
		return nil
	}
	return p.bound[slot][size]
}

// measured calls f, which may take memory of the device and may set signal handlers.
func (p *program) measured(f func() error) error {
	before, _, err := p.context.Memory()
	if err != nil {
		return err
	}
	taken, err := onnxrt.KeepSignals(f)
	p.runtime.tellSignals(fmt.Sprint(taken), len(taken))
	if err != nil {
		return err
	}
	after, _, err := p.context.Memory()
	p.held += max(0, before-after)
	return err
}

// Memory implements cuda.Program: by how much less was free after loading, and after first runs.
func (p *program) Memory() int64 { return p.held }

// Close implements cuda.Program. What was queued has run.
func (p *program) Close() error {
	for _, sizes := range p.bound {
		for _, b := range sizes {
			if b != nil {
				b.Close()
			}
		}
	}
	p.bound = nil
	var errs []error
	var last *ort.DynamicAdvancedSession
	for _, size := range p.model.Sizes {
		if s := p.sessions[size]; s != nil && s != last {
			errs = append(errs, s.Destroy())
			last = s
		}
	}
	for _, o := range p.options {
		errs = append(errs, o.Destroy())
	}
	if p.place != nil {
		errs = append(errs, p.place.Destroy())
	}
	p.sessions, p.options, p.place = nil, nil, nil
	return errors.Join(errs...)
}
