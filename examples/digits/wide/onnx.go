package main

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of onnx.proto, as far as they are written here.
const (
	modelIR, modelProducer, modelGraph, modelOpset                  = 1, 2, 7, 8
	opsetDomain, opsetVersion                                       = 1, 2
	graphNode, graphName, graphInitializer, graphInput, graphOutput = 1, 2, 5, 11, 12
	nodeInput, nodeOutput, nodeName, nodeOp, nodeAttribute          = 1, 2, 3, 4, 5
	attributeName, attributeInt, attributeType                      = 1, 3, 20
	tensorDims, tensorType, tensorName, tensorRaw                   = 1, 2, 8, 9
	infoName, infoType                                              = 1, 2
	typeTensor, typeElement, typeShape, shapeDim, dimValue, dimName = 1, 1, 2, 1, 1, 2

	irVersion, opset  = 8, 17
	elementFloat      = 1
	attributeIntValue = 2
)

// message is a protobuf message under construction.
type message []byte

func (m message) bytes(field protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), b)
}

func (m message) text(field protowire.Number, s string) message { return m.bytes(field, []byte(s)) }

func (m message) varint(field protowire.Number, v int64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), uint64(v))
}

// tensor is an initializer: a named constant of float32.
func tensor(name string, values []float32, dims ...int) message {
	var m message
	for _, d := range dims {
		m = m.varint(tensorDims, int64(d))
	}
	m = m.varint(tensorType, elementFloat).text(tensorName, name)
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return m.bytes(tensorRaw, raw)
}

// node is one operation; its name is that of its output.
func node(op string, inputs []string, output string, attributes ...message) message {
	var m message
	for _, in := range inputs {
		m = m.text(nodeInput, in)
	}
	m = m.text(nodeOutput, output).text(nodeName, output).text(nodeOp, op)
	for _, a := range attributes {
		m = m.bytes(nodeAttribute, a)
	}
	return m
}

func intAttribute(name string, v int64) message {
	return message(nil).text(attributeName, name).varint(attributeInt, v).varint(attributeType, attributeIntValue)
}

// tensorInfo declares an input or output: float32, first dimension N (open).
func tensorInfo(name string, dims ...int64) message {
	shape := message(nil).bytes(shapeDim, message(nil).text(dimName, "N"))
	for _, d := range dims {
		shape = shape.bytes(shapeDim, message(nil).varint(dimValue, d))
	}
	typ := message(nil).varint(typeElement, elementFloat).bytes(typeShape, shape)
	return message(nil).text(infoName, name).bytes(infoType, message(nil).bytes(typeTensor, typ))
}

// build writes the whole model.
func build(layers []layer) []byte {
	g := message(nil).text(graphName, "digits-wide")
	constant := func(name string, values []float32, dims ...int) {
		g = g.bytes(graphInitializer, tensor(name, values, dims...))
	}
	add := func(op string, inputs []string, output string, attributes ...message) {
		g = g.bytes(graphNode, node(op, inputs, output, attributes...))
	}
	constant("steps", []float32{inputSteps})
	constant("zero", []float32{0})
	constant("top", []float32{top})
	add("Flatten", []string{"image"}, "flat")
	add("Mul", []string{"flat", "steps"}, "scaled")
	add("Clip", []string{"scaled", "zero", "steps"}, "clipped")
	add("Round", []string{"clipped"}, "x0")
	for i, l := range layers {
		w, b, y, c := fmt.Sprint("w", i), fmt.Sprint("b", i), fmt.Sprint("y", i), fmt.Sprint("c", i)
		constant(w, l.weights, l.inputs, l.outputs)
		constant(b, l.bias, l.outputs)
		if i == len(layers)-1 {
			add("Gemm", []string{fmt.Sprint("x", i), w, b}, "logits")
			break
		}
		add("Gemm", []string{fmt.Sprint("x", i), w, b}, y)
		add("Clip", []string{y, "zero", "top"}, c)
		add("Round", []string{c}, fmt.Sprint("x", i+1))
	}
	add("Softmax", []string{"logits"}, "probabilities", intAttribute("axis", -1))
	g = g.bytes(graphInput, tensorInfo("image", 1, 8, 8))
	g = g.bytes(graphOutput, tensorInfo("probabilities", classes))

	m := message(nil).varint(modelIR, irVersion).text(modelProducer, "symphony-digits").bytes(modelGraph, g)
	return m.bytes(modelOpset, message(nil).text(opsetDomain, "").varint(opsetVersion, opset))
}
