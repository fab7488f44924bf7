//go:build cgo

package onnx

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unsafe"

	ort "github.com/yalue/onnxruntime_go"
	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// host is the host as a device: its memory has addresses, too. All of a program but the
// device itself runs on it.
type host struct {
	cuda.Context
	cuda.Stream
	free int64
}

func (h *host) Close() error    { return nil }
func (h *host) Info() cuda.Info { return cuda.Info{Name: "host"} }
func (h *host) Handle() uintptr { return 0 }

func (h *host) EndCapture() error { return nil }

// Memory shrinks with each look: as if something was taken between two.
func (h *host) Memory() (free, total int64, err error) {
	h.free -= 100
	return h.free, 1 << 30, nil
}

func hostRuntime() *CUDA {
	return &CUDA{place: "Cpu", provide: func(*ort.SessionOptions, int, uintptr, *cuda.Model) error { return nil }}
}

// memory is mapped: ONNX Runtime keeps the addresses.
func memory(t *testing.T, bytes int64) []byte {
	t.Helper()
	m, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	return m
}

func address(m []byte) cuda.Ptr { return cuda.Ptr(uintptr(unsafe.Pointer(&m[0]))) }

// place is a slot's memory.
type place struct{ in, out []byte }

func newPlace(t *testing.T, s *catalog.ModelSpec) place {
	n := int64(s.MaxBatch)
	return place{memory(t, n*s.Inputs[0].ByteSize()), memory(t, n*s.Outputs[0].ByteSize())}
}

func loadDigits(t *testing.T, graphs cuda.Graphs) (cuda.Program, *cuda.Model) {
	t.Helper()
	load(t)
	m := digits(t)
	model := &cuda.Model{Spec: &m.Spec, Path: m.Path, Precision: cuda.FP32, Graphs: graphs, Sizes: []int{1, 7, 32}}
	h := &host{free: 1 << 29}
	p, err := hostRuntime().Load(h, h, model)
	if err != nil {
		t.Fatal(err)
	}
	return p, model
}

// Batches of each size, in two slots, over plain addresses: as the session computes them.
func TestProgramRunsOverAddresses(t *testing.T) { runOverAddresses(t, cuda.GraphsOff) }

// The same with run options of its own for each slot and size, as graphs have them. (On a
// CPU there are no graphs.)
func TestProgramWithGraphs(t *testing.T) { runOverAddresses(t, cuda.GraphsOn) }

