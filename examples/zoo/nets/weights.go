package nets

import (
	"hash/fnv"
	"math"

	"github.com/symphony-serving/symphony/examples/onnxfile"
)

const (
	biasRange = 0.2
	// reluGain makes up for what ReLU takes: of a normal x, max(x, 0) has 0.341 of x's variance.
	reluGain = 1.713
	// headGain is that of the last layer, whose input are means over places.
	headGain = 4
	drawBits = 24 // of a random number: a float32 has them exactly
)

// A constant's numbers depend on the model's seed and the constant's name alone. They are
// made of integers by one rounding each, so they are the same on every machine: no sum of
// products is taken that some machines would round only once.
func (b *builder) stream(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return onnxfile.Splitmix(b.seed^h.Sum64(), 0)
}

// draw is the k-th number of a stream, from -2^23 up to 2^23.
func draw(stream, k uint64) int64 {
	return int64(onnxfile.Splitmix(stream, k)>>(64-drawBits)) - 1<<(drawBits-1)
}

// unit is the factor that makes draws uniform numbers with a deviation.
func unit(deviation float64) float64 {
	return deviation * math.Sqrt(3) / (1 << (drawBits - 1))
}

// around gives n numbers uniform in centre-reach..centre+reach.
func (b *builder) around(name string, n int, centre, reach float32) onnxfile.Values {
	stream, step := b.stream(name), reach/(1<<(drawBits-1))
	return func(emit func([]float32)) {
		out := make([]float32, n)
		for i := range out {
			out[i] = centre + float32(float32(draw(stream, uint64(i)))*step)
		}
		emit(out)
	}
}

// filters gives rows of n inputs each that sum to zero and have the deviation
// gain/sqrt(n): an input of variance 1 becomes an output of gain^2. The mean is taken of
// integers, and that of a row of fewer than centredMin is left: nothing would remain.
func (b *builder) filters(name string, rows, n int, gain float64) onnxfile.Values {
	stream, step := b.stream(name), unit(gain/math.Sqrt(float64(n)))
	return func(emit func([]float32)) {
		row := make([]float32, n)
		for r := range rows {
			first, sum := uint64(r)*uint64(n), int64(0)
			for i := range row {
				sum += draw(stream, first+uint64(i))
			}
			mean := float64(sum) / float64(n)
			if n < centredMin {
				mean = 0
			}
			for i := range row {
				row[i] = float32((float64(draw(stream, first+uint64(i))) - mean) * step)
			}
			emit(row)
		}
	}
}

// centredMin tells dense filters from those of one channel (9 numbers): those that sum
// to zero would leave nothing of an even picture.
const centredMin = 16

// matrix gives rows x columns numbers, as a product with it from the left wants them: an
// input of variance 1 becomes an output of gain^2.
func (b *builder) matrix(name string, rows, columns int, gain float64) onnxfile.Values {
	return b.spread(name, rows, columns, gain/math.Sqrt(float64(rows)))
}

// spread gives rows of numbers with a deviation.
func (b *builder) spread(name string, rows, columns int, deviation float64) onnxfile.Values {
	stream, step := b.stream(name), float32(unit(deviation))
	return func(emit func([]float32)) {
		row := make([]float32, columns)
		for r := range rows {
			first := uint64(r) * uint64(columns)
			for i := range row {
				row[i] = float32(draw(stream, first+uint64(i))) * step
			}
			emit(row)
		}
	}
}
