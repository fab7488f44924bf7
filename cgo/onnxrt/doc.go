// Package onnxrt is what onnxruntime_go lacks for GPUs, in C: bindings over memory of a
// device (Binding), libraries that must be there before a provider is loaded (Preload), and
// Go's signal handlers afterwards (KeepSignals).
//
// ONNX Runtime is reached only through onnxruntime_go, whose C functions lie in the same
// binary; neither its header nor its library is needed to build.
package onnxrt
