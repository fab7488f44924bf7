// Command fetch-gpu-libs puts what GPUs need into build/: the ONNX Runtime with its CUDA
// and TensorRT providers and the CUDA libraries they load (`make gpu-libs`), or CUDA's
// header files, which tag `cuda` is built with (`make cuda-headers`). They come from the
// wheels of the Python package index, pinned by version and checksum. It does nothing
// when they are there already, and goes on where it was interrupted.
//
// The index is PIP_INDEX_URL, else pip's own configuration, else the public one. Without
// a network, place the wheels that -list names in the folder that it names: they are
// checked and unpacked as if they had been fetched.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/cmd/internal/fetch"
)

const usage = `fetch-gpu-libs [flags]
  fetches the libraries that GPUs need into build/gpu/lib; flags:
`

func main() {
	headers := flag.Bool("headers", false, "CUDA's header files into build/cuda/include instead")
	only := flag.String("only", "", "only these packages, with commas between them")
	out := flag.String("o", "", "another folder to put them into")
	index := flag.String("index", "", "address of a Python package index (simple API); pip's if empty")
	list := flag.Bool("list", false, "only say what would be fetched")
	keep := flag.Bool("keep", false, "keep the wheels")
	flag.Usage = func() { fmt.Fprint(os.Stderr, usage); flag.PrintDefaults() }
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "fetch-gpu-libs: %q is no flag; packages are named by -only\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	t := tool{dir: *out, index: *index, keep: *keep, free: free, getter: fetch.Getter{Progress: fetch.NewProgress(os.Stderr)}, out: os.Stdout}
	if t.dir == "" {
		t.dir = map[bool]string{false: "build/gpu/lib", true: "build/cuda/include"}[*headers]
	}
	t.names = "go run ./cmd/fetch-gpu-libs" + map[bool]string{true: " -headers"}[*headers] + " -list"
	wheels, err := choose(runtime.GOOS, runtime.GOARCH, *headers, *only)
	switch {
	case err != nil:
	case *list:
		t.list(wheels)
	default:
		err = t.fetch(ctx, wheels)
	}
	if err == nil {
		return
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "\nfetch-gpu-libs: interrupted; what has come is kept, and the same command goes on from there")
		os.Exit(130)
	}
	fmt.Fprintf(os.Stderr, "fetch-gpu-libs: %v\n", err)
	os.Exit(1)
}

// choose the wheels for a machine; only names packages with commas between them, "" all.
func choose(system, arch string, headers bool, only string) ([]wheel, error) {
	all := libraries(arch)
	if headers {
		all = headerWheels(arch)
	}
	if system != "linux" || len(all) == 0 {
		return nil, fmt.Errorf("there are no packages for %s/%s", system, arch)
	}
	if only == "" {
		return all, nil
	}
	var names []string
	byName := map[string]wheel{}
	for _, w := range all {
		names = append(names, w.project)
		byName[w.project] = w
	}
	var out []wheel
	for _, name := range strings.Split(only, ",") {
		w, ok := byName[strings.TrimSpace(name)]
		if !ok {
			return nil, fmt.Errorf("-only: there is no %q; there are %s", name, strings.Join(names, ", "))
		}
		out = append(out, w)
	}
	return out, nil
}

// free is what this user may still write to the file system of a folder, bytes.
func free(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
