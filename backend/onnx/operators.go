package onnx

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of the fields of ONNX's messages (onnx.proto) that lead to operators' names.
const (
	modelGraph, modelFunctions        = 7, 25
	graphNode, functionNode           = 1, 7
	nodeOperator, nodeAttribute       = 4, 5
	attributeGraph, attributeSubgraph = 6, 11
)

// plansByShape reports whether a model has operators for which ONNX Runtime's CUDA provider keeps one
// plan, that of the last shape: convolutions, which cuDNN plans. A file that cannot be read as
// ONNX may have them.
func plansByShape(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return true
	}
	model, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return true
	}
	defer unix.Munmap(model)
	return plansByShapeIn(model)
}

// plansByShapeIn is plansByShape of a file's bytes.
func plansByShapeIn(model []byte) bool {
	found, nodes := false, 0
	err := operators(model, func(name string) {
		nodes++
		found = found || strings.Contains(name, "Conv")
	})
	return found || nodes == 0 || err != nil
}

// operators tells the operator's name of each node, those of subgraphs and functions among them.
func operators(model []byte, tell func(name string)) error {
	return fields(model, func(n protowire.Number, b []byte) error {
		switch n {
		case modelGraph:
			return nodes(b, graphNode, tell)
		case modelFunctions:
			return nodes(b, functionNode, tell)
		}
		return nil
	})
}

// nodes are those of a graph or a function, which are its fields of a number.
func nodes(graph []byte, number protowire.Number, tell func(name string)) error {
	return fields(graph, func(n protowire.Number, node []byte) error {
		if n != number {
			return nil
		}
		return fields(node, func(n protowire.Number, b []byte) error {
			switch n {
			case nodeOperator:
				tell(string(b))
			case nodeAttribute:
				return fields(b, func(n protowire.Number, b []byte) error {
					if n == attributeGraph || n == attributeSubgraph {
						return nodes(b, graphNode, tell)
					}
					return nil
				})
			}
			return nil
		})
	})
}

var errNoONNX = errors.New("it is no ONNX file")

// fields tells the fields of a message that have a length: texts and messages. Weights are passed
// over, not read.
func fields(message []byte, each func(n protowire.Number, b []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errNoONNX
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
				return errNoONNX
			}
			message = message[n:]
			continue
		}
		b, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return errNoONNX
		}
		if err := each(number, b); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}
