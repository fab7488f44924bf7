package gpulibs

import (
	"fmt"
	"path/filepath"
	"strings"
)

const (
	sharedProvider   = "libonnxruntime_providers_shared.so"
	cudaProvider     = "libonnxruntime_providers_cuda.so"
	tensorRTProvider = "libonnxruntime_providers_tensorrt.so"
)

// walk goes from libraries to those they need; order has each behind its own needs.
type walk struct {
	f       *finder
	seen    map[string]bool
	order   []Library
	missing []Missing
}

// family tells NVIDIA's libraries, which may lie anywhere, from those of the system (libc,
// libstdc++), which the loader finds by itself or names in its error.
func family(name string) bool {
	return strings.HasPrefix(name, "libcu") || strings.HasPrefix(name, "libnv")
}

// needs adds what the library of a path needs.
func (w *walk) needs(path string) {
	for _, name := range w.f.needed(path) {
		if family(name) {
			w.add(name, filepath.Base(path))
		}
	}
}

// add looks for a library that another needs, and adds it behind what it needs itself.
func (w *walk) add(name, by string) {
	if w.seen[name] {
		return
	}
	w.seen[name] = true // here already: two that need each other end
	l, note := w.f.library(name)
	if l.Path == "" {
		w.missing = append(w.missing, Missing{name, by, note})
		return
	}
	w.needs(l.Path)
	w.order = append(w.order, l)
}

// opened adds what is opened while the provider of a path runs, which no file says before:
// cuDNN, without which no convolution is computed, libnvrtc, when it compiles a kernel, and
// libcufft, for the operators of that name.
func (w *walk) opened(path string) {
	major := ""
	for _, name := range w.f.needed(path) {
		if m, ok := strings.CutPrefix(name, "libcudart.so."); ok {
			major = m
		}
	}
	w.add(cudnn, filepath.Base(path))
	w.parts()
	w.builtins("libnvrtc.so." + major)
	w.maybe("libnvrtc.so." + major)
	w.maybe(map[string]string{"12": "libcufft.so.11", "13": "libcufft.so.12"}[major])
}

const cudnn = "libcudnn.so.9"

// parts checks that what cuDNN opens of its own is there. It opens it from beside itself
// ($ORIGIN) and only when it is needed: some are large, so they are loaded before only if
// they lie elsewhere.
func (w *walk) parts() {
	l, _ := w.f.library(cudnn)
	if l.Path == "" {
		return
	}
	for _, part := range []string{"graph", "ops", "cnn", "heuristic", "engines_precompiled", "engines_runtime_compiled"} {
		name := "libcudnn_" + part + ".so.9"
		if _, err := w.f.open(filepath.Join(filepath.Dir(l.Path), name)); err != nil {
			w.add(name, cudnn)
		}
	}
}

// builtins adds what libnvrtc opens by its name: unlike cuDNN it does not look beside itself.
func (w *walk) builtins(nvrtc string) {
	l, _ := w.f.library(nvrtc)
	if l.Path == "" {
		return
	}
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(l.Path), "libnvrtc-builtins"+strings.TrimPrefix(nvrtc, "libnvrtc")+".*"))
	for _, path := range found {
		if name := filepath.Base(path); strings.Count(name, ".") == 3 { // .so.13.0, not what it links to
			w.maybe(name)
		}
	}
}

// maybe adds a library if it and its needs are there.
func (w *walk) maybe(name string) {
	if l, _ := w.f.library(name); name == "" || l.Path == "" {
		return
	}
	before := len(w.missing)
	w.add(name, "")
	w.missing = w.missing[:before]
}

// tensorRT walks on for TensorRT's provider, and gives what comes on top of CUDA's.
func (w *walk) tensorRT(beside string) (libraries []Library, why string) {
	path := filepath.Join(beside, tensorRTProvider)
	if _, err := w.f.open(path); err != nil {
		return nil, fmt.Sprintf("no %s beside ONNX Runtime", tensorRTProvider)
	}
	if len(w.missing) > 0 {
		return nil, "CUDA's libraries are not complete"
	}
	first := len(w.order)
	w.needs(path)
	if len(w.missing) > 0 {
		m := w.missing[0]
		return nil, strings.TrimSuffix(fmt.Sprintf("no %s (TensorRT); %s", m.Name, m.Note), "; ")
	}
	if len(w.order) == first { // such a provider needs libnvinfer: this one was built otherwise
		return nil, tensorRTProvider + " names no library of TensorRT"
	}
	return w.order[first:len(w.order):len(w.order)], ""
}
