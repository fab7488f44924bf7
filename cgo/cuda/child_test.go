//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
)

// childVariable is set in processes that these tests start, which find a libcuda.so.1 of
// the tests' own before any other.
const childVariable = "SYMPHONY_CUDA_TEST"

// child runs tests in such a process.
func child(t *testing.T, libraries, run string, env ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", run, "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), append(env, "LD_LIBRARY_PATH="+libraries, childVariable+"=1")...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS") || strings.Contains(string(out), "no tests to run") {
		t.Fatalf("nothing was tested:\n%s", out)
	}
}

func inChild(t *testing.T) {
	t.Helper()
	if os.Getenv(childVariable) == "" {
		t.Skip("runs in a process that others of these tests start")
	}
}

// compile makes a library of testdata/libcuda.c and gives its folder.
func compile(t *testing.T, flags ...string) string {
	t.Helper()
	if os.Getenv(childVariable) != "" {
		t.Skip("started by another test already")
	}
	dir := t.TempDir()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	args := append([]string{"-shared", "-fPIC", "-o", filepath.Join(dir, "libcuda.so.1"), "testdata/libcuda.c", "-lpthread"}, flags...)
	args = append(args, strings.Fields(os.Getenv("CGO_CFLAGS"))...)
	args = append(args, "-I../../build/cuda/include", "-I/usr/local/cuda/include")
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", cc, strings.Join(args, " "), err, out)
	}
	return dir
}

// TestSuiteOnALibrary: all of the door, down to C, on a driver that is a few hundred lines.
func TestSuiteOnALibrary(t *testing.T) {
	child(t, compile(t), "^TestInChild|^TestConformance$|^TestTimeOfAKernel$", "SYMPHONY_REQUIRE_CUDA=1")
}

// TestNoLibrary: one line says what is missing and what to do.
func TestNoLibrary(t *testing.T) {
	dir := compile(t)
	if err := os.WriteFile(filepath.Join(dir, "libcuda.so.1"), []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	child(t, dir, "^TestMissing$", "WANT=libcuda.so.1", "WANT2=install NVIDIA's driver")
}

func TestOldLibrary(t *testing.T) {
	child(t, compile(t, "-DOLD"), "^TestMissing$", "WANT=too old: libcuda.so.1 lacks cuDeviceGetUuid_v2", "WANT2=11.4")
}

func TestNoGPU(t *testing.T) {
	child(t, compile(t), "^TestMissing$", "FAKE_CUDA_INIT=100", "WANT=CUDA_ERROR_NO_DEVICE", "WANT2=CUDA_VISIBLE_DEVICES")
}

// TestMissing looks for the words that its parent set.
func TestMissing(t *testing.T) {
	inChild(t)
	for range 2 { // it stays so
		_, err := New().Devices()
		_, errOpen := New().Open(0)
		for _, err := range []error{err, errOpen} {
			var missing *cuda.UnsupportedError
			if !errors.As(err, &missing) || !strings.Contains(missing.What, os.Getenv("WANT")) || !strings.Contains(missing.Need, os.Getenv("WANT2")) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v", err)
			}
		}
	}
}

// TestInChildDevices: a GPU and a MIG instance are told apart.
func TestInChildDevices(t *testing.T) {
	inChild(t)
	all, err := New().Devices()
	must(t, err)
	want := []cuda.Info{
		{Index: 0, Name: "NVIDIA Fake", UUID: "GPU-abababab-abab-abab-abab-abababababab", PCI: "0000:3b:00.0", Major: 9, Multiprocessors: 132, Memory: 1 << 30, NUMANode: numaNode("/sys", "0000:3b:00.0"), DriverVersion: 12090},
		{Index: 1, Name: "NVIDIA Fake MIG 1g.1gb", UUID: "MIG-cdcdcdcd-cdcd-cdcd-cdcd-cdcdcdcdcdcd", PCI: "0000:3b:00.0", Major: 9, Multiprocessors: 16, Memory: 1 << 30, NUMANode: numaNode("/sys", "0000:3b:00.0"), DriverVersion: 12090},
	}
	if fmt.Sprint(all) != fmt.Sprint(want) {
		t.Errorf("got\n%+v, want\n%+v", all, want)
	}
}

// raise makes the driver of the tests return an error.
func raise(c cuda.Context, code int64) error { _, err := c.Alloc(1<<40 + code); return err }

