//go:build cgo

package onnx

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// load loads the library; without it the test is skipped, unless it was
// promised.
func load(t *testing.T) {
	t.Helper()
	path := os.Getenv("SYMPHONY_ONNXRUNTIME")
	if path == "" {
		path = "../../build/onnxruntime/libonnxruntime.so"
	}
	err := Load(path)
	if err != nil && os.Getenv("SYMPHONY_REQUIRE_ONNXRUNTIME") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
}

func digits(t *testing.T) repository.Model {
	t.Helper()
	models, _, err := repository.Load("../../examples/digits/models")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range models {
		if m.Spec.Name == "digits-cnn" {
			return m
		}
	}
	t.Fatal("no digits-cnn")
	return repository.Model{}
}

func batch(s *catalog.ModelSpec, n int) *executor.Batch {
	b := &executor.Batch{Size: n}
	for i := range n {
		in := bytes.Repeat([]byte{0, 0, 0, byte(60 + i%4)}, int(s.Inputs[0].Elements())) // small floats
		b.Inputs, b.Outputs = append(b.Inputs, in), append(b.Outputs, make([]byte, s.Outputs[0].ByteSize()))
	}
	return b
}

// Through the device as from the session itself, alone and in a batch.
func TestDeviceRunsTheModel(t *testing.T) {
	load(t)
	m := digits(t)
	var sessions []*Session
	for range 2 {
		s, err := Open(m.Path, &m.Spec, 1)
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, s)
	}
	defer sessions[1].Close()
	d := NewDevice(sessions[:1])
	for _, n := range []int{1, 7, 32, 7} {
		got, want := batch(&m.Spec, n), batch(&m.Spec, n)
		finished := make(chan error, 1)
		got.Finish = func(start, end mono.Time, err error) {
			if end <= start {
				t.Errorf("from %v to %v", start, end)
			}
			finished <- err
		}
		d.Launch(got)
		if err := <-finished; err != nil {
			t.Fatal(err)
		}
		if err := sessions[1].Run(want); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if !bytes.Equal(got.Outputs[i], want.Outputs[i]) || bytes.Equal(got.Outputs[i], make([]byte, 40)) {
				t.Errorf("batch of %d, item %d: %v, want %v", n, i, got.Outputs[i], want.Outputs[i])
			}
		}
	}
	d.Close()
	late := make(chan error, 1)
	d.Launch(&executor.Batch{Finish: func(_, _ mono.Time, err error) { late <- err }})
	if err := <-late; err == nil {
		t.Error("a closed device ran a batch")
	}
}

// What does not fit the file is refused with what differs.
func TestOpenChecksTheFile(t *testing.T) {
	load(t)
	for want, change := range map[string]func(*catalog.ModelSpec){
		`has no input "picture"`: func(s *catalog.ModelSpec) { s.Inputs[0].Name = "picture" },
		`has no output "scores"`: func(s *catalog.ModelSpec) { s.Outputs[0].Name = "scores" },
		"UINT8 in the config":    func(s *catalog.ModelSpec) { s.Inputs[0].Type = catalog.Uint8 },
		"[1 9 9] in the config":  func(s *catalog.ModelSpec) { s.Inputs[0].Shape = []int64{1, 9, 9} },
		"a batch dimension":      func(s *catalog.ModelSpec) { s.Inputs[0].Shape = []int64{64} },
	} {
		m := digits(t)
		change(&m.Spec)
		s, err := Open(m.Path, &m.Spec, 1)
		if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if s != nil {
			s.Close()
		}
	}
	m := digits(t)
	if _, err := Open("/does/not/exist.onnx", &m.Spec, 1); !errors.Is(err, ErrModel) {
		t.Errorf("missing file: %v", err)
	}
}

func TestLoadSaysWhatToDo(t *testing.T) {
	if err := Load("/does/not/exist.so"); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "make models") {
		t.Errorf("%v", err)
	}
}
