package bench

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/symphony-serving/symphony/examples/onnxfile"
)

// fastConfig is of the model that is served all the time, and that gets the load.
const fastConfig = "platform: onnxruntime\nslo: 20ms\nmax_batch: 8\n" +
	"inputs: [{name: x, type: FP32, shape: [8]}]\noutputs: [{name: y, type: FP32, shape: [8]}]\n"

// writeFast writes a model that does nothing.
func writeFast(dir string) error {
	g := onnxfile.NewGraph("fast")
	g.Node("Identity", []string{"x"}, "y")
	g.Input("x", onnxfile.Float32, 8)
	g.Output("y", onnxfile.Float32, 8)
	return saveModel(dir, fastConfig, g)
}

// writeSlow writes a small model of long runs: an item is so many products of 64 x 512 and
// 512 x 512 numbers, about 0.2 ms each on one processor.
func writeSlow(dir string, products int) error {
	g := onnxfile.NewGraph("slow")
	g.Constant("W", onnxfile.Float32, numbers(512*512, 1./512), 512, 512)
	from := "x"
	for i := range products {
		to := fmt.Sprintf("h%d", i)
		if i == products-1 {
			to = "y"
		}
		g.Node("MatMul", []string{from, "W"}, to)
		from = to
	}
	g.Input("x", onnxfile.Float32, 64, 512)
	g.Output("y", onnxfile.Float32, 64, 512)
	return saveModel(dir, "platform: onnxruntime\nslo: 2s\nmax_batch: 3\n"+
		"inputs: [{name: x, type: FP32, shape: [64, 512]}]\noutputs: [{name: y, type: FP32, shape: [64, 512]}]\n", g)
}

// writeLarge writes a model of 128 MB of weights, all of which each run reads.
func writeLarge(dir string) error {
	g := onnxfile.NewGraph("large")
	from := "x"
	for i := range 8 {
		w, to := fmt.Sprintf("W%d", i), fmt.Sprintf("h%d", i)
		if i == 7 {
			to = "y"
		}
		g.Constant(w, onnxfile.Float32, numbers(2048*2048, 1./2048), 2048, 2048)
		g.Node("MatMul", []string{from, w}, to)
		from = to
	}
	g.Input("x", onnxfile.Float32, 2048)
	g.Output("y", onnxfile.Float32, 2048)
	return saveModel(dir, "platform: onnxruntime\nslo: 1s\nmax_batch: 32\n"+
		"inputs: [{name: x, type: FP32, shape: [2048]}]\noutputs: [{name: y, type: FP32, shape: [2048]}]\n", g)
}

// numbers are n equal ones.
func numbers(n int, v float32) onnxfile.Values {
	return func(emit func([]float32)) {
		row := make([]float32, 4096)
		for i := range row {
			row[i] = v
		}
		for ; n > 0; n -= len(row) {
			emit(row[:min(n, len(row))])
		}
	}
}

func saveModel(dir, config string, g *onnxfile.Graph) error {
	m := &onnxfile.Model{Producer: "symphony bench newcomers", Graph: g}
	if _, err := m.Save(filepath.Join(dir, "1", "model.onnx"), ""); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o644)
}
