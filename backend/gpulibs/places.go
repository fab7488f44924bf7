package gpulibs

import (
	"context"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// finder looks into folders.
type finder struct {
	env      func(string) string
	root     string                 // of the file system; "" the real one
	python   func() (string, error) // path of python3; it is not run
	ldconfig func() []byte          // what the loader's cache has
	machine  elf.Machine

	all   []place
	file  string              // the configured file of ONNX Runtime; "" any of the folder
	cache map[string][]string // the loader's cache, by name; nil: not read yet
}

// place is where to look, as people call it.
type place struct {
	name    string
	folders []string
}

const system = "the system"

func host() *finder {
	return &finder{
		env:      os.Getenv,
		python:   func() (string, error) { return exec.LookPath("python3") },
		ldconfig: ldconfig,
		machine:  map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH],
	}
}

// places fills in where to look; see the package's comment.
func (f *finder) places(o Options) {
	var configured []string
	if o.Path != "" {
		configured = []string{o.Path}
		if info, err := os.Stat(o.Path); err != nil || !info.IsDir() {
			configured, f.file = []string{filepath.Dir(o.Path)}, filepath.Base(o.Path)
		}
	}
	f.all = []place{
		{"configured", configured},
		{"make gpu-libs", []string{o.Build}},
		{"Python", f.pythonFolders()},
		{"LD_LIBRARY_PATH", f.list("LD_LIBRARY_PATH")},
		{system, f.systemFolders()},
	}
	for i := range f.all {
		for j, folder := range f.all[i].folders {
			if full, err := filepath.Abs(folder); err == nil {
				f.all[i].folders[j] = full
			}
		}
	}
}

// list are the folders of a variable like PATH. An empty entry means the current folder
// to the loader; here it does not: nobody means it.
func (f *finder) list(variable string) []string {
	var out []string
	for _, folder := range filepath.SplitList(f.env(variable)) {
		if folder != "" {
			out = append(out, folder)
		}
	}
	return out
}

// systemFolders are CUDA's own and the loader's, and those where container runtimes and
// WSL put the driver.
func (f *finder) systemFolders() []string {
	var out []string
	for _, pattern := range []string{
		"/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64",
		"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
		"/usr/local/lib", "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib",
	} {
		out = append(out, f.glob(pattern)...)
	}
	return out
}

// glob is below the root; newer versions first.
func (f *finder) glob(pattern string) []string {
	found, _ := filepath.Glob(f.root + pattern) // an error is a bad pattern: ours are constant
	slices.SortFunc(found, func(a, b string) int { return versionOrder(b, a) })
	return found
}

// pythonFolders are those of site-packages that have libraries. Python is not asked: it
// takes long to start, and another one than the user's may be first in the PATH.
func (f *finder) pythonFolders() []string {
	prefixes := []string{f.env("VIRTUAL_ENV"), f.env("CONDA_PREFIX")}
	if python, err := f.python(); err == nil {
		prefixes = append(prefixes, filepath.Dir(filepath.Dir(python)))
		if real, err := filepath.EvalSymlinks(python); err == nil {
			prefixes = append(prefixes, filepath.Dir(filepath.Dir(real)))
		}
	}
	if home := f.env("HOME"); home != "" {
		prefixes = append(prefixes, home+"/.local", home+"/miniconda3", home+"/anaconda3", home+"/miniforge3")
	}
	prefixes = append(prefixes, f.root+"/usr/local", f.root+"/usr", f.root+"/opt/conda")
	packages := f.list("PYTHONPATH")
	for _, prefix := range prefixes {
		if prefix == "" {
			continue
		}
		for _, below := range []string{"/lib/python3*/site-packages", "/lib64/python3*/site-packages", "/lib/python3*/dist-packages"} {
			found, _ := filepath.Glob(prefix + below)
			slices.SortFunc(found, func(a, b string) int { return versionOrder(b, a) })
			packages = append(packages, found...)
		}
	}
	var out []string
	for _, p := range packages {
		for _, below := range []string{"/onnxruntime/capi", "/nvidia/*/lib", "/torch/lib", "/tensorrt_libs"} {
			found, _ := filepath.Glob(p + below)
			for _, folder := range found {
				if !slices.Contains(out, folder) {
					out = append(out, folder)
				}
			}
		}
	}
	return out
}

// ldconfig lists the loader's cache. Its folder is not in everybody's PATH.
func ldconfig() []byte {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, path := range []string{"/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"} {
		if out, err := exec.CommandContext(ctx, path, "-p").Output(); err == nil {
			return out
		}
	}
	return nil
}

// cached are the paths that the loader's cache has for a name, of all architectures.
func (f *finder) cached(name string) []string {
	if f.cache == nil {
		f.cache = map[string][]string{}
		for line := range strings.Lines(string(f.ldconfig())) {
			left, path, ok := strings.Cut(strings.TrimSpace(line), " => ")
			name, _, paren := strings.Cut(left, " (")
			if ok && paren {
				f.cache[name] = append(f.cache[name], path)
			}
		}
	}
	return f.cache[name]
}
