package onnxfile

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of onnx.proto, as far as they are written here.
const (
	modelIR, modelProducer, modelGraph, modelOpset                  = 1, 2, 7, 8
	opsetDomain, opsetVersion                                       = 1, 2
	graphNode, graphName, graphInitializer, graphInput, graphOutput = 1, 2, 5, 11, 12
	nodeInput, nodeOutput, nodeName, nodeOp, nodeAttribute          = 1, 2, 3, 4, 5
	attributeName, attributeFloat, attributeInt, attributeInts      = 1, 2, 3, 8
	attributeType                                                   = 20
	tensorDims, tensorType, tensorName, tensorRaw                   = 1, 2, 8, 9
	infoName, infoType                                              = 1, 2
	typeTensor, typeElement, typeShape, shapeDim, dimValue, dimName = 1, 1, 2, 1, 1, 2

	attributeIsFloat, attributeIsInt, attributeIsInts = 1, 2, 7
)

// message is a protobuf message under construction.
type message []byte

func (m message) bytes(field protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), b)
}

// opens begins a field of n bytes that are written elsewhere.
func (m message) opens(field protowire.Number, n int64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.BytesType), uint64(n))
}

func (m message) text(field protowire.Number, s string) message { return m.bytes(field, []byte(s)) }

func (m message) varint(field protowire.Number, v int64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), uint64(v))
}

func (m message) float(field protowire.Number, v float32) message {
	return protowire.AppendFixed32(protowire.AppendTag(m, field, protowire.Fixed32Type), math.Float32bits(v))
}

// Attribute is a constant property of an operation.
type Attribute struct{ m message }

// Int is an attribute of one integer.
func Int(name string, v int64) Attribute {
	return Attribute{message(nil).text(attributeName, name).varint(attributeInt, v).varint(attributeType, attributeIsInt)}
}

// Ints is an attribute of several.
func Ints(name string, v ...int64) Attribute {
	m := message(nil).text(attributeName, name)
	for _, i := range v {
		m = m.varint(attributeInts, i)
	}
	return Attribute{m.varint(attributeType, attributeIsInts)}
}

// Float is an attribute of one number.
func Float(name string, v float32) Attribute {
	return Attribute{message(nil).text(attributeName, name).float(attributeFloat, v).varint(attributeType, attributeIsFloat)}
}

// appendValue adds a number as raw_data has it.
func appendValue(b []byte, t Type, v float32) []byte {
	if t == Float16 {
		return binary.LittleEndian.AppendUint16(b, ToHalf(v))
	}
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
}
