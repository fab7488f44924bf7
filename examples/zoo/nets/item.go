package nets

import (
	"encoding/binary"
	"math"

	"github.com/symphony-serving/symphony/examples/onnxfile"
	"github.com/symphony-serving/symphony/transport/catalog"
)

func picture(size int) []catalog.TensorSpec {
	return []catalog.TensorSpec{{Name: "image", Type: catalog.FP32, Shape: []int64{3, int64(size), int64(size)}}}
}

func scores(classes int) []catalog.TensorSpec {
	return []catalog.TensorSpec{{Name: "logits", Type: catalog.FP32, Shape: []int64{int64(classes)}}}
}

// patches of an edge have a colour of their own.
const patches = 4

// pictureItem is a picture as preprocessing would give it, with mean 0 and deviation 1:
// patches of colour, and grain.
func pictureItem(seed uint64, size int) []byte {
	out := make([]byte, 0, 3*4*size*size)
	colour, grain := onnxfile.Splitmix(seed, 0), onnxfile.Splitmix(seed, 1)
	for c := range 3 {
		for y := range size {
			for x := range size {
				patch := (c*patches+y*patches/size)*patches + x*patches/size
				at := (c*size+y)*size + x
				v := float64(float64(draw(colour, uint64(patch)))*unit(0.9)) + float64(float64(draw(grain, uint64(at)))*unit(0.43))
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(v)))
			}
		}
	}
	return out
}

// textItem begins with one token for all texts, has from half of the length up to all of
// it filled, and then padding.
func textItem(seed uint64, length, vocabulary int) []byte {
	filled := length/2 + int(onnxfile.Splitmix(seed, 0)%uint64(length-length/2+1))
	out := make([]byte, 0, 8*length)
	for i := range length {
		id := uint64(Padding)
		if i == 0 {
			id = 1
		} else if i < filled {
			id = 1 + onnxfile.Splitmix(seed, uint64(i))%uint64(vocabulary-1)
		}
		out = binary.LittleEndian.AppendUint64(out, id)
	}
	return out
}
