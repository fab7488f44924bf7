package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/backend/gpulibs"
	"github.com/symphony-serving/symphony/backend/telemetry"
	"github.com/symphony-serving/symphony/backend/telemetry/fakenvml"
	"github.com/symphony-serving/symphony/backend/telemetry/health"
	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/discover"
)

// bareDoors is a machine with nothing.
func bareDoors() doors {
	return doors{
		nvml: func() (telemetry.NVML, error) {
			return nil, &telemetry.UnsupportedError{What: "libnvidia-ml.so.1 is not here", Need: "install NVIDIA's driver"}
		},
		rdma:      func() ([]discover.Device, error) { return nil, nil },
		rdmaHost:  rdmaHost{door: &rdma.UnsupportedError{What: "RDMA verbs", Need: "install libibverbs1"}},
		cpu:       cpu{Model: "Some CPU @ 2 GHz", Processors: 2, Usable: 2},
		libraries: []library{{Name: "ONNX Runtime", File: "libonnxruntime.so", Missing: "not at build/libonnxruntime.so: run `make models`"}},
		find:      func(string) string { return "" },
	}
}

func golden(t *testing.T, d doors, want string) {
	t.Helper()
	var out strings.Builder
	look(d).print(&out)
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// TestDevicesNothing: each part says that it is not there, and what would help.
func TestDevicesNothing(t *testing.T) {
	golden(t, bareDoors(), `GPUS
no GPU here that can be used: models run on the CPU
  no NVML: libnvidia-ml.so.1 is not here: install NVIDIA's driver

RDMA
no RDMA device here: links use TCP
  RDMA verbs not available: install libibverbs1

CPU
Some CPU @ 2 GHz, 2 processors

LIBRARIES
CUDA driver   not found: install NVIDIA's driver; in a container, pass it in (docker run --gpus all)
NVML          libnvidia-ml.so.1 is not here: install NVIDIA's driver
RDMA verbs    RDMA verbs not available: install libibverbs1
ONNX Runtime  not at build/libonnxruntime.so: run `+"`make models`"+`
`)
}

// rdmaDoors is a machine with an RDMA device alone.
func rdmaDoors() doors {
	d := bareDoors()
	h, device := goodRDMA()
	d.rdmaHost, d.rdma = h, func() ([]discover.Device, error) { return []discover.Device{device}, nil }
	d.find = func(soname string) string {
		if soname == "libibverbs.so.1" {
			return "/lib/none/libibverbs.so.1"
		}
		return ""
	}
	d.cpu = cpu{Model: "Some CPU", Cores: 16, Processors: 32, Usable: 4, NUMA: []numa{{0, "0-15", 64 << 30}, {1, "16-31", 0}}}
	return d
}

func TestDevicesRDMAOnly(t *testing.T) {
	golden(t, rdmaDoors(), `GPUS
no GPU here that can be used: models run on the CPU
  no NVML: libnvidia-ml.so.1 is not here: install NVIDIA's driver

RDMA
DEVICE  DRIVER     NUMA  PORT  STATE   LINK      RATE        GID  TYPE     ADDRESS   NETDEV
mlx5_0  mlx5_core  1     1     down    -         -           -    -        -         -
                         2     active  Ethernet  100 Gb/sec  0    RoCE v2  fe80::1   ens1
                                                             3*   RoCE v2  10.0.0.7  ens1

mlx5_0: usable, with port 2 and GID 3

CPU
Some CPU, 16 cores, 32 processors, of which this process may use 4
NUMA node 0: processors 0-15, 64.0 GiB
NUMA node 1: processors 16-31

LIBRARIES
CUDA driver   not found: install NVIDIA's driver; in a container, pass it in (docker run --gpus all)
NVML          libnvidia-ml.so.1 is not here: install NVIDIA's driver
RDMA verbs    /lib/none/libibverbs.so.1
ONNX Runtime  not at build/libonnxruntime.so: run `+"`make models`"+`
`)
}

// gpuDoors is a machine with GPUs of all sorts.
func gpuDoors() (doors, *fakenvml.Fake) {
	d := bareDoors()
	shared := fakenvml.GPU(4)
	shared.MIG = true
	fake := fakenvml.New(fakenvml.GPU(0), fakenvml.GPU(1), fakenvml.GPU(2), fakenvml.GPU(3), shared, fakenvml.Instance(shared, 7))
	uuid := func(i int) string { return fakenvml.GPU(i).UUID }
	fake.Set(uuid(0), func(s *telemetry.Sample) {
		s.Busy, s.Power, s.MemoryUsed = telemetry.Known(97), telemetry.Known(612.7), telemetry.Known[uint64](30<<30)
		s.Processes.Value = []telemetry.Process{{PID: 5_000_000, Memory: telemetry.Known[uint64](3174 << 20)}}
	})
	fake.Set(uuid(1), func(s *telemetry.Sample) {
		s.Throttle, s.Temperature = telemetry.Known(health.HWSlowdown|health.HWThermal), telemetry.Known(94)
	})
	fake.Set(uuid(3), func(s *telemetry.Sample) { *s = telemetry.Sample{UncorrectedVolatile: telemetry.Known[uint64](2)} })
	fake.Set(fakenvml.Instance(shared, 7).UUID, func(s *telemetry.Sample) {
		s.MemoryTotal, s.Busy = telemetry.Known[uint64](10<<30), telemetry.Maybe[int]{}
	})
	fake.Vanish(uuid(2))
	d.nvml = func() (telemetry.NVML, error) { return fake, nil }
	d.find = func(soname string) string { return "/usr/lib/none/" + soname }
	d.cuda = true
	return d, fake
}

func TestDevicesGPUs(t *testing.T) {
	d, fake := gpuDoors()
	golden(t, d, `GPUS (driver 570.86.15, for programs of CUDA up to 12.8)
GPU    NAME                               MEMORY            BUSY  POWER         TEMP  SM CLOCK          MEMORY CLOCK      PCIE       HEALTH
0      NVIDIA H100 80GB HBM3              30.0 of 80.0 GiB  97 %  613 of 700 W  34 C  1980 of 1980 MHz  2619 of 2619 MHz  gen 5 x16  healthy
1      NVIDIA H100 80GB HBM3              1.0 of 80.0 GiB   0 %   72 of 700 W   94 C  1980 of 1980 MHz  2619 of 2619 MHz  gen 5 x16  out
2      -                                  -                 -     -             -     -                 -                 -          out
3      NVIDIA H100 80GB HBM3              -                 -     -             -     -                 -                 -          warn
4      NVIDIA H100 80GB HBM3              1.0 of 80.0 GiB   0 %   72 of 700 W   34 C  1980 of 1980 MHz  2619 of 2619 MHz  gen 5 x16  healthy
MIG 7  NVIDIA H100 80GB HBM3 MIG 1g.10gb  1.0 of 10.0 GiB   -     72 of 700 W   34 C  1980 of 1980 MHz  2619 of 2619 MHz  gen 5 x16  healthy

0: GPU-00000000-0000-0000-0000-000000000000, PCI 0000:3b:00.0, used by process 5000000 (3174 MiB)
1: GPU-00000001-0000-0000-0000-000000000000, PCI 0000:3c:00.0, nobody computes on it
1: out: it throttles: hardware thermal slowdown (94 C, SM clock 1980 of 1980 MHz, 72 of 700 W)
2: out: the GPU is not there
3: GPU-00000003-0000-0000-0000-000000000000, PCI 0000:3e:00.0
3: warn: 2 uncorrectable memory errors since the driver was loaded
4: GPU-00000004-0000-0000-0000-000000000000, PCI 0000:3f:00.0, in MIG mode: its instances compute
MIG 7: MIG-00000004-0007-0000-0000-000000000000, PCI 0000:3f:00.0, nobody computes on it

RDMA
no RDMA device here: links use TCP
  RDMA verbs not available: install libibverbs1

CPU
Some CPU @ 2 GHz, 2 processors

LIBRARIES
CUDA driver   /usr/lib/none/libcuda.so.1
NVML          /usr/lib/none/libnvidia-ml.so.1
RDMA verbs    /usr/lib/none/libibverbs.so.1: RDMA verbs not available: install libibverbs1
ONNX Runtime  not at build/libonnxruntime.so: run `+"`make models`"+`
`)
	if fake.Closed() != 1 {
		t.Errorf("NVML was closed %d times", fake.Closed())
	}
}

// TestDevicesJSON: all values, null where unknown; lists that are empty are lists.
func TestDevicesJSON(t *testing.T) {
	d, _ := gpuDoors()
	b, err := json.Marshal(look(d))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		GPUs struct {
			Versions map[string]string
			Devices  []map[string]any
		}
		CPU map[string]any
	}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	if len(m.GPUs.Devices) != 6 || m.GPUs.Versions["cuda"] != "12.8" || m.CPU["model"] != "Some CPU @ 2 GHz" {
		t.Fatalf("%s", b)
	}
	sample, _ := m.GPUs.Devices[0]["sample"].(map[string]any)
	verdict, _ := m.GPUs.Devices[1]["health"].(map[string]any)
	if sample["busy"] != 97.0 || sample["memory_used"] != float64(30<<30) || verdict["state"] != "out" || verdict["remedy"] != "wait" {
		t.Errorf("%s", b)
	}
	if unknown, _ := m.GPUs.Devices[3]["sample"].(map[string]any); unknown == nil || unknown["power"] != nil {
		t.Errorf("unknown power: %v", unknown["power"])
	}
	b, err = json.Marshal(look(bareDoors()))
	if err != nil || !strings.Contains(string(b), `"gpus":{"missing":"no NVML: libnvidia-ml.so.1 is not here: install NVIDIA's driver","devices":[]}`) {
		t.Errorf("%s, %v", b, err)
	}
	b, err = json.Marshal(look(rdmaDoors()))
	if err != nil || !strings.Contains(string(b), `{"number":2,"state":"active","link":"Ethernet","rate":"100 Gb/sec","netdev":""}`) && !strings.Contains(string(b), `{"number":2,"state":"active","link":"Ethernet","rate":"100 Gb/sec"}`) {
		t.Errorf("%s, %v", b, err)
	}
}

