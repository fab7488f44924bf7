package reference

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/examples/zoo/nets"
)

// Run computes an item's outputs, as slabs have them.
func Run(n nets.Net, w *Weights, item []byte) ([]byte, error) {
	want := int64(0)
	for _, s := range n.Inputs() {
		want += s.ByteSize()
	}
	if int64(len(item)) != want {
		return nil, fmt.Errorf("an item of %d bytes, want %d", len(item), want)
	}
	var y []float32
	switch n := n.(type) {
	case nets.ResNet:
		y = resnet(n, w, pictureOf(item, n.Size))
	case nets.MobileNet:
		y = mobilenet(n, w, pictureOf(item, n.Size))
	case nets.Encoder:
		y = encoder(n, w, item)
	default:
		return nil, fmt.Errorf("there is no reference for %T", n)
	}
	if w.err != nil {
		return nil, w.err
	}
	var out []byte
	for _, v := range y {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out, nil
}

func pictureOf(item []byte, size int) plane {
	p := plane{3, size, make([]float32, 3*size*size)}
	for i := range p.v {
		p.v[i] = math.Float32frombits(binary.LittleEndian.Uint32(item[4*i:]))
	}
	return p
}

// layer is a convolution by its name.
func (w *Weights) layer(name string, x plane, out, k, stride, group int) plane {
	return x.convolve(w.get(name+".w", out, x.channels/group, k, k), w.get(name+".b", out), k, stride, group)
}

// scores are the last layer's; its rows are outputs.
func (w *Weights) scores(x plane, classes int) []float32 {
	features, rows, y := x.means(), w.get("head.w", classes, x.channels), w.get("head.b", classes)
	for c := range y {
		y[c] = float32(dot(rows[c*x.channels:(c+1)*x.channels], features) + float64(y[c]))
	}
	return y
}

func resnet(n nets.ResNet, w *Weights, x plane) []float32 {
	x = w.layer("stem", x, n.Width, 7, 2, 1)
	clip(x.v, 0, math.Inf(1))
	x = x.pool()
	for stage, blocks := range n.Blocks {
		inside := n.Width << stage
		for i := range blocks {
			name, stride := fmt.Sprintf("stage%d.%d", stage+1, i+1), 1
			if stage > 0 && i == 0 {
				stride = 2
			}
			y := w.layer(name+".conv1", x, inside, 1, stride, 1)
			clip(y.v, 0, math.Inf(1))
			y = w.layer(name+".conv2", y, inside, 3, 1, 1)
			clip(y.v, 0, math.Inf(1))
			y = w.layer(name+".conv3", y, nets.Expansion*inside, 1, 1, 1)
			if i == 0 {
				x = w.layer(name+".project", x, nets.Expansion*inside, 1, stride, 1)
			}
			add(y.v, x.v)
			clip(y.v, 0, math.Inf(1))
			x = y
		}
	}
	return w.scores(x, n.Classes)
}

func mobilenet(n nets.MobileNet, w *Weights, x plane) []float32 {
	x = w.layer("stem", x, n.Stem, 3, 2, 1)
	clip(x.v, 0, 6)
	for i, block := range n.Blocks {
		name := fmt.Sprint("block", i+1)
		x = w.layer(name+".depth", x, x.channels, 3, block.Stride, x.channels)
		clip(x.v, 0, 6)
		x = w.layer(name+".point", x, block.Channels, 1, 1, 1)
		clip(x.v, 0, 6)
	}
	return w.scores(x, n.Classes)
}

func encoder(n nets.Encoder, w *Weights, item []byte) []float32 {
	h := n.Hidden
	words, x := w.get("word.w", n.Vocabulary, h), w.get("place.w", n.Length, h)
	open := make([]bool, n.Length)
	for i := range open {
		id := int64(binary.LittleEndian.Uint64(item[8*i:]))
		id = min(max(id, 0), int64(n.Vocabulary)-1)
		open[i] = id != nets.Padding
		add(x[i*h:(i+1)*h], words[int(id)*h:])
	}
	w.normal("embedding", x, h)
	for i := range n.Layers {
		name := fmt.Sprint("layer", i+1)
		y := w.linear(name+".out", attention(n, w, name, x, open), h, h)
		add(y, x)
		w.normal(name+".attended", y, h)
		x = w.linear(name+".up", y, h, n.Inner)
		gelu(x)
		x = w.linear(name+".down", x, n.Inner, h)
		add(x, y)
		w.normal(name, x, h)
	}
	y := w.linear("pooler", x[:h], h, h)
	for i, v := range y {
		y[i] = float32(math.Tanh(float64(v)))
	}
	return y
}

func (w *Weights) linear(name string, x []float32, in, out int) []float32 {
	return linear(x, in, w.get(name+".w", in, out), w.get(name+".b", out))
}

func (w *Weights) normal(name string, x []float32, n int) {
	normalise(x, w.get(name+".scale", n), w.get(name+".shift", n), nets.Epsilon)
}

// attention gives each token the mean of all open tokens' values, weighted head by head.
func attention(n nets.Encoder, w *Weights, name string, x []float32, open []bool) []float32 {
	h, size := n.Hidden, n.Hidden/n.Heads
	q, k, v := w.linear(name+".query", x, h, h), w.linear(name+".key", x, h, h), w.linear(name+".value", x, h, h)
	y := make([]float32, len(x))
	parallel(n.Length*n.Heads, func(i int) {
		token, first := i/n.Heads, i%n.Heads*size
		of := func(m []float32, t int) []float32 { return m[t*h+first : t*h+first+size] }
		share := make([]float64, n.Length)
		for t := range share {
			share[t] = dot(of(q, token), of(k, t)) / math.Sqrt(float64(size))
			if !open[t] {
				share[t] += nets.Masked
			}
		}
		softmax(share)
		for d := range size {
			sum := 0.0
			for t, s := range share {
				sum += s * float64(of(v, t)[d])
			}
			y[token*h+first+d] = float32(sum)
		}
	})
	return y
}
