package snapshot

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend/repository"
)

const config = `platform: onnxruntime
slo: 50ms
max_batch: 16
inputs: [{name: x, type: FP32, shape: [1, 8, 8]}]
outputs: [{name: y, type: FP32, shape: [2]}]
`

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A copy stays as it was, whatever becomes of the files, until it is released; with the Store all go.
func TestTake(t *testing.T) {
	dir, base := t.TempDir(), t.TempDir()
	put(t, filepath.Join(dir, "m/config.yaml"), config)
	put(t, filepath.Join(dir, "m/1/model.onnx"), "graph")
	put(t, filepath.Join(dir, "m/1/w.bin"), "weights")
	models, _, err := repository.Load(dir)
	if err != nil || len(models) != 1 {
		t.Fatal(models, err)
	}
	s := Store{Base: base}
	own, release, err := s.Take(t.Context(), &models[0])
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "m/1/w.bin"), "")
	if err := os.Truncate(filepath.Join(dir, "m/1/model.onnx"), 0); err != nil {
		t.Fatal(err)
	}
	weights, err := os.ReadFile(filepath.Join(filepath.Dir(own.Path), "w.bin"))
	graph, err2 := os.ReadFile(own.Path)
	if string(weights) != "weights" || string(graph) != "graph" || err != nil || err2 != nil || own.Dir != models[0].Dir {
		t.Errorf("%q, %q, %v, %v", weights, graph, err, err2)
	}
	other, _, err := s.Take(t.Context(), &models[0])
	if err != nil || other.Path == own.Path {
		t.Errorf("%+v, %v", other, err)
	}
	release()
	release()
	if _, err := os.Stat(own.Files); !os.IsNotExist(err) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
}

// What a killed process left goes; what a living one has stays, and so does a folder that may be being made.
func TestSweep(t *testing.T) {
	base := t.TempDir()
	living, err := open(base)
	if err != nil {
		t.Fatal(err)
	}
	defer living.lock.Close()
	killed := filepath.Join(base, prefix+"1")
	put(t, filepath.Join(killed, lockFile), "")
	put(t, filepath.Join(killed, "1/model.onnx"), "")
	old, fresh, others := filepath.Join(base, prefix+"2"), filepath.Join(base, prefix+"3"), filepath.Join(base, "others")
	for _, dir := range []string{old, fresh, others} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * young)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	second, err := open(base)
	if err != nil {
		t.Fatal(err)
	}
	defer second.lock.Close()
	for dir, stays := range map[string]bool{living.dir: true, second.dir: true, fresh: true, others: true, killed: false, old: false} {
		if _, err := os.Stat(dir); (err == nil) != stays {
			t.Errorf("%s: %v, stays: %v", dir, err, stays)
		}
	}
}

// A copy that is asked for after the Store's end would stay for good: there is none.
func TestTakeAfterClose(t *testing.T) {
	dir, base := t.TempDir(), t.TempDir()
	put(t, filepath.Join(dir, "m/config.yaml"), config)
	put(t, filepath.Join(dir, "m/1/model.onnx"), "graph")
	models, _, err := repository.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := Store{Base: base}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Take(t.Context(), &models[0]); err == nil {
		t.Error("a copy is made after the end")
	}
	if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
}
