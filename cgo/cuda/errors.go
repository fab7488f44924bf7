//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/symphony-serving/symphony/backend/cuda"
)

// errClosed: used after Close.
var errClosed = errors.New("used after Close")

// codeOf is the CUresult that an error of gorgonia.org/cu stands for: its type is not
// exported, and its texts end with CUDA 9.
func codeOf(err error) int {
	if err == nil {
		return C.CUDA_SUCCESS
	}
	if v := reflect.ValueOf(err); v.CanInt() {
		return int(v.Int())
	}
	return C.CUDA_ERROR_UNKNOWN
}

// describe names a CUresult.
func describe(code int) string {
	return fmt.Sprintf("%s (%d: %s)", C.GoString(C.sc_error_name(C.int(code))), code, C.GoString(C.sc_error_text(C.int(code))))
}

// failure is a CUresult as an error; success is none.
func failure(code int) error {
	switch {
	case code == C.CUDA_SUCCESS:
		return nil
	case code == C.CUDA_ERROR_OUT_OF_MEMORY:
		return fmt.Errorf("%w: %s", cuda.ErrMemory, describe(code))
	case code == C.CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
		return fmt.Errorf("%w: %s", cuda.ErrRegistered, describe(code))
	case deadly(code):
		return fmt.Errorf("%w: %s", cuda.ErrLost, describe(code))
	}
	return errors.New(describe(code))
}

// deadly reports whether an error is of those after which, as cuda.h says, any further work
// returns the same one; or whose reason nobody knows, as when a GPU falls off the bus.
func deadly(code int) bool {
	switch code {
	case C.CUDA_ERROR_DEINITIALIZED,
		C.CUDA_ERROR_ECC_UNCORRECTABLE,
		C.CUDA_ERROR_NVLINK_UNCORRECTABLE,
		226, // CUDA_ERROR_CONTAINED, of 12.9: uncorrectable memory was contained
		C.CUDA_ERROR_ILLEGAL_ADDRESS,
		C.CUDA_ERROR_LAUNCH_TIMEOUT,
		C.CUDA_ERROR_CONTEXT_IS_DESTROYED,
		C.CUDA_ERROR_ASSERT,
		C.CUDA_ERROR_HARDWARE_STACK_ERROR,
		C.CUDA_ERROR_ILLEGAL_INSTRUCTION,
		C.CUDA_ERROR_MISALIGNED_ADDRESS,
		C.CUDA_ERROR_INVALID_ADDRESS_SPACE,
		C.CUDA_ERROR_INVALID_PC,
		C.CUDA_ERROR_LAUNCH_FAILED,
		721, // CUDA_ERROR_TENSOR_MEMORY_LEAK, of 12.9
		810, // CUDA_ERROR_MPS_CLIENT_TERMINATED
		911, // CUDA_ERROR_EXTERNAL_DEVICE
		C.CUDA_ERROR_UNKNOWN:
		return true
	}
	return false
}
