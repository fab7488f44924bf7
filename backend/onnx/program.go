//go:build cgo

package onnx

import (
	"errors"
	"fmt"
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
	plain   bool        // where it cannot be captured it runs without graphs
	session *ort.DynamicAdvancedSession
	place   *ort.MemoryInfo
	options []*ort.RunOptions
	bound   [][]*binding // by slot and size; nil: not bound
	held    int64        // bytes of the device
}

// newProgram decides on graphs: TensorRT's provider has none that are safe (checkModel).
func newProgram(r *CUDA, c cuda.Context, s cuda.Stream, m *cuda.Model) *program {
	own := *m
	p := &program{runtime: r, context: c, stream: s, model: &own}
	switch {
	case own.Graphs != cuda.GraphsAuto:
	case own.Provider == cuda.ProviderTensorRT:
		own.Graphs = cuda.GraphsOff
	default:
		own.Graphs, p.plain = cuda.GraphsOn, true
	}
	return p
}

type binding struct {
	*onnxrt.Binding
	in, out []cuda.Ptr
	ran     bool // once at least
}

// launch runs it. It allocates nothing while it succeeds.
func (b *binding) launch() error {
	if err := b.Run(); err != nil {
		return deviceError(err)
	}
	return nil
}

// slotsMost bounds a slot's number: a mistake, not a device, has more.
const slotsMost = 64

func (p *program) open() error {
	m := p.model
	if err := checkFile(m.Path, m.Spec); err != nil {
		return err
	}
	o, err := cudaSession()
	if err != nil {
		return err
	}
	defer o.Destroy()
	device := p.context.Info().Index
	if err := p.runtime.provide(o, device, p.stream.Handle(), m); err != nil {
		return err
	}
	if p.place, err = ort.NewMemoryInfo(p.runtime.place, ort.AllocatorTypeDevice, device, ort.MemTypeDefault); err != nil {
		return err
	}
	p.session, err = ort.NewDynamicAdvancedSession(m.Path, names(m.Spec.Inputs), names(m.Spec.Outputs), o)
	return err
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
	return p.bind(slot, size, in, out)
}

func (p *program) bind(slot, size int, in, out []cuda.Ptr) error {
	m := p.model.Spec
	o, err := p.runOptions(slot, size)
	if err != nil {
		return err
	}
	b, err := onnxrt.Bind(p.session, o, p.place, tensors(m.Inputs, size, in), tensors(m.Outputs, size, out))
	if err != nil {
		return deviceError(err)
	}
	p.bound[slot][size] = &binding{Binding: b, in: in, out: out}
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
	if err != nil && p.mayGoPlain(err) {
		if err = p.goPlain(err); err == nil {
			b = p.at(slot, size)
			err = p.measured(b.launch)
		}
	}
	b.ran = err == nil
	return err
}

// mayGoPlain: the error may be that of a model that cannot be captured.
func (p *program) mayGoPlain(err error) bool {
	return p.plain && !errors.Is(err, cuda.ErrMemory) && !errors.Is(err, cuda.ErrLost)
}

// goPlain begins anew without graphs. A run that failed while it was captured may have left its
// stream in that state. With an error Close is what can still be done.
func (p *program) goPlain(why error) error {
	p.runtime.options.Logger.Warn().Str("model", p.model.Spec.Key()).Err(why).
		Msg("it cannot be captured as CUDA graphs, and runs without: if it has convolutions, each change of the batch's size takes long (cuda_graphs: false leaves out the attempt)")
	p.plain, p.model.Graphs = false, cuda.GraphsOff
	bound := p.bound
	err := errors.Join(p.stream.EndCapture(), p.Close(), p.measured(p.open))
	if err != nil {
		return err
	}
	p.bound = make([][]*binding, len(bound))
	for slot, sizes := range bound {
		p.bound[slot] = make([]*binding, len(sizes))
		for size, b := range sizes {
			if b == nil {
				continue
			}
			if err := p.bind(slot, size, b.in, b.out); err != nil {
				return err
			}
			if b.ran { // as often as it has
				if err := p.Run(slot, size); err != nil {
					return err
				}
			}
		}
	}
	return nil
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
	if p.session != nil {
		errs = append(errs, p.session.Destroy())
	}
	for _, o := range p.options {
		errs = append(errs, o.Destroy())
	}
	if p.place != nil {
		errs = append(errs, p.place.Destroy())
	}
	p.session, p.options, p.place = nil, nil, nil
	return errors.Join(errs...)
}
