//go:build cgo

package onnx

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// adder is an ONNX model of one node, y = x + w, whose weights w, four numbers, lie in the file "weights" beside it.
func adder() []byte {
	text := func(n protowire.Number, s string) []byte { return sized(n, []byte(s)) }
	entry := func(key, value string) []byte { return sized(13, append(text(1, key), text(2, value)...)) }
	number := func(n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), v)
	}
	join := func(all ...[]byte) []byte { return bytes.Join(all, nil) }
	value := func(name string) []byte {
		dims := join(sized(1, text(2, "N")), sized(1, number(1, 4)))
		return join(text(1, name), sized(2, sized(1, join(number(1, 1), sized(2, dims)))))
	}
	weights := join(number(1, 4), number(2, 1), text(8, "w"), entry("location", "weights"), entry("length", "16"), number(14, 1))
	g := join(sized(1, join(text(1, "x"), text(1, "w"), text(2, "y"), text(4, "Add"))), text(2, "g"), sized(5, weights), sized(11, value("x")), sized(12, value("y")))
	return join(number(1, 8), sized(7, g), sized(8, number(2, 13)))
}

func sized(n protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), b)
}

// What is checked is the bytes that sessions are made of, not what lies at the path by now; a file that is not there is looked for again.
func TestBytesAreChecked(t *testing.T) {
	load(t)
	d := digits(t)
	read := func() *cuda.File {
		f, err := cuda.ReadFile(d.Path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		return f
	}
	h, m := &host{free: 1 << 29}, &cuda.Model{Spec: &d.Spec, Path: "none.onnx", File: read(), Precision: cuda.FP32, Sizes: []int{1, 32}}
	p, err := hostRuntime().Load(h, h, m)
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Close()
	spec := d.Spec
	spec.Inputs = slices.Clone(spec.Inputs)
	spec.Inputs[0].Name = "picture"
	m.Spec, m.File = &spec, read()
	if _, err := hostRuntime().Load(h, h, m); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), `no input "picture"`) {
		t.Errorf("another specification: %v", err)
	}
	m.Spec = &d.Spec
	if p, err = hostRuntime().Load(h, h, m); err != nil {
		t.Fatalf("after a check that failed: %v", err)
	}
	_ = p.Close()
}

// Programs are made of a file in memory over and over, when the disk has it no more; weights that lie beside the file are found.
func TestProgramsOfAFileInMemory(t *testing.T) {
	load(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "model.onnx")
	for name, data := range map[string][]byte{"model.onnx": adder(), "weights": {0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64, 0, 0, 128, 64}} { // 1, 2, 3, 4
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	four := func(name string) []catalog.TensorSpec {
		return []catalog.TensorSpec{{Name: name, Type: catalog.FP32, Shape: []int64{4}}}
	}
	spec := &catalog.ModelSpec{Name: "adder", Version: "1", MaxBatch: 2, Inputs: four("x"), Outputs: four("y")}
	file, err := cuda.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := &cuda.Model{Spec: spec, Path: path, File: file, Precision: cuda.FP32, Sizes: []int{1, 2}}
	for round := range 3 {
		h := &host{free: 1 << 29}
		p, err := hostRuntime().Load(h, h, m)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		at := newPlace(t, spec)
		copy(at.in, bytes.Repeat([]byte{0, 0, 128, 63}, 8))
		if err := p.Bind(0, 2, []cuda.Ptr{address(at.in)}, []cuda.Ptr{address(at.out)}); err != nil {
			t.Fatal(err)
		}
		if err := p.Run(0, 2); err != nil {
			t.Fatal(err)
		}
		if want := bytes.Repeat([]byte{0, 0, 0, 64, 0, 0, 64, 64, 0, 0, 128, 64, 0, 0, 160, 64}, 2); !bytes.Equal(at.out, want) {
			t.Errorf("round %d: %v, want %v", round, at.out, want)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(path); err != nil { // the first one has checked it
			t.Fatal(err)
		}
	}
	if p := (&program{model: &cuda.Model{File: file, Provider: cuda.ProviderTensorRT}}); p.inMemory() {
		t.Error("TensorRT's provider would name its engines by nothing")
	}
	without := *m
	without.File = nil
	h := &host{free: 1 << 29}
	if _, err := hostRuntime().Load(h, h, &without); err == nil {
		t.Error("a file that is gone is read: this test shows nothing")
	}
}
