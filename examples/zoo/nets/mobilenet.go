package nets

import (
	"fmt"

	"github.com/symphony-serving/symphony/examples/onnxfile"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// MobileNet is version 1 (Howard et al., 2017): blocks of a convolution of 3x3 for each
// channel by itself and one of 1x1 over all channels.
type MobileNet struct {
	Stem    int     // channels of the first convolution, which halves the size
	Blocks  []Block // in order
	Size    int     // pixels of an edge
	Classes int
}

// Block says what leaves a block.
type Block struct{ Channels, Stride int }

// MobileNetV1 is the network of that name, at width 1.
func MobileNetV1() MobileNet {
	blocks := []Block{{64, 1}, {128, 2}, {128, 1}, {256, 2}, {256, 1}, {512, 2}}
	for range 5 {
		blocks = append(blocks, Block{512, 1})
	}
	return MobileNet{Stem: 32, Blocks: append(blocks, Block{1024, 2}, Block{1024, 1}), Size: 224, Classes: 1000}
}

// Inputs is a picture.
func (m MobileNet) Inputs() []catalog.TensorSpec { return picture(m.Size) }

// Outputs are scores.
func (m MobileNet) Outputs() []catalog.TensorSpec { return scores(m.Classes) }

// Item is a picture.
func (m MobileNet) Item(seed uint64) []byte { return pictureItem(seed, m.Size) }

func (m MobileNet) build(b *builder) {
	b.constant("zero", onnxfile.Numbers(0))
	b.constant("six", onnxfile.Numbers(6))
	relu6 := func(x string) string { return b.node("Clip", x+".relu", []string{x, "zero", "six"}) }
	x := relu6(b.conv("stem", b.entry("image"), conv{in: 3, out: m.Stem, k: 3, stride: 2, group: 1, gain: 1}))
	in := m.Stem
	for i, block := range m.Blocks {
		name := fmt.Sprint("block", i+1)
		x = relu6(b.conv(name+".depth", x, conv{in: in, out: in, k: 3, stride: block.Stride, group: in, gain: depthGain}))
		x = relu6(b.conv(name+".point", x, conv{in: in, out: block.Channels, k: 1, stride: 1, group: 1, gain: reluGain}))
		in = block.Channels
	}
	b.head(x, in, m.Classes)
}

// depthGain is that of filters of one channel, which see its mean, too.
const depthGain = 1.4