// TestDevicesDriverFails: a driver that answers no list is told as it is.
func TestDevicesDriverFails(t *testing.T) {
	d, fake := gpuDoors()
	fake.Absent(errors.New("NVML: listing the GPUs: unknown error"))
	var out strings.Builder
	look(d).print(&out)
	if !strings.Contains(out.String(), "\n  NVML: listing the GPUs: unknown error\n") {
		t.Error(out.String())
	}
	d.nvml = func() (telemetry.NVML, error) { return fakenvml.New(), nil }
	out.Reset()
	look(d).print(&out)
	if !strings.Contains(out.String(), "no GPU here: models run on the CPU\n") {
		t.Error(out.String())
	}
	d.rdma = func() ([]discover.Device, error) { return nil, errors.New("reading sysfs: denied") }
	out.Reset()
	look(d).print(&out)
	if !strings.Contains(out.String(), "reading sysfs: denied") {
		t.Error(out.String())
	}
}

// TestDevicesLibraries: a driver that this binary cannot use, and what GPUs need, are told
// with what to do.
func TestDevicesLibraries(t *testing.T) {
	if l := driverLibrary(func(string) string { return "/lib/libcuda.so.1" }, false); l.Path == "" || !strings.Contains(l.Missing, "make cuda-headers && make build") {
		t.Errorf("%+v", l)
	}
	if l := gpuRuntime(gpulibs.Set{}); l.Path != "" || !strings.Contains(l.Missing, "make gpu-libs") {
		t.Errorf("%+v", l)
	}
	there := gpulibs.Library{Path: "/gpu/libonnxruntime.so.1", Version: "1.31.1"}
	if l := gpuRuntime(gpulibs.Set{Runtime: there}); l.Path != there.Path || l.Version != there.Version || l.Missing != "" {
		t.Errorf("%+v", l)
	}
	if l := gpuRuntime(gpulibs.Set{Runtime: there, Missing: []gpulibs.Missing{{Name: "libcublas.so.13", By: "it"}}}); !strings.Contains(l.Missing, "libcublas.so.13") {
		t.Errorf("%+v", l)
	}
}

