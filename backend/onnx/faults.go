package onnx

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/backend/cuda"
)

// failure is how ONNX Runtime writes an error of CUDA: "CUDA failure 2: out of memory ; GPU=0 ; ...".
var failure = regexp.MustCompile(`CUDA failure (\d+):`)

// deviceError tells from ONNX Runtime's words, which are all that it returns, whether memory
// ran out or the device is lost.
func deviceError(err error) error {
	text := err.Error()
	code := 0
	if m := failure.FindStringSubmatch(text); m != nil {
		code, _ = strconv.Atoi(m[1])
	}
	contains := func(words string) bool { return strings.Contains(text, words) }
	switch {
	case slices.Contains(lostCodes(), code):
		return fmt.Errorf("%w: %w", cuda.ErrLost, err)
	case code == codeMemory, slices.ContainsFunc(memoryWords(), contains):
		return fmt.Errorf("%w: %w", cuda.ErrMemory, err)
	}
	return err
}

// runError is deviceError of a run. One of which no library of the device says anything is the model's.
func runError(err error) error {
	text := err.Error()
	told := deviceError(err)
	if errors.Is(told, cuda.ErrLost) || errors.Is(told, cuda.ErrMemory) || slices.ContainsFunc(deviceWords(), func(w string) bool { return strings.Contains(text, w) }) {
		return told
	}
	return fmt.Errorf("%w: %w", cuda.ErrModel, err)
}

// deviceWords are in what CUDA and its libraries say. An error without them is of ONNX Runtime's own checks, on the host:
// an index beyond a table, shapes that do not fit, a division by zero.
func deviceWords() []string {
	return []string{"CUDA failure", "CUDA error", "CUBLAS", "CUDNN", "CUFFT", "CURAND", "TensorRT", "TENSORRT"}
}

// codeMemory is cudaErrorMemoryAllocation.
const codeMemory = 2

// memoryWords are those of the arena, of cuBLAS and of cuDNN.
func memoryWords() []string {
	return []string{"Failed to allocate memory for requested buffer", "is smaller than requested bytes",
		"CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"}
}

// lostCodes are the errors after which a context serves no more (driver_types.h): an ECC
// error, NVLink, a device that is not there, a context destroyed, and kernels that failed.
func lostCodes() []int {
	return []int{46, 100, 101, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999}
}
