package reference

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/examples/onnxfile"
	"github.com/symphony-serving/symphony/examples/zoo/agree"
	"github.com/symphony-serving/symphony/examples/zoo/nets"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// load loads ONNX Runtime; without it the test is skipped, unless it was promised.
func load(t *testing.T) {
	t.Helper()
	path := os.Getenv("SYMPHONY_ONNXRUNTIME")
	if path == "" {
		path = "../../../build/onnxruntime/libonnxruntime.so"
	}
	err := onnx.Load(path)
	if err != nil && os.Getenv("SYMPHONY_REQUIRE_ONNXRUNTIME") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
}

// small are the zoo's architectures, with all that is special in them, in little.
func small() map[string]nets.Net {
	return map[string]nets.Net{
		"resnet":    nets.ResNet{Blocks: []int{2, 1, 2}, Width: 16, Size: 64, Classes: 20},
		"mobilenet": nets.MobileNet{Stem: 16, Blocks: []nets.Block{{Channels: 24, Stride: 1}, {Channels: 32, Stride: 2}, {Channels: 32, Stride: 1}}, Size: 32, Classes: 20},
		"encoder":   nets.Encoder{Layers: 3, Hidden: 48, Heads: 4, Inner: 96, Length: 12, Vocabulary: 100},
	}
}

// file writes a network's file.
func file(t *testing.T, name string, n nets.Net, p nets.Precision) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".onnx")
	if _, err := nets.File(name, n, 7, p).Save(path, ""); err != nil {
		t.Fatal(err)
	}
	return path
}

// infer runs a batch on the CPU device.
func infer(t *testing.T, path string, n nets.Net, items ...[]byte) [][]byte {
	t.Helper()
	s, err := onnx.Open(path, &catalog.ModelSpec{Name: path, MaxBatch: 4, Inputs: n.Inputs(), Outputs: n.Outputs()}, 1)
	if err != nil {
		t.Fatal(err)
	}
	d := onnx.NewDevice([]*onnx.Session{s})
	defer d.Close()
	finished := make(chan error, 1)
	b := &executor.Batch{Size: len(items), Inputs: items, Finish: func(_, _ mono.Time, err error) { finished <- err }}
	for range items {
		b.Outputs = append(b.Outputs, make([]byte, n.Outputs()[0].ByteSize()))
	}
	d.Launch(b)
	if err := <-finished; err != nil {
		t.Fatal(err)
	}
	return b.Outputs
}

// Our device and this package agree, item by item in a batch, in both precisions; and
// what they agree on depends on the input by far more than they may differ.
func TestDeviceAgrees(t *testing.T) {
	load(t)
	for name, n := range small() {
		t.Run(name, func(t *testing.T) {
			path := file(t, name, n, nets.FP32)
			w, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			items := [][]byte{n.Item(1), n.Item(2), n.Item(3)}
			want := make([][]byte, len(items))
			for i := range items {
				if want[i], err = Run(n, w, items[i]); err != nil {
					t.Fatal(err)
				}
			}
			for p, tolerance := range map[nets.Precision]float64{nets.FP32: agree.Same, nets.FP16: agree.Tolerance(nets.FP16)} {
				got := infer(t, file(t, name, n, p), n, items...)
				for i := range got {
					d, err := agree.Outputs(n.Outputs(), got[i], want[i])
					if err == nil {
						err = d.Within(tolerance)
					}
					if err != nil {
						t.Errorf("%s, item %d: %v", p, i, err)
					}
					t.Logf("%s, item %d: relative %.2g, absolute %.2g", p, i, d.Relative, d.Absolute)
				}
			}
			if d, err := agree.Outputs(n.Outputs(), want[0], want[1]); err != nil || d.Relative < 0.1 {
				t.Errorf("two inputs differ by %+v, %v", d, err)
			}
		})
	}
}

// Each constant matters: with any one of them changed the reference says something else.
// So nothing of the agreement is by chance, or by a constant that nobody uses.
func TestEveryConstantMatters(t *testing.T) {
	for name, n := range small() {
		path := file(t, name, n, nets.FP32)
		w, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		item := n.Item(1)
		right, err := Run(n, w, item)
		if err != nil {
			t.Fatal(err)
		}
		for key, c := range w.tensors {
			if !strings.Contains(key, ".") { // shapes, limits and the like are no weights
				continue
			}
			changed := c
			changed.raw = make([]byte, len(c.raw))
			w.tensors[key] = changed
			got, err := Run(n, w, item)
			w.tensors[key] = c
			if d, err2 := agree.Outputs(n.Outputs(), got, right); err != nil || err2 != nil || d.Relative < 10*agree.Same {
				// A key's bias adds the same to all scores of a query, which softmax does not see.
				if !strings.HasSuffix(key, ".key.b") {
					t.Errorf("%s: without %s the output differs by %+v, %v, %v", name, key, d, err, err2)
				}
			}
		}
	}
}

