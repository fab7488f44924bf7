//go:build cgo

package onnx

import (
	"errors"
	"fmt"
	"strings"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/cgo/onnxrt"
)

// CUDA is ONNX Runtime's CUDA provider as a cuda.Runtime: a session per device and model,
// whose kernels are queued on the device's stream, and a binding per slot and batch size
// over the device's memory. A run returns when all is queued.
type CUDA struct {
	options CUDAOptions
	place   string // ONNX Runtime's name of the memory where addresses are
	// provide adds the providers to a session's options.
	provide func(o *ort.SessionOptions, device int, stream uintptr, m *cuda.Model) error
}

// NewCUDA loads a GPU build of ONNX Runtime and CUDA's libraries. There is one ONNX Runtime
// in a process: pools of kind cpu use this one, too.
func NewCUDA(o CUDAOptions) (*CUDA, error) {
	r := &CUDA{options: o, place: "Cuda"}
	r.provide = r.provideCUDA
	taken, err := onnxrt.KeepSignals(func() error {
		if err := errors.Join(onnxrt.Check(), onnxrt.Preload(o.Preload)); err != nil {
			return fmt.Errorf("%w with CUDA: %w", ErrUnsupported, err)
		}
		if err := loadLibrary(o.Library, "run `make gpu-libs`"); err != nil {
			return err
		}
		return probe()
	})
	if err != nil {
		return nil, err
	}
	r.tellSignals(fmt.Sprint(taken), len(taken))
	return r, nil
}

// probe makes ONNX Runtime load its CUDA provider, without any device.
func probe() error {
	p, err := ort.NewCUDAProviderOptions()
	if err == nil {
		err = p.Update(map[string]string{"do_copy_in_default_stream": "1"})
		_ = p.Destroy()
	}
	return probed(err)
}

// probed says what to do where the provider could not be loaded.
func probed(err error) error {
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "not enabled in this build"):
		return fmt.Errorf("%w with CUDA: the library that is loaded is a build for CPUs; run `make gpu-libs`", ErrUnsupported)
	case strings.Contains(err.Error(), "undefined symbol: cu"):
		return fmt.Errorf("%w with CUDA: %w; NVIDIA's driver, or a library of CUDA, is older than the provider: install a newer driver (CUDA 13 needs 580), and run `make gpu-libs`", ErrUnsupported, err)
	}
	return fmt.Errorf("%w with CUDA: %w; run `make gpu-libs`, which fetches CUDA's libraries, too", ErrUnsupported, err)
}

func (r *CUDA) tellSignals(names string, n int) {
	if n > 0 {
		r.options.Logger.Debug().Str("signals", names).Msg("a library of CUDA had set handlers of its own; put back")
	}
}

// provideCUDA puts TensorRT before CUDA where the model asks for it, and lets nothing fall
// back to the CPU unless the model allows it: such a node may wait for the device and copy
// there and back. (Those that compute shapes from shapes do not, but are told apart by nobody.)
func (r *CUDA) provideCUDA(o *ort.SessionOptions, device int, stream uintptr, m *cuda.Model) error {
	if !m.CPUNodes {
		if err := o.AddSessionConfigEntry("session.disable_cpu_ep_fallback", "1"); err != nil {
			return err
		}
	}
	if m.Provider == cuda.ProviderTensorRT {
		if !r.options.TensorRT {
			r.options.Logger.Warn().Str("model", m.Spec.Key()).Msg("TensorRT's libraries are not here: it runs on the CUDA provider")
		} else if err := provideTensorRT(o, tensorRTOptions(device, stream, m, r.options.Engines)); err != nil {
			return err
		}
	}
	p, err := ort.NewCUDAProviderOptions()
	if err != nil {
		return err
	}
	defer p.Destroy()
	if err := p.Update(cudaOptions(device, stream, m)); err != nil {
		return err
	}
	return o.AppendExecutionProviderCUDA(p)
}

func provideTensorRT(o *ort.SessionOptions, options map[string]string) error {
	p, err := ort.NewTensorRTProviderOptions()
	if err != nil {
		return err
	}
	defer p.Destroy()
	if err := p.Update(options); err != nil {
		return err
	}
	return o.AppendExecutionProviderTensorRT(p)
}

// Load implements cuda.Runtime.
func (r *CUDA) Load(c cuda.Context, s cuda.Stream, m *cuda.Model) (cuda.Program, error) {
	if err := checkModel(m); err != nil {
		return nil, err
	}
	p := newProgram(r, c, s, m)
	err := p.measured(p.open)
	if err != nil {
		_ = p.Close()
		if not := p.uncaptured(err); not != nil {
			return nil, not
		}
		return nil, explain(m, err)
	}
	return p, nil
}

// explain says what to do about a session that could not be made.
func explain(m *cuda.Model, err error) error {
	err = deviceError(err)
	switch text := err.Error(); {
	case errors.Is(err, ErrModel):
		return err
	case strings.Contains(text, "fallback to CPU EP has been explicitly disabled"):
		return fmt.Errorf("%w: %s: the CUDA provider cannot run all of it, and on the CPU the rest would stall the device: "+
			"export it with fixed shapes but for the batch; or put cpu_nodes: true into its config.yaml, if these nodes only compute shapes; "+
			"or serve it by a pool of kind cpu (%w)", ErrModel, m.Path, err)
	case strings.Contains(text, "CUDA failure 35:"): // cudaErrorInsufficientDriver
		return fmt.Errorf("%w: %s: NVIDIA's driver is older than ONNX Runtime's CUDA: install a newer one (`make gpu-libs` brings CUDA 13, which needs 580), "+
			"or set backend.onnxruntime to an onnxruntime-gpu for its CUDA (%w)", ErrModel, m.Path, err)
	case m.Graphs == cuda.GraphsOn && strings.Contains(text, "graph capture"):
		return fmt.Errorf("%w: %s: it cannot run as a CUDA graph: leave cuda_graphs out of its config.yaml (%w)", ErrModel, m.Path, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrModel, m.Path, err)
}

// cudaSession are the options of a session whose kernels only a device runs.
func cudaSession() (*ort.SessionOptions, error) {
	o, err := options(1)
	if err != nil {
		return nil, err
	}
	for _, set := range []func() error{
		// A plan of memory per batch size would grow the arena in the second run of each.
		func() error { return o.SetMemPattern(false) },
		// Weights as large as they are, not as blocks of the arena.
		func() error { return o.AddSessionConfigEntry("session.use_device_allocator_for_initializers", "1") },
	} {
		if err := set(); err != nil {
			o.Destroy()
			return nil, err
		}
	}
	return o, nil
}
