// Package gpulibs finds the shared libraries that ONNX Runtime needs on a GPU: itself with
// its CUDA provider, and the CUDA libraries, in the order in which to load them.
//
// Nothing is loaded here, and no foreign program runs but ldconfig. Each library is looked
// for in these places, in this order:
//
//	configured       the folder of Options.Path
//	make gpu-libs    build/gpu/lib
//	Python           the packages of PyTorch, NVIDIA, ONNX Runtime and TensorRT below
//	                 VIRTUAL_ENV, CONDA_PREFIX, PYTHONPATH, python3 in PATH, ~/.local, /usr, ...
//	LD_LIBRARY_PATH
//	the system       the loader's cache (ldconfig -p), /usr/local/cuda/lib64, ...
//
// What each library needs it says itself (DT_NEEDED), so the order comes from the files.
// Only what is opened while it runs, as cuDNN is, is a list here.
package gpulibs

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Options says where to look.
type Options struct {
	Path   string // configured: libonnxruntime.so or its folder; "": the first that is found
	Build  string // where `make gpu-libs` puts them; "": build/gpu/lib
	Oldest string // ONNX Runtime that will do, "1.30"; "": any. Older ones are passed over
}

// Library is one that was found.
type Library struct {
	Name    string // that others ask for: "libcublas.so.13"
	Path    string // full
	Version string // as far as the file's name says: "13.1.0.3", or "13"
	From    string // the place, "configured", "make gpu-libs", "Python", "LD_LIBRARY_PATH", "the system"
}

// String is for people.
func (l Library) String() string {
	return fmt.Sprintf("%s %s: %s (%s)", l.Name, l.Version, l.Path, l.From)
}

// Missing is a library that was not found.
type Missing struct {
	Name string
	By   string // the library that needs it
	Note string // what there is instead; "" nothing
}

// Set is what was found.
type Set struct {
	Runtime Library // libonnxruntime.so; its CUDA provider lies beside it

	// CUDA are the libraries to load before that provider: each by its full path, with
	// RTLD_GLOBAL, in this order. Then the loader finds them by their names.
	CUDA []Library
	// TensorRT are those to load after them where its provider is to be used; nil: it
	// cannot be, and NoTensorRT says why.
	TensorRT   []Library
	NoTensorRT string
	// Driver is libcuda.so.1, without a Path where there is none.
	Driver Library

	Missing []Missing
	looked  []string // places without a Runtime
	passed  []string // Runtimes that will not do, and why
}

// Error says what is missing and how to get it.
type Error struct {
	What string
	Need string
}

// Error is one line.
func (e *Error) Error() string { return e.What + ": " + e.Need }

const need = "run `make gpu-libs`, install PyTorch with CUDA and onnxruntime-gpu, or set backend.onnxruntime to the libonnxruntime.so of an onnxruntime-gpu"

// Err is nil if all that the CUDA provider needs is there, but for the driver; else an *Error.
func (s Set) Err() error {
	if s.Runtime.Path == "" {
		what := "no ONNX Runtime with CUDA in " + strings.Join(s.looked, ", ")
		if len(s.passed) > 0 {
			what += " (" + strings.Join(s.passed, "; ") + ")"
		}
		return &Error{what, need}
	}
	if len(s.Missing) == 0 {
		return nil
	}
	var names []string
	for _, m := range s.Missing {
		name := m.Name + " for " + m.By
		if m.Note != "" {
			name += " (" + m.Note + ")"
		}
		names = append(names, name)
	}
	return &Error{"missing beside " + s.Runtime.Path + ": " + strings.Join(names, ", "), need}
}

// ForDriver is nil if a driver that serves CUDA up to version (13000 is 13.0) can run what
// was found; else an *Error. Within a major version older drivers serve newer libraries.
func (s Set) ForDriver(version int) error {
	for _, l := range s.CUDA {
		runtime, ok := strings.CutPrefix(l.Name, "libcudart.so.")
		if n := numbers(runtime); ok && len(n) > 0 && n[0] > version/1000 {
			return &Error{fmt.Sprintf("NVIDIA's driver serves CUDA up to %d.%d, and %s is built for CUDA %d", version/1000, version%1000/10, s.Runtime.Path, n[0]),
				"install a newer driver (CUDA 13 needs 580), or set backend.onnxruntime to the libonnxruntime.so of an onnxruntime-gpu for the driver's CUDA"}
		}
	}
	return nil
}

// Find looks, each time anew.
func Find(o Options) Set { return host().find(o) }

func (f *finder) find(o Options) Set {
	if o.Build == "" {
		o.Build = "build/gpu/lib"
	}
	f.places(o)
	s := Set{}
	s.Driver, _ = f.library("libcuda.so.1")
	if !f.runtime(&s, o) {
		return s
	}
	beside := filepath.Dir(s.Runtime.Path)
	w := walk{f: f, seen: map[string]bool{"libcuda.so.1": true}}
	w.needs(s.Runtime.Path)
	w.needs(filepath.Join(beside, cudaProvider))
	w.opened(filepath.Join(beside, cudaProvider))
	s.CUDA, s.Missing = w.order, w.missing
	s.TensorRT, s.NoTensorRT = w.tensorRT(beside)
	return s
}
