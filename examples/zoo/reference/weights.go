package reference

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/symphony-serving/symphony/examples/onnxfile"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// Weights are the constants of a file.
type Weights struct {
	tensors map[string]constant
	err     error // the first that was asked for and not there
}

type constant struct {
	dims []int
	typ  onnxfile.Type
	raw  []byte
}

// fields of onnx.proto on the way to a constant's bytes.
const (
	modelGraph, graphInitializer                  = 7, 5
	tensorDims, tensorType, tensorName, tensorRaw = 1, 2, 8, 9
)

// Open reads a file's constants.
func Open(path string) (*Weights, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	w := &Weights{tensors: map[string]constant{}}
	err = each(file, func(n protowire.Number, graph []byte, _ uint64) error {
		if n != modelGraph {
			return nil
		}
		return each(graph, func(n protowire.Number, tensor []byte, _ uint64) error {
			if n != graphInitializer {
				return nil
			}
			return w.read(tensor)
		})
	})
	if err == nil && len(w.tensors) == 0 {
		err = errors.New("no constants in it")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}

func (w *Weights) read(tensor []byte) error {
	var c constant
	name := ""
	err := each(tensor, func(n protowire.Number, b []byte, v uint64) error {
		switch n {
		case tensorDims:
			c.dims = append(c.dims, int(v))
		case tensorType:
			c.typ = onnxfile.Type(v)
		case tensorName:
			name = string(b)
		case tensorRaw:
			c.raw = b
		}
		return nil
	})
	w.tensors[name] = c
	return err
}

// each calls f for each field of a message that is bytes or an integer.
func each(m []byte, f func(n protowire.Number, b []byte, v uint64) error) error {
	for len(m) > 0 {
		n, typ, size := protowire.ConsumeTag(m)
		if size < 0 {
			return protowire.ParseError(size)
		}
		m = m[size:]
		var b []byte
		var v uint64
		switch typ {
		case protowire.BytesType:
			b, size = protowire.ConsumeBytes(m)
		case protowire.VarintType:
			v, size = protowire.ConsumeVarint(m)
		default:
			size = protowire.ConsumeFieldValue(n, typ, m)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		m = m[size:]
		if err := f(n, b, v); err != nil {
			return err
		}
	}
	return nil
}

// get is a constant of these dimensions. What is not there is zeros, and told by Run.
func (w *Weights) get(name string, dims ...int) []float32 {
	n := 1
	for _, d := range dims {
		n *= d
	}
	out := make([]float32, n)
	c, ok := w.tensors[name]
	if !ok || !slices.Equal(c.dims, dims) || len(c.raw) != n*int(c.typ.Size()) || c.typ != onnxfile.Float32 && c.typ != onnxfile.Float16 {
		if w.err == nil {
			w.err = fmt.Errorf("constant %s: want dimensions %v of numbers, the file has %v, type %d, %d bytes", name, dims, c.dims, c.typ, len(c.raw))
		}
		return out
	}
	for i := range out {
		if c.typ == onnxfile.Float16 {
			out[i] = catalog.FromHalf(binary.LittleEndian.Uint16(c.raw[2*i:]))
		} else {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(c.raw[4*i:]))
		}
	}
	return out
}
