package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/backend/gpulibs"
	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
)

// cpu is the host's processors.
type cpu struct {
	Model      string `json:"model"`
	Cores      int    `json:"cores"`      // 0: unknown
	Processors int    `json:"processors"` // hardware threads of the cores
	Usable     int    `json:"usable"`     // for this process: its affinity, its container's quota
	NUMA       []numa `json:"numa_nodes"`
}

// numa is a node of memory with its processors.
type numa struct {
	Node       int    `json:"node"`
	Processors string `json:"processors"` // "0-7,16-23"
	Memory     int64  `json:"memory"`     // bytes; 0: unknown
}

// cpuNow reads it from the file system below root.
func cpuNow(root string) cpu {
	text, _ := os.ReadFile(filepath.Join(root, "proc/cpuinfo")) // not there on all systems
	cores, processors := countCores(string(text))
	return cpu{Model: profiler.ThisHost().CPU, Cores: cores, Processors: max(processors, runtime.NumCPU()), Usable: cli.Processors(), NUMA: numaNodes(root)}
}

// countCores counts in the text of /proc/cpuinfo. Not all systems tell cores.
func countCores(text string) (cores, processors int) {
	seen := map[string]bool{}
	socket := ""
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(name) {
		case "processor":
			processors++
		case "physical id":
			socket = value
		case "core id":
			seen[socket+"/"+value] = true
		}
	}
	return len(seen), processors
}

func numaNodes(root string) []numa {
	folders, _ := filepath.Glob(filepath.Join(root, "sys/devices/system/node/node[0-9]*"))
	out := []numa{}
	for _, f := range folders {
		id, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(f), "node"))
		if err != nil {
			continue
		}
		list, _ := os.ReadFile(filepath.Join(f, "cpulist"))
		text, _ := os.ReadFile(filepath.Join(f, "meminfo"))
		out = append(out, numa{id, strings.TrimSpace(string(list)), memTotal(string(text))})
	}
	slices.SortFunc(out, func(a, b numa) int { return a.Node - b.Node })
	return out
}

// memTotal finds "Node 0 MemTotal: 123 kB".
func memTotal(text string) int64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 5 && f[2] == "MemTotal:" {
			kb, _ := strconv.ParseInt(f[3], 10, 64)
			return kb << 10
		}
	}
	return 0
}

func (c *cpu) print(to io.Writer) {
	text := c.Model
	if c.Cores > 0 {
		text += ", " + cli.Count(c.Cores, "core")
	}
	text += ", " + cli.Count(c.Processors, "processor")
	if c.Usable != c.Processors {
		text += fmt.Sprintf(", of which this process may use %d", c.Usable)
	}
	fmt.Fprintln(to, text)
	for _, n := range c.NUMA {
		memory := ""
		if n.Memory > 0 {
			memory = fmt.Sprintf(", %.1f GiB", float64(n.Memory)/(1<<30))
		}
		fmt.Fprintf(to, "NUMA node %d: processors %s%s\n", n.Node, orDash(n.Processors), memory)
	}
}

// library is one that Symphony loads when it runs.
type library struct {
	Name    string `json:"name"`
	File    string `json:"file"`
	Path    string `json:"path,omitempty"`    // empty: not found
	Version string `json:"version,omitempty"` // as far as the file's name tells
	Missing string `json:"missing,omitempty"` // why it cannot be used, and what to do; empty: it can
}

// driverLibrary is CUDA's, which the driver brings. linked: this binary can use it.
func driverLibrary(find func(string) string, linked bool) library {
	l := library{Name: "CUDA driver", File: "libcuda.so.1"}
	l.Path, l.Version = located(find(l.File))
	switch {
	case l.Path == "":
		l.Missing = "not found: install NVIDIA's driver; in a container, pass it in (docker run --gpus all)"
	case !linked:
		l.Missing = "this binary was built without CUDA: `make cuda-headers && make build`"
	}
	return l
}

// doorLibrary is one that a door of ours has tried to use.
func doorLibrary(name, file string, find func(string) string, err error) library {
	l := library{Name: name, File: file}
	l.Path, l.Version = located(find(file))
	if err != nil {
		l.Missing = strings.TrimPrefix(err.Error(), "no "+name+": ")
	}
	return l
}

// runtimes are what runs models: on the CPU, and on GPUs. configured is the path of the former;
// empty: none is.
func runtimes(configured string) []library {
	path := parts.ONNXLibrary(configured)
	l := library{Name: "ONNX Runtime", File: filepath.Base(path)}
	if _, err := os.Stat(path); err != nil {
		l.Missing = fmt.Sprintf("not at %s: run `make models`, or set SYMPHONY_ONNXRUNTIME or backend.onnxruntime to its path", path)
	} else {
		l.Path, l.Version = located(path)
	}
	return []library{l, gpuRuntime(gpulibs.Find(gpulibs.Options{Oldest: onnx.Oldest}))}
}

// gpuRuntime is a build of ONNX Runtime with CUDA, and what it needs.
func gpuRuntime(s gpulibs.Set) library {
	l := library{Name: "ONNX Runtime for GPUs", File: "libonnxruntime.so", Path: s.Runtime.Path, Version: s.Runtime.Version}
	if err := s.Err(); err != nil {
		l.Missing = err.Error()
	}
	return l
}

// located is the path, and the version that the real name of the file behind a link ends in.
func located(path string) (string, string) {
	if path == "" {
		return "", ""
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil || filepath.Base(real) == filepath.Base(path) {
		return path, ""
	}
	_, version, _ := strings.Cut(filepath.Base(real), ".so.")
	return path, version
}

// findLibrary finds a library where the loader would: in LD_LIBRARY_PATH, in its cache, in
// the usual folders. (The cache is a table of offsets into strings; the strings suffice.)
func findLibrary(soname string) string {
	var paths []string
	for _, dir := range filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")) {
		paths = append(paths, filepath.Join(dir, soname))
	}
	cache, _ := os.ReadFile("/etc/ld.so.cache")
	for s := range strings.SplitSeq(string(cache), "\x00") {
		if strings.HasSuffix(s, "/"+soname) && strings.HasPrefix(s, "/") {
			paths = append(paths, s)
		}
	}
	for _, dir := range []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"} {
		paths = append(paths, filepath.Join(dir, soname))
	}
	for _, p := range paths {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return ""
}

func printLibraries(to io.Writer, all []library) {
	width := 0
	for _, l := range all {
		width = max(width, len(l.Name))
	}
	for _, l := range all {
		text := l.Path
		if l.Version != "" {
			text += " (" + l.Version + ")"
		}
		if l.Missing != "" {
			if text != "" {
				text += ": "
			}
			text += l.Missing
		}
		fmt.Fprintf(to, "%-*s  %s\n", width, l.Name, text)
	}
}