// Tokens outside of the vocabulary count as the nearest, and padding is not attended to.
func TestTokens(t *testing.T) {
	load(t)
	n := nets.Encoder{Layers: 1, Hidden: 16, Heads: 2, Inner: 32, Length: 4, Vocabulary: 10}
	tokens := func(ids ...int64) (out []byte) {
		for _, id := range ids {
			for shift := range 8 {
				out = append(out, byte(id>>(8*shift)))
			}
		}
		return out
	}
	got := infer(t, file(t, "encoder", n, nets.FP32), n, tokens(1, 9, -5, 3), tokens(1, 1<<40, 0, 3), tokens(1, 9, 2, 3))
	if d, err := agree.Outputs(n.Outputs(), got[0], got[1]); err != nil || d.Relative > agree.Same {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := agree.Outputs(n.Outputs(), got[0], got[2]); err != nil || d.Relative < 10*agree.Same {
		t.Errorf("a token in place of padding changed nothing: %+v, %v", d, err)
	}
}

// What does not fit is an error that says what.
func TestRefuses(t *testing.T) {
	n := small()["resnet"].(nets.ResNet)
	path := file(t, "resnet", n, nets.FP32)
	w, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(n, w, nil); err == nil || !strings.Contains(err.Error(), "0 bytes") {
		t.Errorf("%v", err)
	}
	n.Blocks = []int{2, 2, 2}
	if _, err := Run(n, w, n.Item(1)); err == nil || !strings.Contains(err.Error(), "stage2.2.conv1.w") {
		t.Errorf("%v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.onnx")
	for _, n := range []int{0, 1, 20, len(b) / 2, len(b) - 30} {
		if err := os.WriteFile(cut, b[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(cut); err == nil {
			t.Errorf("%d of %d bytes were enough", n, len(b))
		}
	}
}

// The operators by hand.
func TestOperators(t *testing.T) {
	near := func(what string, got []float32, want ...float32) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
		for i := range got {
			if math.Abs(float64(got[i]-want[i])) > 1e-5 {
				t.Errorf("%s: %v, want %v", what, got, want)
				return
			}
		}
	}
	square := plane{1, 3, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9}}
	near("convolve", square.convolve([]float32{1, 2, 3, 4, 5, 6, 7, 8, 9}, []float32{1}, 3, 2, 1).v, 95, 107, 107, 95)
	near("pool", square.pool().v, 5, 6, 8, 9)
	near("means", square.means(), 5)
	near("linear", linear([]float32{1, 2, 3, 4}, 2, []float32{1, 10, 100, 1000, 0, 5}, []float32{0, 1, 2}), 2001, 11, 112, 4003, 31, 322)
	x := []float32{1, 2, 3, 4}
	normalise(x, []float32{1, 1, 1, 2}, []float32{0, 0, 0, 1}, 0)
	near("normalise", x, -1.3416408, -0.4472136, 0.4472136, 2*1.3416408+1)
	x = []float32{-1, 0, 2}
	gelu(x)
	near("gelu", x, -0.15865525, 0, 1.9544997)
	s := []float64{0, math.Log(3), -1e4}
	softmax(s)
	near("softmax", []float32{float32(s[0]), float32(s[1]), float32(s[2])}, 0.25, 0.75, 0)
}

// Items of a seed are the same, of another others, and as long as the inputs.
func TestItems(t *testing.T) {
	for name, n := range small() {
		a, b, again := n.Item(1), n.Item(2), n.Item(1)
		if !bytes.Equal(a, again) || bytes.Equal(a, b) || int64(len(a)) != n.Inputs()[0].ByteSize() {
			t.Errorf("%s: %d bytes", name, len(a))
		}
	}
	if onnxfile.Splitmix(1, 0) == onnxfile.Splitmix(2, 0) {
		t.Error("seeds do not matter")
	}
}
