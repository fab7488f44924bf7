// Package onnx is the Device over ONNX Runtime, on the CPU. The library is
// loaded at run time (Load); no header and no library is needed to build, but
// cgo is: without it a stub says so.
//
// One device is one thread that executes one batch at a time. Inputs are
// copied into buffers outside the Go heap that ONNX Runtime may keep pointers
// to; one pair of tensors per model and batch size is made once and reused.
// The thread runs at a lower priority than the loops that must be on time.
//
// A Paged device makes its sessions on demand, from models in the host's memory (Blob), as ONNX Runtime has optimised them.
//
// CUDA is the same library on GPUs, for backend/cuda: a cuda.Runtime.
package onnx

import "errors"

// ErrUnsupported: this binary or machine cannot run ONNX models; the message
// says what is missing.
var ErrUnsupported = errors.New("ONNX Runtime is not available")

// ErrModel: the model's file and its configuration do not fit.
var ErrModel = errors.New("model cannot be loaded")
