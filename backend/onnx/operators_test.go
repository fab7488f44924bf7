package onnx

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is what a field with a length holds, behind another field that is passed over.
func message(number protowire.Number, b []byte) []byte {
	out := protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 7)
	return protowire.AppendBytes(protowire.AppendTag(out, number, protowire.BytesType), b)
}

func node(operator string, attributes ...[]byte) []byte {
	out := message(1, []byte("x"))
	out = append(out, message(nodeOperator, []byte(operator))...)
	for _, a := range attributes {
		out = append(out, message(nodeAttribute, a)...)
	}
	return out
}

func graph(nodes ...[]byte) (out []byte) {
	for _, n := range nodes {
		out = append(out, message(graphNode, n)...)
	}
	return append(out, message(5, make([]byte, 1000))...) // weights
}

func TestOperators(t *testing.T) {
	branch := node("If", message(attributeGraph, graph(node("Conv"))), message(attributeSubgraph, graph(node("Loop", message(attributeGraph, graph(node("Add")))))))
	model := append(message(modelGraph, graph(node("MatMul"), branch)), message(modelFunctions, message(functionNode, node("ConvTranspose")))...)
	var got []string
	if err := operators(model, func(name string) { got = append(got, name) }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"MatMul", "If", "Conv", "Loop", "Add", "ConvTranspose"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for n := range model {
		_ = operators(model[:n], func(string) {}) // what is cut off is an error or a shorter list, and no panic
	}
}

func TestPlansByShape(t *testing.T) {
	for name, c := range map[string]struct {
		file []byte
		want bool
	}{
		"none":      {message(modelGraph, graph(node("MatMul"), node("Relu"))), false},
		"some":      {message(modelGraph, graph(node("MatMul"), node("Conv"))), true},
		"in a loop": {message(modelGraph, graph(node("Loop", message(attributeGraph, graph(node("NhwcFusedConv")))))), true},
		"empty":     {nil, true},
		"no ONNX":   {[]byte("ORTM and so on"), true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.onnx")
			if err := os.WriteFile(path, c.file, 0o644); err != nil {
				t.Fatal(err)
			}
			if got := plansByShape(path); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
	if !plansByShape(filepath.Join(t.TempDir(), "none.onnx")) {
		t.Error("a file that is not there has no convolutions")
	}
}
