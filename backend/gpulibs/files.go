package gpulibs

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// library looks for a name in all places. Without one the note says what there is instead.
func (f *finder) library(name string) (Library, string) {
	var notes []string
	try := func(path, from string) (Library, bool) {
		_, err := f.open(path)
		if err == nil {
			return Library{name, path, versionOf(path), from}, true
		}
		if !errors.Is(err, os.ErrNotExist) {
			notes = append(notes, fmt.Sprintf("%s: %v", path, err))
		}
		return Library{}, false
	}
	for _, p := range f.all {
		if p.name == system {
			for _, path := range f.cached(name) {
				if l, ok := try(path, p.name); ok {
					return l, ""
				}
			}
		}
		for _, folder := range p.folders {
			if l, ok := try(filepath.Join(folder, name), p.name); ok {
				return l, ""
			}
		}
	}
	if other := f.other(name); other != "" {
		notes = append(notes, "there is "+other)
	}
	return Library{}, strings.Join(notes, "; ")
}

// other is a library of the same kind and another version.
func (f *finder) other(name string) string {
	stem, _, ok := strings.Cut(name, ".so.")
	if !ok {
		return ""
	}
	for _, p := range f.all {
		for _, folder := range p.folders {
			found, _ := filepath.Glob(filepath.Join(folder, stem+".so.*"))
			for _, path := range found {
				if filepath.Base(path) != name {
					return path
				}
			}
		}
	}
	return ""
}

// open reads the head of a library, and refuses what is not one of this machine.
func (f *finder) open(path string) (needed []string, err error) {
	e, err := elf.Open(path)
	if pe := (*os.PathError)(nil); errors.As(err, &pe) {
		return nil, pe.Err // who asks knows the path
	}
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if e.Class != elf.ELFCLASS64 || e.Machine != f.machine {
		return nil, fmt.Errorf("it is for another machine (%v)", e.Machine)
	}
	if e.Type != elf.ET_DYN {
		return nil, errors.New("it is not a shared library")
	}
	return e.ImportedLibraries()
}

// needed are the names that a library asks the loader for.
func (f *finder) needed(path string) []string {
	needed, _ := f.open(path) // it was opened when it was found
	return needed
}

// runtime finds an ONNX Runtime with the CUDA provider. A configured one is the only one
// that is asked for: another in its place would be a surprise.
func (f *finder) runtime(s *Set, o Options) bool {
	for _, p := range f.all {
		if o.Path != "" && p.name != "configured" {
			break
		}
		folders := p.folders
		if p.name == system { // wherever the loader would find its provider
			for _, path := range f.cached(cudaProvider) {
				folders = append(folders[:len(folders):len(folders)], filepath.Dir(path))
			}
		}
		for _, folder := range folders {
			path, why := f.runtimeIn(folder, o)
			if path != "" {
				s.Runtime = Library{"libonnxruntime.so", path, versionOf(path), p.name}
				return true
			}
			if why != "" {
				s.passed = append(s.passed, why)
			}
		}
		if len(p.folders) > 0 || p.name == system {
			s.looked = append(s.looked, describe(p))
		}
	}
	return false
}

// describe names a place, with its folder if it is one.
func describe(p place) string {
	if len(p.folders) == 1 {
		return p.name + " (" + p.folders[0] + ")"
	}
	return p.name
}

// runtimeIn is the newest libonnxruntime.so of a folder, if its CUDA provider is there.
func (f *finder) runtimeIn(folder string, o Options) (path, why string) {
	found, _ := filepath.Glob(filepath.Join(folder, "libonnxruntime.so*"))
	if f.file != "" {
		found = []string{filepath.Join(folder, f.file)}
	}
	slices.SortFunc(found, func(a, b string) int { return versionOrder(versionOf(b), versionOf(a)) })
	for _, path := range found {
		if _, err := f.open(path); err != nil {
			why = fmt.Sprintf("%s: %v", path, err)
			continue
		}
		if v := versionOf(path); o.Oldest != "" && v != "" && versionOrder(v, o.Oldest) < 0 {
			return "", fmt.Sprintf("%s is %s, %s or newer is needed", path, v, o.Oldest)
		}
		for _, provider := range []string{sharedProvider, cudaProvider} {
			if _, err := f.open(filepath.Join(folder, provider)); err != nil {
				return "", fmt.Sprintf("%s has no CUDA provider: %s: %v", path, provider, err)
			}
		}
		return path, ""
	}
	return "", why
}

// versionOf is what the name of the file says, through links: libcudart.so.13 -> .so.13.0.96.
func versionOf(path string) string {
	version := func(path string) string {
		_, v, _ := strings.Cut(filepath.Base(path), ".so.")
		return v
	}
	if real, err := filepath.EvalSymlinks(path); err == nil && len(version(real)) > len(version(path)) {
		return version(real)
	}
	return version(path)
}

// versionOrder compares texts by the numbers in them: "1.9" is before "1.31", "a-12.9" before "a-12.10".
func versionOrder(a, b string) int {
	x, y := numbers(a), numbers(b)
	if c := slices.Compare(x, y); c != 0 {
		return c
	}
	return cmp.Compare(a, b)
}

func numbers(s string) []int {
	var out []int
	for _, field := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(field); err == nil {
			out = append(out, n)
		}
	}
	return out
}