// TestInChildErrors: each CUresult as what it means for who gets it.
func TestInChildErrors(t *testing.T) {
	inChild(t)
	kinds := []error{cuda.ErrMemory, cuda.ErrLost, cuda.ErrRegistered}
	for code, want := range map[int64]error{
		1: nil, 2: cuda.ErrMemory, 46: nil, 100: nil, 201: nil, 304: nil, 600: nil, 712: cuda.ErrRegistered, 800: nil,
		4: cuda.ErrLost, 214: cuda.ErrLost, 220: cuda.ErrLost, 226: cuda.ErrLost, 700: cuda.ErrLost, 702: cuda.ErrLost, 710: cuda.ErrLost,
		714: cuda.ErrLost, 715: cuda.ErrLost, 716: cuda.ErrLost, 717: cuda.ErrLost, 718: cuda.ErrLost, 719: cuda.ErrLost, 999: cuda.ErrLost,
	} {
		c, err := New().Open(0)
		must(t, err)
		err = cuda.On(c, func() error { return raise(c, code) })
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(%d: as the test wants)", code)) {
			t.Errorf("%d: %v", code, err)
		}
		for _, kind := range kinds {
			if errors.Is(err, kind) != (kind == want) {
				t.Errorf("%d: %v, want %v", code, err, want)
			}
		}
		must(t, c.Close())
	}
}

// TestInChildLost: the first deadly error takes along all that have the device open, not
// others; what was made can be closed, and the device opened again.
func TestInChildLost(t *testing.T) {
	inChild(t)
	a, err := New().Open(0)
	must(t, err)
	b, err := New().Open(0)
	must(t, err)
	other, err := New().Open(1)
	must(t, err)
	must(t, cuda.On(a, func() error {
		s, err := a.NewStream(false)
		must(t, err)
		e, err := a.NewEvent()
		must(t, err)
		dev, err := a.Alloc(4096)
		must(t, err)
		m, err := a.HostAlloc(4096)
		must(t, err)
		if err := raise(a, 700); !errors.Is(err, cuda.ErrLost) {
			t.Fatal(err)
		}
		_, _, errB := b.Memory()
		_, errOpen := New().Open(0)
		_, errDone := e.Done()
		for what, err := range map[string]error{"copy": s.CopyIn(dev, m), "Synchronize": s.Synchronize(), "Done": errDone, "the other hold": errB, "Open": errOpen} {
			if !errors.Is(err, cuda.ErrLost) || !strings.Contains(err.Error(), "CUDA_ERROR_ILLEGAL_ADDRESS") {
				t.Errorf("%s: %v", what, err)
			}
		}
		must(t, a.Enter()) // to close
		m[0] = 1           // an RDMA device may still write here
		for _, err := range []error{s.Close(), e.Close(), a.Free(dev), a.HostFree(m)} {
			if err != nil && !errors.Is(err, cuda.ErrLost) {
				t.Error(err)
			}
		}
		return nil
	}))
	must(t, cuda.On(other, func() error { _, _, err := other.Memory(); return err }))
	for _, c := range []cuda.Context{a, b, other} {
		must(t, c.Close())
	}
	c, err := New().Open(0)
	must(t, err)
	must(t, cuda.On(c, func() error { _, _, err := c.Memory(); return err }))
	must(t, c.Close())
	must(t, leaks())
}

// TestInChildMisuse: what would be memory of somebody else does not reach the driver.
func TestInChildMisuse(t *testing.T) {
	inChild(t)
	c, err := New().Open(0)
	must(t, err)
	must(t, cuda.On(c, func() error {
		s, err := c.NewStream(false)
		must(t, err)
		if err := c.Close(); err == nil || !strings.Contains(err.Error(), "1 streams") {
			t.Errorf("Close with a stream open: %v", err)
		}
		e, err := c.NewEvent()
		must(t, err)
		must(t, e.Close())
		must(t, s.Close())
		_, errDone := e.Done()
		for what, err := range map[string]error{
			"stream twice": s.Close(), "event twice": e.Close(), "closed stream": s.Synchronize(), "closed event": errDone,
			"Free of nothing": c.Free(0), "HostFree of Go's": c.HostFree(make([]byte, 9)), "HostUnregister": c.HostUnregister(make([]byte, 9)),
		} {
			if err == nil || errors.Is(err, cuda.ErrLost) {
				t.Errorf("%s: %v", what, err)
			}
		}
		return nil
	}))
	must(t, c.Close())
	if err := c.Close(); err == nil {
		t.Error("closed twice")
	}
	if _, err := c.NewStream(false); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestNUMANode: as the kernel writes it.
func TestNUMANode(t *testing.T) {
	sys := t.TempDir()
	for pci, text := range map[string]string{"0000:01:00.0": "1\n", "0000:02:00.0": "-1\n", "0000:03:00.0": "?"} {
		dir := filepath.Join(sys, "bus/pci/devices", pci)
		must(t, os.MkdirAll(dir, 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "numa_node"), []byte(text), 0o600))
	}
	for pci, want := range map[string]int{"0000:01:00.0": 1, "0000:02:00.0": -1, "0000:03:00.0": -1, "0000:04:00.0": -1} {
		if got := numaNode(sys, pci); got != want {
			t.Errorf("%s: %d, want %d", pci, got, want)
		}
	}
}
