// Package reference computes the networks of package nets again: in plain Go, from their
// definitions, without their graphs and without ONNX Runtime. It has only the weights in
// common with them, which it reads from the model's file. So it finds what is wrong in a
// graph, in the file, or in how a device runs it.
//
// Sums are taken in float64, so its error is far below that of any device. It takes
// seconds for an item.
package reference
