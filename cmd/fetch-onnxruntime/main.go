// Command fetch-onnxruntime puts the ONNX Runtime shared library where
// `symphony` looks for it: pinned version, checked, from the npm registry's
// package onnxruntime-node, which carries the library for Linux. It does
// nothing when the right file is there already.
//
// The registry is NPM_CONFIG_REGISTRY, else npm's own configuration, else the
// public one. Without a network, place libonnxruntime.so (1.30) at the path it
// names, or set backend.onnxruntime to where it lies.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

const version = "1.30.0"

func main() {
	out := flag.String("o", "build/onnxruntime/libonnxruntime.so", "where to put the library")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintf(os.Stderr, "fetch-onnxruntime: %v\n", err)
		fmt.Fprintf(os.Stderr, "Without a network: place libonnxruntime.so %s at %s by hand, or set backend.onnxruntime in the configuration (or SYMPHONY_ONNXRUNTIME) to where it lies.\n", version, *out)
		os.Exit(1)
	}
}

func run(out string) error {
	arch, ok := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if !ok || runtime.GOOS != "linux" {
		return fmt.Errorf("there is no library for %s/%s in the package", runtime.GOOS, runtime.GOARCH)
	}
	f := fetcher{registry: registry(), integrity: integrity, member: "package/bin/napi-v6/linux/" + arch + "/libonnxruntime.so.1"}
	if f.present(out) {
		fmt.Printf("ONNX Runtime %s is there: %s\n", version, out)
		return nil
	}
	fmt.Printf("fetching ONNX Runtime %s from %s ...\n", version, f.registry)
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	if err := f.fetch(out); err != nil {
		return err
	}
	fmt.Printf("ONNX Runtime %s: %s\n", version, out)
	return nil
}
