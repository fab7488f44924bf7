package main

import (
	"fmt"

	"github.com/symphony-serving/symphony/examples/onnxfile"
)

// build describes the whole model.
func build(layers []layer) *onnxfile.Model {
	g := onnxfile.NewGraph("digits-wide")
	constant := func(name string, values []float32, dims ...int) {
		g.Constant(name, onnxfile.Float32, onnxfile.Numbers(values...), dims...)
	}
	constant("steps", []float32{inputSteps})
	constant("zero", []float32{0})
	constant("top", []float32{top})
	g.Node("Flatten", []string{"image"}, "flat")
	g.Node("Mul", []string{"flat", "steps"}, "scaled")
	g.Node("Clip", []string{"scaled", "zero", "steps"}, "clipped")
	g.Node("Round", []string{"clipped"}, "x0")
	for i, l := range layers {
		w, b, y, c := fmt.Sprint("w", i), fmt.Sprint("b", i), fmt.Sprint("y", i), fmt.Sprint("c", i)
		constant(w, l.weights, l.inputs, l.outputs)
		constant(b, l.bias, l.outputs)
		if i == len(layers)-1 {
			g.Node("Gemm", []string{fmt.Sprint("x", i), w, b}, "logits")
			break
		}
		g.Node("Gemm", []string{fmt.Sprint("x", i), w, b}, y)
		g.Node("Clip", []string{y, "zero", "top"}, c)
		g.Node("Round", []string{c}, fmt.Sprint("x", i+1))
	}
	g.Node("Softmax", []string{"logits"}, "probabilities", onnxfile.Int("axis", -1))
	g.Input("image", onnxfile.Float32, 1, 8, 8)
	g.Output("probabilities", onnxfile.Float32, classes)
	return &onnxfile.Model{Producer: "symphony-digits", Graph: g}
}
