//go:build cgo

package onnxrt

// #include <stdlib.h>
// #include "log.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"
)

// ONNX Runtime writes its log to stderr, in colours, one line for each batch that fails. onnxruntime_go has no door to
// another logger; but the process has one environment of ONNX Runtime, and what makes it first chooses the logger. So
// OpenLog makes it before onnxruntime_go does.

// Line is one of ONNX Runtime's log.
type Line struct {
	Severity                    int // 0: verbose, 1: info, 2: warning, 3: error, 4: fatal
	Category, Location, Message string
}

const severityError = 3

// sink takes the lines; nil: they go to stderr.
var sink atomic.Pointer[func(Line)]

// LogTo has lines go to f, which is called from any thread, and must not wait.
func LogTo(f func(Line)) { sink.Store(&f) }

// OpenLog loads the library and takes its log over, errors and what is graver. Call it before onnxruntime_go loads the library.
func OpenLog(library string) error {
	path := C.CString(library)
	defer C.free(unsafe.Pointer(path))
	if missing := C.sym_log_open(path, severityError); missing != nil {
		return errors.New(C.GoString(missing))
	}
	return nil
}

//export symOnnxrtLog
func symOnnxrtLog(severity C.int, category, location, message *C.char) {
	l := Line{int(severity), C.GoString(category), C.GoString(location), C.GoString(message)}
	if f := sink.Load(); f != nil {
		(*f)(l)
		return
	}
	fmt.Fprintf(os.Stderr, "onnxruntime: %s\n", l.Message)
}
