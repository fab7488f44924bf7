//go:build !cgo

package onnxrt

// ReturnLargeBlocks does nothing: there is no C in this binary.
func ReturnLargeBlocks() {}

// Trim does nothing, likewise.
func Trim() {}
