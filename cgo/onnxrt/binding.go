//go:build cgo

package onnxrt

// #include <stdlib.h>
// #include "binding.h"
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	ort "github.com/yalue/onnxruntime_go"
)

// Binding is a session's tensors for one batch size at fixed addresses, of any memory that
// ONNX Runtime knows. onnxruntime_go makes tensors over Go slices only, and runs a binding
// of its own without run options: such a run always waits for the device, and the device
// for the host after it. But its C functions, which take addresses and run options, lie in
// this binary (binding.c), and the handles that they need stand in its structs (handleOf).
//
// Rejected: ort.Value and RunWithBinding, for that wait; a table of functions from
// OrtGetApiBase, whose places only ONNX Runtime's header of 8,700 lines tells; go:linkname,
// which finds variables of packages, not fields.
type Binding struct {
	c *C.struct_sym_binding
}

// Tensor is one argument of a run, with its memory.
type Tensor struct {
	Name  string
	Type  ort.TensorElementDataType
	Shape []int64 // with the batch
	At    uintptr
	Bytes int64
}

// ErrVersion: this binary's onnxruntime_go has not got what bindings need.
var ErrVersion = errors.New("this version of onnxruntime_go does not fit: build with the one that go.mod pins")

// Check says early what a version of onnxruntime_go lacks.
func Check() error {
	if name := C.sym_missing(); name != nil {
		return fmt.Errorf("%w (no C function %s)", ErrVersion, C.GoString(name))
	}
	return nil
}

// handleOf is the C object behind one of onnxruntime_go's: a private field, by its path.
func handleOf(object any, path ...string) (unsafe.Pointer, error) {
	at := reflect.ValueOf(object)
	for _, name := range path {
		for at.Kind() == reflect.Pointer && !at.IsNil() {
			at = at.Elem()
		}
		if at.Kind() == reflect.Struct {
			at = at.FieldByName(name)
		} else {
			at = reflect.Value{}
		}
	}
	if at.Kind() != reflect.Pointer || at.IsNil() {
		return nil, fmt.Errorf("%w (no handle %s in %T)", ErrVersion, strings.Join(path, "."), object)
	}
	return at.UnsafePointer(), nil
}

// Bind makes the tensors in memory of a place. Session, options and memory must outlive the
// binding.
func Bind(session *ort.DynamicAdvancedSession, options *ort.RunOptions, place *ort.MemoryInfo, in, out []Tensor) (*Binding, error) {
	s, err1 := handleOf(session, "s", "ortSession")
	o, err2 := handleOf(options, "o")
	p, err3 := handleOf(place, "o")
	if err := errors.Join(Check(), err1, err2, err3); err != nil {
		return nil, err
	}
	b := &Binding{c: C.sym_bind(s, o, C.int(len(in)), C.int(len(out)))}
	if b.c == nil {
		return nil, errors.New("no memory for a binding")
	}
	for i, t := range append(in[:len(in):len(in)], out...) {
		var shape *C.int64_t
		if len(t.Shape) > 0 {
			shape = (*C.int64_t)(unsafe.Pointer(&t.Shape[0]))
		}
		name := C.CString(t.Name)
		status := C.sym_bind_tensor(b.c, C.int(i), name, C.uintptr_t(t.At), C.size_t(t.Bytes), shape, C.int64_t(len(t.Shape)), p, C.int(t.Type))
		C.free(unsafe.Pointer(name))
		if status != nil {
			b.Close()
			return nil, fmt.Errorf("tensor %s: %w", t.Name, statusError(status))
		}
	}
	return b, nil
}

// Run runs it. It allocates nothing while it succeeds. An error has ONNX Runtime's words.
func (b *Binding) Run() error {
	if status := C.sym_run(b.c); status != nil {
		return statusError(status)
	}
	return nil
}

// Close gives the tensors back.
func (b *Binding) Close() {
	if b.c != nil {
		C.sym_unbind(b.c)
		b.c = nil
	}
}

// statusError takes a status over.
func statusError(status unsafe.Pointer) error {
	defer C.sym_status_release(status)
	return errors.New(strings.TrimSpace(C.GoString(C.sym_status_message(status))))
}
