package main

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/examples/onnxfile"
)

// The network's numbers. ../wide.py has the same for training; train.py
// demands that both networks agree.
const (
	inputSteps  = 64 // the input 0..1 in steps of 1/64
	pixels      = 64
	width       = 2048
	classes     = 10
	top         = 63 // activations are the integers 0..63
	middleRange = 15 // random weights are the integers -15..15 ...
	middleBits  = 8  // ... times 2^-8
	firstBits   = 8  // trained weights are integers -127..127 times 2^-bits
	lastBits    = 14
)

// layer is one linear layer: weights row by row (input, then output).
type layer struct {
	inputs, outputs int
	weights, bias   []float32
}

// network makes the layers: the first and the last from the trained bytes,
// the two large ones between from seeds. Weights are small integers times a
// power of two, so that every sum is exact in float32 and its order does not
// matter: an image has the same answer alone and in a batch, on every machine.
func network(trained []byte) ([]layer, error) {
	const want = (pixels+classes)*width + 4*(width+classes)
	if len(trained) != want {
		return nil, fmt.Errorf("trained.bin has %d bytes, want %d: run train.py again", len(trained), want)
	}
	first, rest := decode(trained, pixels, width, firstBits)
	last, _ := decode(rest, width, classes, lastBits)
	return []layer{first, middle(1001), middle(1002), last}, nil
}

// middle is a random layer without bias.
func middle(seed uint64) layer {
	return layer{inputs: width, outputs: width, weights: integers(seed, width*width, middleRange, middleBits), bias: make([]float32, width)}
}

// decode reads a trained layer: weights as signed bytes row by row, then the
// bias as little-endian int32, all in units of 2^-bits.
func decode(b []byte, inputs, outputs, bits int) (layer, []byte) {
	l := layer{inputs: inputs, outputs: outputs, weights: make([]float32, inputs*outputs), bias: make([]float32, outputs)}
	for i := range l.weights {
		l.weights[i] = scaled(int64(int8(b[i])), bits)
	}
	b = b[len(l.weights):]
	for i := range l.bias {
		l.bias[i] = scaled(int64(int32(binary.LittleEndian.Uint32(b[4*i:]))), bits)
	}
	return l, b[4*outputs:]
}

// integers draws n uniform integers -limit..limit, times 2^-bits.
func integers(seed uint64, n int, limit uint64, bits int) []float32 {
	out := make([]float32, n)
	for i := range out {
		v := (onnxfile.Splitmix(seed, uint64(i)) >> 32) * (2*limit + 1) >> 32
		out[i] = scaled(int64(v)-int64(limit), bits)
	}
	return out
}

// scaled is v*2^-bits: exact for the small integers used here.
func scaled(v int64, bits int) float32 {
	return float32(math.Ldexp(float64(v), -bits))
}
