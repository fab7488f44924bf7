//go:build cgo && linux && (amd64 || arm64)

package nvml

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/symphony-serving/symphony/backend/telemetry"
	"github.com/symphony-serving/symphony/backend/telemetry/health"
	"github.com/symphony-serving/symphony/transport/mono"
)

// inChild is set in processes that these tests start, which find a libnvidia-ml.so.1 of
// the tests' own before any other: that the dynamic loader, go-nvml, the trampolines and
// this package agree cannot be shown by a mock.
const inChild = "SYMPHONY_TEST_NVML"

// child runs a test again in such a process, where all symbols are bound at once.
func child(t *testing.T, libraries string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inChild+"=1", "LD_BIND_NOW=1", "LD_LIBRARY_PATH="+libraries)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}

// compile makes a library of a file of testdata and gives its folder.
func compile(t *testing.T, file string) string {
	t.Helper()
	header, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml/pkg/nvml").Output()
	if err != nil {
		t.Skipf("no go command: %v", err)
	}
	dir := t.TempDir()
	cc := exec.Command("gcc", "-shared", "-fPIC", "-w", "-DNVML_NO_UNVERSIONED_FUNC_DEFS=1", "-I"+strings.TrimSpace(string(header)), "-o", filepath.Join(dir, "libnvidia-ml.so.1"), filepath.Join("testdata", file))
	if out, err := cc.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		t.Skip(err)
	} else if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// TestNothingUnresolved: the binary starts however symbols are bound, and libraries that
// are loaded later find NVML's own functions, never ours. One that symbols.h lacks would
// be here, and is to be added there.
func TestNothingUnresolved(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	dlopen := false
	for _, s := range symbols {
		dlopen = dlopen || s.Name == "dlopen"
		switch {
		case !strings.HasPrefix(s.Name, "nvml"):
		case s.Section == elf.SHN_UNDEF:
			t.Errorf("%s is unresolved", s.Name)
		default:
			t.Errorf("%s can be seen by libraries that are loaded later", s.Name)
		}
	}
	if !dlopen {
		t.Error("not even dlopen is among the symbols: this test saw nothing")
	}
}

// TestNotOpened: what is called before the library is loaded has an answer.
func TestNotOpened(t *testing.T) {
	if _, ret := nvml.New().SystemGetDriverVersion(); ret != nvml.ERROR_UNINITIALIZED {
		t.Errorf("got %d", ret)
	}
}

// TestNoLibrary: what the dynamic loader says, and what to do.
func TestNoLibrary(t *testing.T) {
	if os.Getenv(inChild) == "" {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "libnvidia-ml.so.1"), []byte("no library"), 0o600); err != nil {
			t.Fatal(err)
		}
		child(t, dir)
		return
	}
	for range 2 {
		_, err := Open()
		var missing *telemetry.UnsupportedError
		if !errors.As(err, &missing) || !strings.Contains(missing.What, "libnvidia-ml.so.1: file too short") || !strings.Contains(missing.Need, "install NVIDIA's driver") {
			t.Errorf("got %v", err)
		}
	}
}

// TestBareLibrary: functions that are missing are errors, down to the one that names errors.
func TestBareLibrary(t *testing.T) {
	if os.Getenv(inChild) == "" {
		child(t, compile(t, "bare.c"))
		return
	}
	lib, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lib.Versions(); !errors.Is(err, nvml.ERROR_FUNCTION_NOT_FOUND) || !strings.Contains(err.Error(), "has no text") {
		t.Error(err)
	}
	if _, err := lib.Devices(); !errors.Is(err, nvml.ERROR_FUNCTION_NOT_FOUND) {
		t.Error(err)
	}
	if _, err := lib.WaitXID(mono.Millisecond); !errors.Is(err, nvml.ERROR_FUNCTION_NOT_FOUND) {
		t.Error(err)
	}
	if err := lib.Close(); err != nil {
		t.Error(err)
	}
}

// TestOldDriver runs this package on a library that lacks functions.
func TestOldDriver(t *testing.T) {
	if os.Getenv(inChild) == "" {
		child(t, compile(t, "old_driver.c"))
		return
	}
	for range 2 { // it can be opened again
		onOldDriver(t)
	}
}

func onOldDriver(t *testing.T) {
	lib, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	if v, err := lib.Versions(); err != nil || v != (telemetry.Versions{Driver: "450.80.02", CUDA: "11.0", NVML: "11.450.80.02"}) {
		t.Error(v, err)
	}
	devices, err := lib.Devices()
	want := telemetry.Device{UUID: "GPU-old", Name: "Old GPU", PCI: "0000:3b:00.0"}
	if err != nil || len(devices) != 2 || devices[0] != want || !errors.Is(devices[1].Err, telemetry.ErrGone) {
		t.Fatalf("%+v, %v", devices, err)
	}
	s, err := lib.Sample("GPU-old")
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(s.Processes) != "{[{100 {1048576 true}} {101 {2097152 true}} {102 {3145728 true}}] true}" {
		t.Errorf("processes %v", s.Processes)
	}
	s.Processes = telemetry.Maybe[[]telemetry.Process]{}
	expect := telemetry.Sample{MemoryTotal: telemetry.Known[uint64](16 << 30), MemoryUsed: telemetry.Known[uint64](1 << 30), Busy: telemetry.Known(55), MemoryBusy: telemetry.Known(22),
		PowerLimit: telemetry.Known(250.0), Temperature: telemetry.Known(67), SMClock: telemetry.Known(1001), SMClockMax: telemetry.Known(1501),
		MemoryClock: telemetry.Known(1002), MemoryClockMax: telemetry.Known(1502), Throttle: telemetry.Known(health.HWThermal),
		CorrectedVolatile: telemetry.Known[uint64](0), UncorrectedVolatile: telemetry.Known[uint64](10), CorrectedAggregate: telemetry.Known[uint64](1), UncorrectedAggregate: telemetry.Known[uint64](11)}
	if fmt.Sprint(s) != fmt.Sprint(expect) {
		t.Errorf("got\n%+v\nwant\n%+v", s, expect)
	}
	if x, err := lib.Throughput("GPU-old"); err != nil || x.Sent.Value != 40000 || x.Received.Value != 41000 {
		t.Error(x, err)
	}
	if x, err := lib.WaitXID(mono.Millisecond); err != nil || x.UUID != "GPU-old" || x.Code != 79 {
		t.Errorf("%+v, %v", x, err)
	}
	if _, err := lib.WaitXID(mono.Millisecond); !errors.Is(err, telemetry.ErrTimeout) {
		t.Error(err)
	}
	api := lib.(*library).api
	if text := api.ErrorString(nvml.ERROR_UNKNOWN); text != "an error of the old driver" {
		t.Errorf("nvmlErrorString: %q", text)
	}
	if err := lib.Close(); err != nil {
		t.Error(err)
	}
	if _, ret := api.SystemGetDriverVersion(); ret != nvml.ERROR_UNINITIALIZED { // go-nvml has closed the library: it must still be there
		t.Errorf("after Close: %d", ret)
	}
}
