package backend

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// What cannot be read by its config.yaml is listed with the reason, at the start and later, until it is mended or goes.
func TestUnreadModelsAreListed(t *testing.T) {
	defer goleak.VerifyNone(t)
	const text = "platform: onnxruntime\nslo: 50ms\nmax_batch: 4\ninputs: [{name: x, type: BYTES, shape: [1]}]\noutputs: [{name: y, type: FP32, shape: [1]}]\n"
	x := newWatching(t, map[string]string{"m": emulatedModel, "atstart": text})
	defer x.end()
	if got := x.until("atstart/1", catalog.StateFailed); !strings.Contains(got.Error, "BYTES") || !got.Local {
		t.Errorf("told %+v", got)
	}
	for dir, file := range map[string]string{"later/5": "", "triton/2": "config.pbtxt", "notes": ""} {
		if err := os.MkdirAll(filepath.Join(x.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if file != "" {
			if err := os.WriteFile(filepath.Join(x.dir, filepath.Dir(dir), file), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	x.look()
	if got := x.until("later/5", catalog.StateFailed); !strings.Contains(got.Error, "no such file") {
		t.Errorf("told %+v", got)
	}
	if got := x.until("triton/2", catalog.StateFailed); !strings.Contains(got.Error, "write a config.yaml") {
		t.Errorf("told %+v", got)
	}
	if told := x.states("notes/1"); len(told) > 0 {
		t.Errorf("a folder without a config.yaml and without versions is told as a model: %v", told)
	}
	x.write(t, "later", strings.Replace(text, "slo: 50ms", "slow: 50ms", 1))
	x.look()
	x.wait("another mistake", func() bool {
		got := x.last("later/5")
		return got.State == catalog.StateFailed && strings.Contains(got.Error, "slow")
	})
	x.write(t, "atstart", emulatedModel)
	if err := os.RemoveAll(filepath.Join(x.dir, "later")); err != nil {
		t.Fatal(err)
	}
	x.look()
	x.until("atstart/1", catalog.StateReady, 0, 1)
	x.until("later/5", catalog.StateGone)
}

// A model that was listed by the first pool while it could not be read is not served by that pool if it is another's.
func TestMendedModelOfAnotherPool(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"m": emulatedModel})
	defer x.end()
	x.write(t, "new", "platform: onnxruntime\ndevice_type: other\nslo: 50ms\nmax_batch: 4\ninputs: [{name: x, type: FP32, shape: [1]}]\noutputs: [{name: y, type: FP32, shape: [1]}]\n")
	if err := os.Mkdir(filepath.Join(x.dir, "new", "3"), 0o755); err != nil {
		t.Fatal(err)
	}
	x.look()
	x.until("new/3", catalog.StateFailed)
	if err := os.WriteFile(filepath.Join(x.dir, "new", "3", "model.onnx"), []byte("graph"), 0o644); err != nil {
		t.Fatal(err)
	}
	x.wait("it is tried again", func() bool { return strings.Contains(x.last("new/3").Error, "of device type \"other\"") })
}
