// Package onnxrt is what onnxruntime_go lacks, in C. For GPUs: bindings over memory of a
// device (Binding), libraries that must be there before a provider is loaded (Preload), and
// Go's signal handlers afterwards (KeepSignals). For sessions that come and go on processors:
// memory that one leaves to the next (Keep). For both: ONNX Runtime's log (OpenLog).
//
// ONNX Runtime is reached only through onnxruntime_go, whose C functions lie in the same
// binary; neither its header nor its library is needed to build.
package onnxrt
