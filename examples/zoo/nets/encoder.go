package nets

import (
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/examples/onnxfile"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// Encoder is a transformer's encoder as BERT has it (Devlin et al., 2018): embeddings of
// tokens and places, layers of attention and GELU with normalisation after each sum, and
// tanh of a linear layer of the first token. There is one kind of segment, whose
// embedding is in that of the places.
//
// Its input are token ids. A 0 is padding, which nothing attends to. An id outside of the
// vocabulary counts as the nearest one: a device would refuse it, and the batch with it.
type Encoder struct {
	Layers, Hidden, Heads int
	Inner                 int // width of the layers between
	Length                int // tokens
	Vocabulary            int
}

// BERTBase has the sizes of BERT base, for 128 tokens.
func BERTBase() Encoder {
	return Encoder{Layers: 12, Hidden: 768, Heads: 12, Inner: 3072, Length: 128, Vocabulary: 30522}
}

const (
	// Epsilon is added to variances when they are divided by.
	Epsilon = 1e-5
	// Masked is added to the scores of padding; float16 has it.
	Masked = -10000
	// Padding is the token that is none.
	Padding = 0

	attentionGain = 1.5 // of what attention gives: means of many tokens are small
	innerGain     = 1.5 // of what GELU leaves
)

// Inputs are the tokens.
func (e Encoder) Inputs() []catalog.TensorSpec {
	return []catalog.TensorSpec{{Name: "tokens", Type: catalog.Int64, Shape: []int64{int64(e.Length)}}}
}

// Outputs is what is made of the first token.
func (e Encoder) Outputs() []catalog.TensorSpec {
	return []catalog.TensorSpec{{Name: "pooled", Type: catalog.FP32, Shape: []int64{int64(e.Hidden)}}}
}

// Item is a text of some length, and padding.
func (e Encoder) Item(seed uint64) []byte { return textItem(seed, e.Length, e.Vocabulary) }

func (e Encoder) build(b *builder) {
	e.shared(b)
	b.node("Clip", "ids", []string{"tokens", "first", "last"})
	b.constant("word.w", b.spread("word.w", e.Vocabulary, e.Hidden, 1), e.Vocabulary, e.Hidden)
	b.node("Gather", "word", []string{"word.w", "ids"})
	b.constant("place.w", b.spread("place.w", e.Length, e.Hidden, 0.5), e.Length, e.Hidden)
	b.node("Add", "embedded", []string{"word", "place.w"})
	x := b.normal("embedding", "embedded", e.Hidden)
	b.node("Equal", "padded", []string{"ids", "padding"})
	b.node("Where", "bias", []string{"padded", "masked", "open"})
	b.node("Unsqueeze", "mask", []string{"bias", "middle"})
	for i := range e.Layers {
		x = e.layer(b, fmt.Sprint("layer", i+1), x)
	}
	x = b.node("Gather", "pooler.first", []string{x, "place0"}, onnxfile.Int("axis", 1))
	x = b.linear("pooler", x, e.Hidden, e.Hidden, 1)
	b.exit("Tanh", "pooled", []string{x})
}

// shared are the constants that all layers use.
func (e Encoder) shared(b *builder) {
	hidden, heads := int64(e.Hidden), int64(e.Heads)
	b.g.Integers("first", []int64{0})
	b.g.Integers("last", []int64{int64(e.Vocabulary) - 1})
	b.g.Integers("padding", []int64{Padding})
	b.g.Integers("place0", []int64{0})
	b.g.Integers("middle", []int64{1, 2}, 2)
	b.g.Integers("apart", []int64{0, int64(e.Length), heads, hidden / heads}, 4)
	b.g.Integers("joined", []int64{0, int64(e.Length), hidden}, 3)
	b.constant("masked", onnxfile.Numbers(Masked))
	b.constant("open", onnxfile.Numbers(0))
	b.constant("scale", onnxfile.Numbers(float32(math.Sqrt(float64(hidden/heads)))))
	b.constant("root2", onnxfile.Numbers(math.Sqrt2))
	b.constant("one", onnxfile.Numbers(1))
	b.constant("half", onnxfile.Numbers(0.5))
}

func (e Encoder) layer(b *builder, name, x string) string {
	y := b.linear(name+".out", e.attention(b, name, x), e.Hidden, e.Hidden, attentionGain)
	x = b.normal(name+".attended", b.node("Add", name+".sum1", []string{y, x}), e.Hidden)
	y = b.gelu(name+".gelu", b.linear(name+".up", x, e.Hidden, e.Inner, 1))
	y = b.linear(name+".down", y, e.Inner, e.Hidden, innerGain)
	return b.normal(name, b.node("Add", name+".sum2", []string{y, x}), e.Hidden)
}

// attention is softmax(QK'/sqrt(d) + mask)V for each head, joined.
func (e Encoder) attention(b *builder, name, x string) string {
	part := func(which string, gain float64, order ...int64) string {
		y := b.linear(name+"."+which, x, e.Hidden, e.Hidden, gain)
		y = b.node("Reshape", y+".apart", []string{y, "apart"})
		return b.node("Transpose", y+".turned", []string{y}, onnxfile.Ints("perm", order...))
	}
	q := part("query", 1, 0, 2, 1, 3)
	k := part("key", 1, 0, 2, 3, 1)
	v := part("value", 1, 0, 2, 1, 3)
	s := b.node("MatMul", name+".product", []string{q, k})
	s = b.node("Div", name+".scaled", []string{s, "scale"})
	s = b.node("Add", name+".masked", []string{s, "mask"})
	s = b.node("Softmax", name+".attention", []string{s}, onnxfile.Int("axis", -1))
	y := b.node("MatMul", name+".mixed", []string{s, v})
	y = b.node("Transpose", name+".turned", []string{y}, onnxfile.Ints("perm", 0, 2, 1, 3))
	return b.node("Reshape", name+".joined", []string{y, "joined"})
}

// linear is x*w + b over the last dimension.
func (b *builder) linear(name, x string, in, out int, gain float64) string {
	w := b.constant(name+".w", b.matrix(name+".w", in, out, gain), in, out)
	bias := b.constant(name+".b", b.around(name+".b", out, 0, biasRange), out)
	return b.node("Add", name, []string{b.node("MatMul", name+".product", []string{x, w}), bias})
}

// normal is layer normalisation over the last dimension.
func (b *builder) normal(name, x string, n int) string {
	scale := b.constant(name+".scale", b.around(name+".scale", n, 1, 0.2), n)
	shift := b.constant(name+".shift", b.around(name+".shift", n, 0, biasRange), n)
	return b.node("LayerNormalization", name, []string{x, scale, shift}, onnxfile.Int("axis", -1), onnxfile.Float("epsilon", Epsilon))
}

// gelu is x*(1+erf(x/sqrt(2)))/2.
func (b *builder) gelu(name, x string) string {
	y := b.node("Div", name+".scaled", []string{x, "root2"})
	y = b.node("Erf", name+".erf", []string{y})
	y = b.node("Add", name+".plus", []string{y, "one"})
	y = b.node("Mul", name+".times", []string{x, y})
	return b.node("Mul", name, []string{y, "half"})
}