func runOverAddresses(t *testing.T, graphs cuda.Graphs) {
	p, m := loadDigits(t, graphs)
	want, err := Open(m.Path, m.Spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	slots := []place{newPlace(t, m.Spec), newPlace(t, m.Spec)}
	for slot, at := range slots {
		for _, size := range m.Sizes {
			if err := p.Bind(slot, size, []cuda.Ptr{address(at.in)}, []cuda.Ptr{address(at.out)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	in, out := int(m.Spec.Inputs[0].ByteSize()), int(m.Spec.Outputs[0].ByteSize())
	for i := range 30 {
		slot, size := i%2, m.Sizes[r.IntN(len(m.Sizes))]
		at := slots[slot]
		b := &executor.Batch{Size: size}
		for item := range size {
			for k := range in / 4 {
				copy(at.in[item*in+4*k:], []byte{0, 0, byte(r.IntN(256)), 62})
			}
			b.Inputs, b.Outputs = append(b.Inputs, at.in[item*in:(item+1)*in]), append(b.Outputs, make([]byte, out))
		}
		if err := p.Run(slot, size); err != nil {
			t.Fatal(err)
		}
		if err := want.Run(b); err != nil {
			t.Fatal(err)
		}
		for item := range size {
			if got := at.out[item*out : (item+1)*out]; !bytes.Equal(got, b.Outputs[item]) || bytes.Equal(got, make([]byte, out)) {
				t.Fatalf("seed %d, run %d: batch of %d in slot %d, item %d: %v, want %v", seed, i, size, slot, item, got, b.Outputs[item])
			}
		}
	}
	// Loading took something, and the first run of each slot and size, and no other.
	if held := p.Memory(); held != 100*int64(1+len(slots)*len(m.Sizes)) {
		t.Errorf("it holds %d", held)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// A run allocates nothing of Go's heap.
func TestProgramAllocatesNothing(t *testing.T) {
	p, m := loadDigits(t, cuda.GraphsOff)
	defer p.Close()
	at := newPlace(t, m.Spec)
	for _, size := range m.Sizes {
		if err := p.Bind(1, size, []cuda.Ptr{address(at.in)}, []cuda.Ptr{address(at.out)}); err != nil {
			t.Fatal(err)
		}
	}
	run := func() {
		for _, size := range m.Sizes {
			if err := p.Run(1, size); err != nil {
				t.Fatal(err)
			}
		}
	}
	run()
	if n := testing.AllocsPerRun(50, run); n != 0 {
		t.Errorf("%v allocs, want 0", n)
	}
}

// What cannot be bound or was not is an error, not a crash.
func TestProgramRefuses(t *testing.T) {
	p, m := loadDigits(t, cuda.GraphsOff)
	defer p.Close()
	at := newPlace(t, m.Spec)
	one, none := []cuda.Ptr{address(at.in)}, []cuda.Ptr{}
	for _, c := range []struct {
		slot, size int
		in, out    []cuda.Ptr
	}{{0, 0, one, one}, {0, 33, one, one}, {-1, 1, one, one}, {slotsMost, 1, one, one}, {0, 1, none, one}, {0, 1, one, none}, {0, 5, one, one}} {
		if err := p.Bind(c.slot, c.size, c.in, c.out); err == nil {
			t.Errorf("bound: %+v", c)
		}
	}
	if err := p.Bind(0, 1, one, []cuda.Ptr{address(at.out)}); err != nil {
		t.Fatal(err)
	}
	if err := p.Bind(0, 1, one, one); err == nil {
		t.Error("bound twice")
	}
	for _, c := range [][2]int{{0, 2}, {1, 1}, {-1, 1}, {0, -1}, {0, 99}} {
		if err := p.Run(c[0], c[1]); err == nil || !strings.Contains(err.Error(), "was not bound") {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// A model that does not fit its file, or asks for what there is not, is not loaded.
func TestLoadRefuses(t *testing.T) {
	load(t)
	for want, change := range map[string]func(*cuda.Model){
		"none of fp32, tf32, fp16": func(m *cuda.Model) { m.Precision = "int8" },
		"TensorRT computes fp32":   func(m *cuda.Model) { m.Provider = cuda.ProviderTensorRT },
		"doesn't exist":            func(m *cuda.Model) { m.Path = "/does/not/exist.onnx" },
		`no input "picture"`:       func(m *cuda.Model) { m.Spec.Inputs[0].Name = "picture" },
	} {
		d := digits(t)
		m := &cuda.Model{Spec: &d.Spec, Path: d.Path, Precision: cuda.FP32, Sizes: []int{1, 32}}
		change(m)
		h := &host{free: 1 << 29}
		if _, err := hostRuntime().Load(h, h, m); !errors.Is(err, ErrModel) || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// What cannot be captured is told apart from what would fail without graphs, too.
func TestUncaptured(t *testing.T) {
	load(t)
	m := digits(t)
	h := &host{free: 1 << 29}
	for name, c := range map[string]struct {
		graphs  cuda.Graphs
		path    string
		err     error
		capture bool
	}{
		"nodes on the CPU":   {cuda.GraphsAuto, m.Path, errors.New("not all nodes are on the device"), true},
		"graphs are wanted":  {cuda.GraphsOn, m.Path, errors.New("not all nodes are on the device"), false},
		"no graphs":          {cuda.GraphsOff, m.Path, errors.New("some error"), false},
		"no memory":          {cuda.GraphsAuto, m.Path, errors.New("Failed to allocate memory for requested buffer of size 1"), false},
		"no file":            {cuda.GraphsAuto, "none.onnx", nil, false},
		"nothing goes wrong": {cuda.GraphsAuto, m.Path, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := hostRuntime()
			r.provide = func(*ort.SessionOptions, int, uintptr, *cuda.Model) error { return c.err }
			p, err := r.Load(h, h, &cuda.Model{Spec: &m.Spec, Path: c.path, Precision: cuda.FP32, Graphs: c.graphs, Sizes: []int{1, 32}})
			if errors.Is(err, cuda.ErrCapture) != c.capture {
				t.Errorf("%v: of the capture, want %v", err, c.capture)
			}
			if err == nil {
				if p.(*program).model.Graphs != cuda.GraphsOn {
					t.Error("no graphs were tried")
				}
				_ = p.Close()
			}
		})
	}
}

// Convolutions have a session for each size, others one for all.
func TestSessionsBySize(t *testing.T) {
	load(t)
	m := digits(t)
	for path, apart := range map[string]bool{m.Path: true, strings.Replace(m.Path, "digits-cnn", "digits-wide", 1): false} {
		if _, err := os.Stat(path); err != nil {
			if os.Getenv("SYMPHONY_REQUIRE_ONNXRUNTIME") != "" {
				t.Fatal(err)
			}
			t.Logf("not here: %v", err)
			continue
		}
		h, model := &host{free: 1 << 29}, &cuda.Model{Spec: &m.Spec, Path: path, Precision: cuda.FP32, Sizes: []int{1, 32}}
		loaded, err := hostRuntime().Load(h, h, model)
		if err != nil {
			t.Fatal(err)
		}
		if p := loaded.(*program); (p.sessions[1] != p.sessions[32]) != apart {
			t.Errorf("%s: sessions of its own for each size: %v, want %v", path, !apart, apart)
		}
		if err := loaded.Close(); err != nil {
			t.Error(err)
		}
	}
}
