//go:build cgo

package onnxrt

// #cgo LDFLAGS: -ldl
// #include <dlfcn.h>
// #include <stdlib.h>
//
// static const char *sym_open(const char *path)
// {
// 	return dlopen(path, RTLD_LAZY | RTLD_GLOBAL) ? NULL : dlerror();
// }
import "C"

import (
	"errors"
	"unsafe"
)

// Preload opens libraries by their paths, for the process's life. The CUDA provider and
// cuDNN ask the loader for them by name, "libcublas.so.13": it takes one of that name that
// is there already, and looks nowhere else.
func Preload(paths []string) error {
	for _, path := range paths {
		name := C.CString(path)
		message := C.sym_open(name)
		C.free(unsafe.Pointer(name))
		if message != nil {
			return errors.New(C.GoString(message))
		}
	}
	return nil
}
