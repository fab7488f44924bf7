package gpulibs

import (
	"cmp"
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine is a host with nothing on it, below a folder of its own.
type machine struct {
	t    *testing.T
	root string
	env  map[string]string
	ld   string // what ldconfig -p says
}

func newMachine(t *testing.T) *machine {
	return &machine{t: t, root: t.TempDir(), env: map[string]string{}}
}

func (m *machine) path(elem ...string) string {
	return filepath.Join(append([]string{m.root}, elem...)...)
}

// put writes libraries into a folder: "name: needs needs".
func (m *machine) put(folder string, libraries ...string) {
	m.t.Helper()
	for _, l := range libraries {
		name, needs, _ := strings.Cut(l, ":")
		library(m.t, m.path(folder, name), elf.EM_X86_64, strings.Fields(needs)...)
	}
}

func (m *machine) find(o Options) Set {
	f := &finder{
		env:  func(name string) string { return m.env[name] },
		root: m.root,
		python: func() (string, error) {
			path := m.path("usr/bin/python3")
			_, err := os.Stat(path)
			return path, err
		},
		ldconfig: func() []byte { return []byte(m.ld) },
		machine:  elf.EM_X86_64,
	}
	if o.Build == "" {
		o.Build = m.path("build/gpu/lib")
	}
	return f.find(o)
}

// runtimeOf are the files of ONNX Runtime for CUDA 13, as its package has them.
func runtimeOf(version string) []string {
	return []string{
		"libonnxruntime.so." + version + ": libdl.so.2 libstdc++.so.6 libc.so.6",
		"libonnxruntime_providers_shared.so: libc.so.6",
		"libonnxruntime_providers_cuda.so: libcublas.so.13 libcublasLt.so.13 libcurand.so.10 libcudart.so.13 libcuda.so.1 libstdc++.so.6",
		"libonnxruntime_providers_tensorrt.so: libnvinfer.so.10 libnvonnxparser.so.10 libcudart.so.13 libcublas.so.13",
	}
}

var (
	cublas = []string{"libcublas.so.13: libcublasLt.so.13 libc.so.6", "libcublasLt.so.13: libnvrtc.so.13 libc.so.6"}
	rest   = []string{"libcudart.so.13:", "libcurand.so.10:", "libcufft.so.12:", "libnvrtc.so.13:", "libnvrtc-builtins.so.13.0:"}
	dnn    = []string{"libcudnn.so.9:", "libcudnn_graph.so.9: libz.so.1", "libcudnn_ops.so.9: libcudnn_graph.so.9", "libcudnn_cnn.so.9: libcudnn_ops.so.9", "libcudnn_heuristic.so.9: libcudnn_graph.so.9", "libcudnn_engines_precompiled.so.9: libcudnn_graph.so.9", "libcudnn_engines_runtime_compiled.so.9: libcudnn_graph.so.9"}
)

// names of the libraries, in their order.
func names(all []Library) []string {
	var out []string
	for _, l := range all {
		out = append(out, l.Name)
	}
	return out
}

// ordered checks that each library that was found comes behind all it needs.
func ordered(t *testing.T, all []Library) {
	t.Helper()
	for i, l := range all {
		e, err := elf.Open(l.Path)
		if err != nil {
			t.Fatal(err)
		}
		needed, err := e.ImportedLibraries()
		e.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range needed {
			if at := slices.Index(names(all), n); at > i {
				t.Errorf("%s comes before %s, which it needs", l.Name, n)
			}
		}
	}
}

func TestAllOfMakeGPULibs(t *testing.T) {
	m := newMachine(t)
	m.put("build/gpu/lib", runtimeOf("1.31.1")...)
	m.put("build/gpu/lib", slices.Concat(cublas, rest, dnn)...)
	s := m.find(Options{Oldest: "1.29"})
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	if s.Runtime.Path != m.path("build/gpu/lib/libonnxruntime.so.1.31.1") || s.Runtime.Version != "1.31.1" || s.Runtime.From != "make gpu-libs" {
		t.Errorf("%+v", s.Runtime)
	}
	want := []string{"libnvrtc.so.13", "libcublasLt.so.13", "libcublas.so.13", "libcurand.so.10", "libcudart.so.13", "libcudnn.so.9", "libnvrtc-builtins.so.13.0", "libcufft.so.12"}
	if got := names(s.CUDA); !slices.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	ordered(t, s.CUDA)
	if s.TensorRT != nil || !strings.Contains(s.NoTensorRT, "libnvinfer.so.10") {
		t.Errorf("TensorRT: %v, %q", s.TensorRT, s.NoTensorRT)
	}
	if s.Driver.Path != "" {
		t.Errorf("a driver: %v", s.Driver)
	}
}

// The order is that of the files: turn who needs whom around, and it turns.
func TestOrderIsOfTheFiles(t *testing.T) {
	m := newMachine(t)
	m.put("build/gpu/lib", runtimeOf("1.31.1")...)
	m.put("build/gpu/lib", slices.Concat(rest, dnn)...)
	m.put("build/gpu/lib", "libcublas.so.13:", "libcublasLt.so.13: libcublas.so.13 libcurand.so.10", "libcurand.so.10: libcudart.so.13", "libcudart.so.13: libcublasLt.so.13") // and in a ring
	s := m.find(Options{})
	want := []string{"libcublas.so.13", "libcudart.so.13", "libcurand.so.10", "libcublasLt.so.13"}
	if got := names(s.CUDA); s.Err() != nil || !slices.Equal(got[:4], want) {
		t.Errorf("%v, want %v first; %v", got, want, s.Err())
	}
}

// Each library comes from the first place that has it.
func TestPlacesInTheirOrder(t *testing.T) {
	m := newMachine(t)
	m.put("mine", runtimeOf("1.31.1")...)
	m.put("mine", "libcudart.so.13:")
	m.put("build/gpu/lib", "libcudart.so.13:", "libcurand.so.10:")
	site := "venv/lib/python3.12/site-packages"
	m.put(site+"/nvidia/cu13/lib", slices.Concat(cublas, []string{"libcurand.so.10:", "libcudart.so.13:"})...)
	m.put(site+"/nvidia/cudnn/lib", dnn...)
	m.put("ld", "libcufft.so.12:", "libcudnn.so.9:")
	m.put("usr/lib/x86_64-linux-gnu", "libnvrtc.so.13.0.88:", "libcuda.so.580.65.06:", "libcufft.so.12:")
	m.env["VIRTUAL_ENV"], m.env["LD_LIBRARY_PATH"] = m.path("venv"), ":"+m.path("ld")
	for link, to := range map[string]string{"libnvrtc.so.13": "libnvrtc.so.13.0.88", "libcuda.so.1": "libcuda.so.580.65.06"} {
		if err := os.Symlink(to, m.path("usr/lib/x86_64-linux-gnu", link)); err != nil {
			t.Fatal(err)
		}
	}
	m.ld = "2 libs found in cache\n" +
		"\tlibcuda.so.1 (libc6) => " + m.path("usr/lib/i386/libcuda.so.1") + "\n" +
		"\tlibcuda.so.1 (libc6,x86-64) => " + m.path("usr/lib/x86_64-linux-gnu/libcuda.so.1") + "\n"
	library(t, m.path("usr/lib/i386/libcuda.so.1"), elf.EM_386)

	s := m.find(Options{Path: m.path("mine")})
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	from := map[string]string{s.Driver.Name: s.Driver.From + " " + s.Driver.Version, s.Runtime.Name: s.Runtime.From}
	for _, l := range s.CUDA {
		from[l.Name] = l.From + " " + l.Version
	}
	for name, want := range map[string]string{
		"libonnxruntime.so": "configured",
		"libcudart.so.13":   "configured 13",
		"libcurand.so.10":   "make gpu-libs 10",
		"libcublas.so.13":   "Python 13",
		"libcublasLt.so.13": "Python 13",
		"libcudnn.so.9":     "Python 9",
		"libcufft.so.12":    "LD_LIBRARY_PATH 12",
		"libnvrtc.so.13":    "the system 13.0.88",
		"libcuda.so.1":      "the system 580.65.06",
	} {
		if from[name] != want {
			t.Errorf("%s from %q, want %q", name, from[name], want)
		}
	}
	ordered(t, s.CUDA)
}

// A virtual environment is found by its python3, with PyTorch's own folder, and nothing runs.
func TestPythonByItsPath(t *testing.T) {
	m := newMachine(t)
	if err := os.MkdirAll(m.path("usr/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(m.path("opt/env/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, m.path("opt/env/bin/python3"), []byte("not to be run"))
	if err := os.Symlink(m.path("opt/env/bin/python3"), m.path("usr/bin/python3")); err != nil {
		t.Fatal(err)
	}
	site := "opt/env/lib/python3.11/site-packages"
	m.put(site+"/onnxruntime/capi", runtimeOf("1.31.1")...)
	m.put(site+"/torch/lib", slices.Concat(cublas, rest, dnn)...)
	m.put(site+"/tensorrt_libs", "libnvinfer.so.10: libcudart.so.13", "libnvonnxparser.so.10: libnvinfer.so.10")
	s := m.find(Options{})
	if err := s.Err(); err != nil || s.Runtime.From != "Python" {
		t.Fatalf("%v, %+v", err, s.Runtime)
	}
	if got, want := names(s.TensorRT), []string{"libnvinfer.so.10", "libnvonnxparser.so.10"}; !slices.Equal(got, want) || s.NoTensorRT != "" {
		t.Errorf("TensorRT: %v (%s), want %v", got, s.NoTensorRT, want)
	}
}

func TestMissing(t *testing.T) {
	m := newMachine(t)
	m.put("build/gpu/lib", runtimeOf("1.31.1")...)
	m.put("build/gpu/lib", rest...)
	m.put("usr/local/cuda/lib64", "libcublas.so.12:")
	library(t, m.path("usr/lib64/libcublasLt.so.13"), elf.EM_AARCH64)
	write(t, m.path("usr/lib/libcudnn.so.9"), []byte("\x7fELF, cut"))
	s := m.find(Options{})
	err := s.Err()
	var typed *Error
	if !errors.As(err, &typed) || len(s.Missing) != 3 {
		t.Fatalf("%v, missing %+v", err, s.Missing)
	}
	for _, want := range []string{
		"libcublas.so.13 for libonnxruntime_providers_cuda.so (there is " + m.path("usr/local/cuda/lib64/libcublas.so.12") + ")",
		m.path("usr/lib64/libcublasLt.so.13") + ": it is for another machine (EM_AARCH64)",
		"libcudnn.so.9", m.path("usr/lib/libcudnn.so.9"),
		"make gpu-libs",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if s.NoTensorRT == "" {
		t.Error("TensorRT without CUDA")
	}
}

// cuDNN opens its parts from beside itself: one that lies elsewhere is loaded before, with
// what it needs, and one that lies nowhere is missing.
func TestPartsOfCuDNN(t *testing.T) {
	m := newMachine(t)
	m.put("build/gpu/lib", runtimeOf("1.31.1")...)
	m.put("build/gpu/lib", slices.Concat(cublas, rest, dnn[:3], dnn[4:6])...)
	m.put("usr/lib", dnn[3])
	s := m.find(Options{})
	if err := s.Err(); err == nil || len(s.Missing) != 1 || !strings.Contains(err.Error(), "libcudnn_engines_runtime_compiled.so.9 for libcudnn.so.9") {
		t.Errorf("%v, missing %+v", err, s.Missing)
	}
	got := names(s.CUDA)
	graph, cnn := slices.Index(got, "libcudnn_graph.so.9"), slices.Index(got, "libcudnn_cnn.so.9")
	if graph < 0 || cnn < graph || slices.Contains(got, "libcudnn_heuristic.so.9") {
		t.Errorf("%v", got)
	}
	ordered(t, s.CUDA)
}

func TestRuntimesThatWillNotDo(t *testing.T) {
	whole := func(m *machine, folder, version string) {
		m.put(folder, runtimeOf(version)...)
		m.put(folder, slices.Concat(cublas, rest, dnn)...)
	}
	for name, c := range map[string]struct {
		make func(m *machine) Options
		want string // in the error; "": the Runtime of the folder good
	}{
		"nothing at all":    {func(*machine) Options { return Options{} }, "make gpu-libs ("},
		"one for CPUs only": {func(m *machine) Options { m.put("build/gpu/lib", runtimeOf("1.31.1")[0]); return Options{} }, "has no CUDA provider"},
		"too old":           {func(m *machine) Options { whole(m, "build/gpu/lib", "1.9.0"); return Options{Oldest: "1.29"} }, "is 1.9.0, 1.29 or newer"},
		"too old, then good": {func(m *machine) Options {
			whole(m, "build/gpu/lib", "1.9.0")
			whole(m, "good", "1.31.1")
			m.env["LD_LIBRARY_PATH"] = m.path("good")
			return Options{Oldest: "1.29"}
		}, ""},
		"configured, not one": {func(m *machine) Options {
			whole(m, "build/gpu/lib", "1.31.1")
			return Options{Path: m.path("no/libonnxruntime.so")}
		}, "no such file"},
		"configured by name": {func(m *machine) Options {
			whole(m, "good", "1.31.1")
			m.put("good", "libonnxruntime.so.1.32.0:")
			return Options{Path: m.path("good/libonnxruntime.so.1.31.1")}
		}, ""},
		"the newest of a folder": {func(m *machine) Options {
			whole(m, "good", "1.31.1")
			m.put("good", "libonnxruntime.so.1.9.1:")
			return Options{Path: m.path("good")}
		}, ""},
		"of the loader's cache": {func(m *machine) Options {
			whole(m, "good", "1.31.1")
			for _, n := range append([]string{cudaProvider}, "libcublas.so.13", "libcublasLt.so.13", "libcudart.so.13", "libcurand.so.10", "libcudnn.so.9", "libnvrtc.so.13") {
				m.ld += "\t" + n + " (libc6,x86-64) => " + m.path("good", n) + "\n"
			}
			return Options{}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			s := m.find(c.make(m))
			err := s.Err()
			if c.want == "" {
				if err != nil || s.Runtime.Path != m.path("good/libonnxruntime.so.1.31.1") {
					t.Errorf("%v, %+v", err, s.Runtime)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestVersionOrder(t *testing.T) {
	sorted := []string{"1.9", "1.29", "1.29.1", "1.31.0", "1.31.1", "2"}
	for i := range sorted {
		for j := range sorted {
			if got, want := versionOrder(sorted[i], sorted[j]), cmp.Compare(i, j); got != want {
				t.Errorf("%s, %s: %d, want %d", sorted[i], sorted[j], got, want)
			}
		}
	}
}

// The files that are really fetched, where they are: all is there, in an order.
func TestRealFiles(t *testing.T) {
	build := "../../build/gpu/lib"
	if _, err := os.Stat(filepath.Join(build, cudaProvider)); err != nil {
		t.Skip("no build/gpu/lib (make gpu-libs)")
	}
	s := Find(Options{Build: build, Oldest: "1.29"})
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	for _, l := range append([]Library{s.Runtime}, s.CUDA...) {
		t.Log(l)
	}
	t.Logf("TensorRT: %v %s", s.TensorRT, s.NoTensorRT)
	ordered(t, s.CUDA)
}

// What this host has can be looked through, whatever it has.
func TestThisHost(t *testing.T) {
	s := Find(Options{Build: t.TempDir()})
	if s.Runtime.Path == "" && s.Err() == nil {
		t.Error("neither a Runtime nor an error")
	}
	ordered(t, s.CUDA)
	t.Logf("%+v; %v", s, s.Err())
}

// A driver of the libraries' major version serves them; an older one is said, with what to do.
func TestForDriver(t *testing.T) {
	set := Set{Runtime: Library{Path: "/lib/libonnxruntime.so"}, CUDA: []Library{{Name: "libcublas.so.13"}, {Name: "libcudart.so.13"}}}
	if err := set.ForDriver(13000); err != nil {
		t.Error(err)
	}
	err := set.ForDriver(12080)
	if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(e.What, "up to 12.8") || !strings.Contains(e.What, "CUDA 13") || !strings.Contains(e.Need, "580") {
		t.Error(err)
	}
	set.CUDA[1].Name = "libcudart.so.11.0"
	if err := set.ForDriver(12080); err != nil {
		t.Error(err)
	}
}
