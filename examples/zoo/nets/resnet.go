package nets

import (
	"fmt"

	"github.com/symphony-serving/symphony/examples/onnxfile"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// ResNet is a residual network of bottleneck blocks (He et al., 2015): ResNet50 has
// blocks of 3, 4, 6 and 3, a width of 64, pictures of 224 and 1000 classes. As there and
// in Keras, a stage's first block strides in its first convolution.
type ResNet struct {
	Blocks  []int // by stage; each stage doubles the channels, and all but the first halve the size
	Width   int   // channels inside the first stage's blocks; four times as many leave them
	Size    int   // pixels of an edge
	Classes int
}

// ResNet50 is the network of that name.
func ResNet50() ResNet { return ResNet{Blocks: []int{3, 4, 6, 3}, Width: 64, Size: 224, Classes: 1000} }

// Expansion is how many more channels leave a block than are inside.
const Expansion = 4

// branchGain damps what a block adds to what goes past it, as trained networks do: sums
// of many blocks stay small.
const branchGain = 0.5

// Inputs is a picture.
func (r ResNet) Inputs() []catalog.TensorSpec { return picture(r.Size) }

// Outputs are scores.
func (r ResNet) Outputs() []catalog.TensorSpec { return scores(r.Classes) }

// Item is a picture.
func (r ResNet) Item(seed uint64) []byte { return pictureItem(seed, r.Size) }

func (r ResNet) build(b *builder) {
	x := b.conv("stem", b.entry("image"), conv{in: 3, out: r.Width, k: 7, stride: 2, group: 1, gain: 1})
	x = b.node("Relu", "stem.relu", []string{x})
	x = b.node("MaxPool", "stem.pool", []string{x}, onnxfile.Ints("kernel_shape", 3, 3), onnxfile.Ints("strides", 2, 2), onnxfile.Ints("pads", 1, 1, 1, 1))
	in := r.Width
	for stage, blocks := range r.Blocks {
		inside := r.Width << stage
		for i := range blocks {
			stride := 1
			if stage > 0 && i == 0 {
				stride = 2
			}
			x = b.bottleneck(fmt.Sprintf("stage%d.%d", stage+1, i+1), x, in, inside, stride, i == 0)
			in = Expansion * inside
		}
	}
	b.head(x, in, r.Classes)
}

// bottleneck is a block; the first of a stage projects what goes past it.
func (b *builder) bottleneck(name, input string, in, inside, stride int, project bool) string {
	out := Expansion * inside
	y := b.conv(name+".conv1", input, conv{in: in, out: inside, k: 1, stride: stride, group: 1, gain: reluGain})
	y = b.node("Relu", name+".relu1", []string{y})
	y = b.conv(name+".conv2", y, conv{in: inside, out: inside, k: 3, stride: 1, group: 1, gain: reluGain})
	y = b.node("Relu", name+".relu2", []string{y})
	y = b.conv(name+".conv3", y, conv{in: inside, out: out, k: 1, stride: 1, group: 1, gain: branchGain})
	past := input
	if project {
		past = b.conv(name+".project", input, conv{in: in, out: out, k: 1, stride: stride, group: 1, gain: reluGain})
	}
	sum := b.node("Add", name+".sum", []string{y, past})
	return b.node("Relu", name, []string{sum})
}
