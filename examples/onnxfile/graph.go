package onnxfile

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Type is an element type, by its number in onnx.proto.
type Type int64

// Types of tensors that are written here.
const (
	Float32 Type = 1
	Int64   Type = 7
	Float16 Type = 10
)

// Size is the bytes of one element.
func (t Type) Size() int64 {
	switch t {
	case Float16:
		return 2
	case Int64:
		return 8
	default:
		return 4
	}
}

// Values gives a constant's numbers in order, in pieces of any length; what it gave may
// change when emit has returned. It may be asked several times.
type Values func(emit func([]float32))

// Numbers are values that are in memory.
func Numbers(v ...float32) Values { return func(emit func([]float32)) { emit(v) } }

// Graph is a model's operations, constants, inputs and outputs, written in the order of
// the calls.
type Graph struct{ parts []part }

// part is a piece of the encoded graph: bytes, and after them a constant's values.
type part struct {
	head   message
	name   string // of the constant
	typ    Type
	count  int64
	values Values // nil: bytes only
}

// NewGraph begins a graph.
func NewGraph(name string) *Graph {
	return &Graph{parts: []part{{head: message(nil).text(graphName, name)}}}
}

// add appends a field that is encoded whole.
func (g *Graph) add(field protowire.Number, m message) {
	last := &g.parts[len(g.parts)-1]
	if last.values != nil {
		g.parts = append(g.parts, part{})
		last = &g.parts[len(g.parts)-1]
	}
	last.head = last.head.bytes(field, m)
}

// Node adds an operation; its name is that of its output.
func (g *Graph) Node(op string, inputs []string, output string, attributes ...Attribute) {
	var m message
	for _, in := range inputs {
		m = m.text(nodeInput, in)
	}
	m = m.text(nodeOutput, output).text(nodeName, output).text(nodeOp, op)
	for _, a := range attributes {
		m = m.bytes(nodeAttribute, a.m)
	}
	g.add(graphNode, m)
}

// Constant adds a named constant (an initializer) of float32 or float16; without
// dimensions it is a scalar.
func (g *Graph) Constant(name string, t Type, values Values, dims ...int) {
	m, count := tensorHead(name, t, dims)
	raw := count * t.Size()
	m = m.opens(tensorRaw, raw)
	head := message(nil).opens(graphInitializer, int64(len(m))+raw)
	g.parts = append(g.parts, part{append(head, m...), name, t, count, values})
}

// Integers adds a constant of int64.
func (g *Graph) Integers(name string, values []int64, dims ...int) {
	m, count := tensorHead(name, Int64, dims)
	if count != int64(len(values)) {
		panic(fmt.Sprintf("onnxfile: constant %s has %d values for dimensions %v", name, len(values), dims))
	}
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	g.add(graphInitializer, m.bytes(tensorRaw, raw))
}

func tensorHead(name string, t Type, dims []int) (m message, count int64) {
	count = 1
	for _, d := range dims {
		m = m.varint(tensorDims, int64(d))
		count *= int64(d)
	}
	return m.varint(tensorType, int64(t)).text(tensorName, name), count
}

// Input declares an input; its first dimension is N, the open batch, and not in dims.
func (g *Graph) Input(name string, t Type, dims ...int64) { g.add(graphInput, info(name, t, dims)) }

// Output declares an output likewise.
func (g *Graph) Output(name string, t Type, dims ...int64) { g.add(graphOutput, info(name, t, dims)) }

func info(name string, t Type, dims []int64) message {
	shape := message(nil).bytes(shapeDim, message(nil).text(dimName, "N"))
	for _, d := range dims {
		shape = shape.bytes(shapeDim, message(nil).varint(dimValue, d))
	}
	typ := message(nil).varint(typeElement, int64(t)).bytes(typeShape, shape)
	return message(nil).text(infoName, name).bytes(infoType, message(nil).bytes(typeTensor, typ))
}

// size is the bytes of the encoded graph.
func (g *Graph) size() (n int64) {
	for _, p := range g.parts {
		n += int64(len(p.head)) + p.count*p.typ.Size()
	}
	return n
}
