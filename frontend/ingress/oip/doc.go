// Package oip is the codec of the Open Inference Protocol's infer messages:
// JSON requests with flat or nested tensors, the binary tensor extension in
// both directions, and the replies.
//
//	body --ParseRequest--> Request{Inputs: spans of the body} --Decode--> little-endian tensors
//	Reply{Outputs: parts} --AppendHeader, AppendBinary--> body
//
// # Invariants
//
//  1. A Request is a view: names, ids, binary tensors and undecoded JSON data
//     alias the body, and live no longer than it does.
//  2. Nothing is decoded before its place is known: ParseRequest only skips
//     over JSON data. The caller compares name, type and shape with the model
//     first, then Decode fills a buffer of the size that the shape says. A body
//     of n bytes cannot make a tensor larger than what its model takes.
//  3. Every refusal is an *Error that names the field, as a path:
//     inputs[1].shape[0].
//  4. Nesting deeper than DepthMax, more than TensorsMax tensors or more than
//     DimsMax dimensions are refused.
//
// It is a core: no clock, no lock, no I/O. It does not know the model.
//
// Rejected: encoding/json into structs (reflection, and []any for nested data:
// 60 bytes for a number); a tree parser (a node for each number).
package oip