// TestHostCPU reads a host's files.
func TestHostCPU(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/cpuinfo":                           "processor\t: 0\nphysical id\t: 0\ncore id\t\t: 0\n\nprocessor\t: 1\nphysical id\t: 0\ncore id\t\t: 0\n\nprocessor\t: 2\nphysical id\t: 1\ncore id\t\t: 0\n",
		"sys/devices/system/node/node10/cpulist": "2\n",
		"sys/devices/system/node/node2/cpulist":  "0-1\n",
		"sys/devices/system/node/node2/meminfo":  "Node 2 MemTotal:       2048 kB\nNode 2 MemFree: 1 kB\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := cpuNow(root)
	if c.Cores != 2 || c.Processors < 3 || len(c.NUMA) != 2 || c.NUMA[0] != (numa{2, "0-1", 2 << 20}) || c.NUMA[1] != (numa{10, "2", 0}) {
		t.Errorf("%+v", c)
	}
	if c := cpuNow(t.TempDir()); c.Cores != 0 || c.Processors < 1 || c.Model == "" {
		t.Errorf("without the files: %+v", c)
	}
}

// TestFindLibrary: LD_LIBRARY_PATH comes first; the version is the real file's.
func TestFindLibrary(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "libtest.so.550.54"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("libtest.so.550.54", filepath.Join(dir, "libtest.so.1")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", "/nowhere:"+dir)
	path, version := located(findLibrary("libtest.so.1"))
	if path != filepath.Join(dir, "libtest.so.1") || version != "550.54" {
		t.Errorf("%q, %q", path, version)
	}
	if p := findLibrary("libnosuch.so.9"); p != "" {
		t.Errorf("found %q", p)
	}
}
