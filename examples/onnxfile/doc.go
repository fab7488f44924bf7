// Package onnxfile writes ONNX models, as far as the examples need it: a graph of
// operations and constants, float32, float16 and int64.
//
// A constant's values are asked for when the file is written and are never all in
// memory: a model of some hundred megabytes takes a few to write. The same calls in the
// same order make the same bytes, on every machine: files are pinned by their SHA-256.
package onnxfile
