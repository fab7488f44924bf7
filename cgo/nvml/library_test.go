//go:build cgo && linux

package nvml

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/backend/telemetry"
	"github.com/symphony-serving/symphony/backend/telemetry/health"
	"github.com/symphony-serving/symphony/transport/mono"
)

// TestOldDriver runs this package on a library of C that lacks functions, in a process of
// its own, which a call of a missing one would end: that the dynamic loader, go-nvml and
// this package agree cannot be shown by a mock.
func TestOldDriver(t *testing.T) {
	if os.Getenv("SYMPHONY_TEST_OLD_DRIVER") == "1" {
		onOldDriver(t)
		return
	}
	header, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml/pkg/nvml").Output()
	if err != nil {
		t.Skipf("no go command: %v", err)
	}
	dir := t.TempDir()
	source, err := filepath.Abs("testdata/old_driver.c")
	if err != nil {
		t.Fatal(err)
	}
	cc := exec.Command("gcc", "-shared", "-fPIC", "-w", "-DNVML_NO_UNVERSIONED_FUNC_DEFS=1", "-I"+strings.TrimSpace(string(header)), "-o", filepath.Join(dir, "libnvidia-ml.so.1"), source)
	if out, err := cc.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		t.Skip(err)
	} else if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestOldDriver$", "-test.v")
	child.Env = append(os.Environ(), "SYMPHONY_TEST_OLD_DRIVER=1", "LD_LIBRARY_PATH="+dir)
	out, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestOldDriver") {
		t.Errorf("%v\n%s", err, out)
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
	if err := lib.Close(); err != nil {
		t.Error(err)
	}
}
