//go:build cgo

package backend

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/repository"
)

// field is a protobuf field with bytes (or text) in it.
func field(number byte, parts ...string) string {
	body := ""
	for _, p := range parts {
		body += p
	}
	return string(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(body)))) + body
}

func integer(number, v byte) string { return string([]byte{number << 3, v}) }

// reshaper is a model that claims a free batch dimension and runs only for the
// given batch size: within it lies a Reshape to the fixed shape [batch, 4];
// 0 there means: as many as came.
func reshaper(batch byte) string {
	shape := field(5, integer(1, 2), integer(2, 7), field(8, "shape"), field(9, string([]byte{batch, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0})))
	value := func(name string) string {
		dims := field(2, field(1, field(2, "N")), field(1, integer(1, 4)))
		return field(1, name) + field(2, field(1, integer(1, 1), dims))
	}
	// y = x + Reshape(x): the sum hides the fixed size from the file's output.
	nodes := field(1, field(1, "x"), field(1, "shape"), field(2, "z"), field(4, "Reshape")) +
		field(1, field(1, "x"), field(1, "z"), field(2, "y"), field(4, "Add"))
	return integer(1, 8) + field(7, nodes, field(2, "g"), shape, field(11, value("x")), field(12, value("y"))) + field(8, integer(2, 13))
}

// needONNX loads ONNX Runtime and returns the library's path; the test skips where it is
// not there.
func needONNX(t *testing.T) string {
	t.Helper()
	library := os.Getenv("SYMPHONY_ONNXRUNTIME")
	if library == "" {
		library = "../build/onnxruntime/libonnxruntime.so"
	}
	if err := onnx.Load(library); err != nil {
		if os.Getenv("SYMPHONY_REQUIRE_ONNXRUNTIME") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return library
}

// loadReshapers makes a repository of reshapers by name.
func loadReshapers(t *testing.T, batches map[string]byte) []repository.Model {
	t.Helper()
	dir := t.TempDir()
	for name, batch := range batches {
		config := "platform: onnxruntime\nslo: 50ms\nmax_batch: 2\n" +
			"inputs: [{name: x, type: FP32, shape: [4]}]\noutputs: [{name: y, type: FP32, shape: [4]}]\n"
		for file, text := range map[string]string{"config.yaml": config, "1/model.onnx": reshaper(batch)} {
			path := filepath.Join(dir, name, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	models, failed, err := repository.Load(dir)
	if err != nil || len(models) != len(batches) {
		t.Fatal(models, failed, err)
	}
	return models
}

// A model that loads but does not run for every batch size is left out; its
// neighbours are served.
func TestModelThatDoesNotRun(t *testing.T) {
	library := needONNX(t)
	models := loadReshapers(t, map[string]byte{"good": 0, "bad": 1})
	b := &Backend{cfg: Config{ONNXRuntime: library}, log: zerolog.Nop()}
	defer b.closeSnapshots()
	p, err := b.buildPool(t.Context(), PoolConfig{DeviceType: "cpu", Kind: KindCPU, Devices: 2}, models)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, d := range p.devices {
			d.Close()
		}
	}()
	if len(p.specs) != 1 || p.specs[0].Name != "good" || len(p.models) != 1 || len(p.devices) != 2 {
		t.Errorf("served: %+v", p.specs)
	}
}
