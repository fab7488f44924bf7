package nets

import (
	"github.com/symphony-serving/symphony/examples/onnxfile"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// Net is an architecture with its sizes.
type Net interface {
	Inputs() []catalog.TensorSpec
	Outputs() []catalog.TensorSpec
	// Item is an item's inputs from a seed, one after the other: such as the network
	// could get, and of another seed other ones.
	Item(seed uint64) []byte
	build(b *builder)
}

// Precision is that of a file's weights and of what is computed with them. Inputs and
// outputs have the same types in all.
type Precision string

// Precisions of files. TF32 is no file's: it is how a device may run one of FP32.
const (
	FP32 Precision = "fp32"
	FP16 Precision = "fp16"
	TF32 Precision = "tf32"
)

// File describes the network's file, with weights drawn from the seed.
func File(name string, n Net, seed uint64, p Precision) *onnxfile.Model {
	b := &builder{g: onnxfile.NewGraph(name), seed: seed, typ: onnxfile.Float32}
	if p == FP16 {
		b.typ = onnxfile.Float16
	}
	for _, s := range n.Inputs() {
		b.g.Input(s.Name, elementType(s.Type), s.Shape...)
	}
	for _, s := range n.Outputs() {
		b.g.Output(s.Name, elementType(s.Type), s.Shape...)
	}
	n.build(b)
	return &onnxfile.Model{Producer: "symphony-zoo", Graph: b.g}
}

func elementType(t catalog.DataType) onnxfile.Type {
	if t == catalog.Int64 {
		return onnxfile.Int64
	}
	return onnxfile.Float32
}

// builder adds layers to a graph. A layer's constants and its output have its name.
type builder struct {
	g    *onnxfile.Graph
	seed uint64
	typ  onnxfile.Type // of weights and activations
}

func (b *builder) node(op, output string, inputs []string, attributes ...onnxfile.Attribute) string {
	b.g.Node(op, inputs, output, attributes...)
	return output
}

func (b *builder) constant(name string, v onnxfile.Values, dims ...int) string {
	b.g.Constant(name, b.typ, v, dims...)
	return name
}

// entry takes a float32 input into the precision of the network, exit gives an output back.
func (b *builder) entry(input string) string {
	if b.typ == onnxfile.Float32 {
		return input
	}
	return b.node("Cast", input+".cast", []string{input}, onnxfile.Int("to", int64(b.typ)))
}

func (b *builder) exit(op, output string, inputs []string, attributes ...onnxfile.Attribute) {
	if b.typ == onnxfile.Float32 {
		b.node(op, output, inputs, attributes...)
		return
	}
	x := b.node(op, output+".cast", inputs, attributes...)
	b.node("Cast", output, []string{x}, onnxfile.Int("to", int64(onnxfile.Float32)))
}

// conv is a convolution with bias: k x k, padded so that a stride of 1 keeps the size.
// A group of 1 is the common one, and of `in` one filter a channel.
type conv struct {
	in, out, k, stride, group int
	gain                      float64
}

func (b *builder) conv(name, input string, c conv) string {
	w := b.constant(name+".w", b.filters(name+".w", c.out, c.in/c.group*c.k*c.k, c.gain), c.out, c.in/c.group, c.k, c.k)
	bias := b.constant(name+".b", b.around(name+".b", c.out, 0, biasRange), c.out)
	k, s, p := int64(c.k), int64(c.stride), int64(c.k/2)
	return b.node("Conv", name, []string{input, w, bias}, onnxfile.Ints("kernel_shape", k, k),
		onnxfile.Ints("strides", s, s), onnxfile.Ints("pads", p, p, p, p), onnxfile.Int("group", int64(c.group)))
}

// head is what ends both networks for images: mean over the places, a linear layer.
func (b *builder) head(input string, channels, classes int) {
	x := b.node("GlobalAveragePool", "pool", []string{input})
	x = b.node("Flatten", "features", []string{x})
	w := b.constant("head.w", b.filters("head.w", classes, channels, headGain), classes, channels)
	bias := b.constant("head.b", b.around("head.b", classes, 0, biasRange), classes)
	b.exit("Gemm", "logits", []string{x, w, bias}, onnxfile.Int("transB", 1))
}
