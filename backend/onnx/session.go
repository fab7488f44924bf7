//go:build cgo

package onnx

import (
	"fmt"
	"os"
	"slices"

	ort "github.com/yalue/onnxruntime_go"
	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/cgo/onnxrt"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// Load loads the shared library, once per process.
func Load(path string) error {
	return loadLibrary(path, "run `make models`, or set backend.onnxruntime to the path of libonnxruntime.so")
}

func loadLibrary(path, remedy string) error {
	if _, err := os.Stat(path); err != nil { // also when one is loaded: a wrong path stays wrong
		return fmt.Errorf("%w: %w; %s", ErrUnsupported, err, remedy)
	}
	if ort.IsInitialized() {
		return nil
	}
	if err := telemetryOff(); err != nil {
		return fmt.Errorf("%w: %s: its telemetry cannot be switched off: %w", ErrUnsupported, path, err)
	}
	ort.SetSharedLibraryPath(path)
	err := onnxrt.OpenLog(path) // before the environment is made
	if err == nil {
		err = ort.InitializeEnvironment(ort.WithLogLevelError())
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnsupported, path, err)
	}
	return nil
}

// Version is the loaded library's.
func Version() string {
	if !ort.IsInitialized() {
		return ""
	}
	return ort.GetVersion()
}

// Session is a loaded model; one thread at a time may run it.
type Session struct {
	session *ort.DynamicAdvancedSession
	inputs  []buffer
	outputs []buffer
	tensors map[int]bound // by batch size
	of      *Blob         // whose bytes it uses; nil: it has its own
	lease   lease         // of the Beside that runs it, if one does
}

// buffer is one tensor's memory for the largest batch, outside the Go heap.
type buffer struct {
	spec  catalog.TensorSpec
	bytes []byte
	item  int // bytes of one item
}

// bound are the tensors over the buffers for one batch size.
type bound struct{ inputs, outputs []ort.Value }

// Open loads a model and checks it against its specification. threads is how
// many one execution uses.
func Open(path string, spec *catalog.ModelSpec, threads int) (*Session, error) {
	if err := checkFile(path, spec); err != nil {
		return nil, err
	}
	s, err := newSession(spec, threads, func(in, out []string, o *ort.SessionOptions) (*ort.DynamicAdvancedSession, error) {
		return ort.NewDynamicAdvancedSession(path, in, out, o)
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrModel, path, err)
	}
	return s, nil
}

// newSession makes a session and its buffers; open has ONNX Runtime's own made.
func newSession(spec *catalog.ModelSpec, threads int, open func(in, out []string, o *ort.SessionOptions) (*ort.DynamicAdvancedSession, error)) (*Session, error) {
	o, err := options(threads)
	if err != nil {
		return nil, err
	}
	defer o.Destroy()
	s := &Session{tensors: map[int]bound{}}
	if s.inputs, err = buffers(spec.Inputs, spec.MaxBatch); err == nil {
		s.outputs, err = buffers(spec.Outputs, spec.MaxBatch)
	}
	if err == nil {
		s.session, err = open(names(spec.Inputs), names(spec.Outputs), o)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// options: a fixed number of threads that do not spin between runs, so that
// an idle server uses no CPU.
func options(threads int) (*ort.SessionOptions, error) {
	o, err := ort.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	for _, set := range []func() error{
		func() error { return o.SetIntraOpNumThreads(max(1, threads)) },
		func() error { return o.SetInterOpNumThreads(1) },
		func() error { return o.SetExecutionMode(ort.ExecutionModeSequential) },
		func() error { return o.AddSessionConfigEntry("session.intra_op.allow_spinning", "0") },
	} {
		if err := set(); err != nil {
			o.Destroy()
			return nil, err
		}
	}
	return o, nil
}

func names(specs []catalog.TensorSpec) []string {
	var out []string
	for _, s := range specs {
		out = append(out, s.Name)
	}
	return out
}

func buffers(specs []catalog.TensorSpec, maxBatch int) ([]buffer, error) {
	var out []buffer
	for _, s := range specs {
		item := int(s.ByteSize())
		bytes, err := unix.Mmap(-1, 0, max(1, item*maxBatch), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return out, fmt.Errorf("buffer of %d x %d bytes for %s: %w", maxBatch, item, s.Name, err)
		}
		out = append(out, buffer{s, bytes, item})
	}
	return out, nil
}

// checkFile compares the file with its specification.
func checkFile(path string, spec *catalog.ModelSpec) error {
	ins, outs, err := ort.GetInputOutputInfo(path)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrModel, path, err)
	}
	return matches(path, spec, ins, outs)
}

// checkBytes is checkFile for a file whose bytes are in memory. Where these alone are no model its weights may lie beside the file, and
// are found by the path.
func checkBytes(data []byte, path string, spec *catalog.ModelSpec) error {
	ins, outs, err := ort.GetInputOutputInfoWithONNXData(data)
	if err != nil {
		return checkFile(path, spec)
	}
	return matches(path, spec, ins, outs)
}

// matches compares what a file has with what the configuration says.
func matches(path string, spec *catalog.ModelSpec, ins, outs []ort.InputOutputInfo) error {
	if err := match(path, "input", spec.Inputs, ins, spec.MaxBatch); err != nil {
		return err
	}
	return match(path, "output", spec.Outputs, outs, spec.MaxBatch)
}

// match compares what the file has with what the configuration says. The
// file's first dimension is the batch: free (-1), or 1 when max_batch is 1.
func match(path, side string, specs []catalog.TensorSpec, file []ort.InputOutputInfo, maxBatch int) error {
	for _, want := range specs {
		at := slices.IndexFunc(file, func(f ort.InputOutputInfo) bool { return f.Name == want.Name })
		if at < 0 {
			var have []string
			for _, f := range file {
				have = append(have, f.Name)
			}
			return fmt.Errorf("%w: %s has no %s %q; it has %v", ErrModel, path, side, want.Name, have)
		}
		f := file[at]
		if t := elementType(want.Type); t != f.DataType {
			return fmt.Errorf("%w: %s: %s %q is %v in the file, %s in the configuration", ErrModel, path, side, want.Name, f.DataType, want.Type)
		}
		dims := f.Dimensions
		if len(dims) != len(want.Shape)+1 || dims[0] > 0 && dims[0] != 1 || dims[0] == 1 && maxBatch != 1 {
			return fmt.Errorf("%w: %s: %s %q has shape %v in the file; a batch dimension and %v are wanted (max_batch %d)", ErrModel, path, side, want.Name, dims, want.Shape, maxBatch)
		}
		for i, d := range dims[1:] {
			if d > 0 && d != want.Shape[i] {
				return fmt.Errorf("%w: %s: %s %q has shape %v in the file, %v in the configuration", ErrModel, path, side, want.Name, dims[1:], want.Shape)
			}
		}
	}
	if side == "input" && len(specs) != len(file) {
		return fmt.Errorf("%w: %s has %d inputs, the configuration %d", ErrModel, path, len(file), len(specs))
	}
	return nil
}

func elementType(t catalog.DataType) ort.TensorElementDataType {
	switch t {
	case catalog.Bool:
		return ort.TensorElementDataTypeBool
	case catalog.Uint8:
		return ort.TensorElementDataTypeUint8
	case catalog.Uint16:
		return ort.TensorElementDataTypeUint16
	case catalog.Uint32:
		return ort.TensorElementDataTypeUint32
	case catalog.Uint64:
		return ort.TensorElementDataTypeUint64
	case catalog.Int8:
		return ort.TensorElementDataTypeInt8
	case catalog.Int16:
		return ort.TensorElementDataTypeInt16
	case catalog.Int32:
		return ort.TensorElementDataTypeInt32
	case catalog.Int64:
		return ort.TensorElementDataTypeInt64
	case catalog.FP16:
		return ort.TensorElementDataTypeFloat16
	case catalog.FP32:
		return ort.TensorElementDataTypeFloat
	case catalog.FP64:
		return ort.TensorElementDataTypeDouble
	}
	return ort.TensorElementDataTypeUndefined
}

// bind finds or makes the tensors for a batch of n.
func (s *Session) bind(n int) (bound, error) {
	if b, ok := s.tensors[n]; ok {
		return b, nil
	}
	var b bound
	for side, list := range map[*[]ort.Value][]buffer{&b.inputs: s.inputs, &b.outputs: s.outputs} {
		for _, buf := range list {
			shape := append(ort.Shape{int64(n)}, buf.spec.Shape...)
			t, err := ort.NewCustomDataTensor(shape, buf.bytes[:n*buf.item], elementType(buf.spec.Type))
			if err != nil {
				return b, err
			}
			*side = append(*side, t)
		}
	}
	s.tensors[n] = b
	return b, nil
}

// Run executes the batch: inputs in, outputs out.
func (s *Session) Run(batch *executor.Batch) error { return s.runWith(batch, nil) }

// runWith is Run with run options, by which it can be ended; nil: none.
func (s *Session) runWith(batch *executor.Batch, o *ort.RunOptions) error {
	b, err := s.bind(batch.Size)
	if err != nil {
		return err
	}
	for i, item := range batch.Inputs {
		for _, buf := range s.inputs {
			item = item[copy(buf.bytes[i*buf.item:(i+1)*buf.item], item):]
		}
	}
	if err := s.session.RunWithOptions(b.inputs, b.outputs, o); err != nil {
		return err
	}
	for i, item := range batch.Outputs {
		for _, buf := range s.outputs {
			item = item[copy(item, buf.bytes[i*buf.item:(i+1)*buf.item]):]
		}
	}
	return nil
}

// Close unloads the model: at once, or when the run beside its device has ended.
func (s *Session) Close() { s.lease.whenFree(s.unload) }

func (s *Session) unload() {
	for _, b := range s.tensors {
		for _, v := range append(b.inputs, b.outputs...) {
			v.Destroy()
		}
	}
	if s.session != nil {
		s.session.Destroy()
	}
	for _, b := range append(s.inputs, s.outputs...) {
		_ = unix.Munmap(b.bytes)
	}
	if s.of != nil {
		s.of.left()
	}
	s.tensors, s.session, s.inputs, s.outputs, s.of = nil, nil, nil, nil, nil
}
