// Command wide writes the ONNX file of digits-wide, the model of the digits
// example whose 34 MB of weights no cache holds (so that batching pays on a
// CPU too). They are random numbers from fixed seeds but for the first and the
// last layer, trained.bin, 160 KB: the file is made where it is needed instead
// of being committed. The result is the same on every machine; its SHA-256 is pinned in
// model.sha256 and checked. `make models` runs it.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/symphony-serving/symphony/examples/onnxfile"
)

//go:embed trained.bin
var trained []byte

//go:embed model.sha256
var pinned string

func main() {
	out := flag.String("o", "", "where to write (default models/digits-wide/1/model.onnx of this example)")
	pin := flag.Bool("pin", false, "accept the result and write its SHA-256 to model.sha256: after training")
	flag.Parse()
	if err := run(*out, *pin); err != nil {
		fmt.Fprintln(os.Stderr, "digits-wide:", err)
		os.Exit(1)
	}
}

func run(out string, pin bool) error {
	here, err := sourceFolder()
	if err != nil && (out == "" || pin) {
		return err
	}
	if out == "" {
		out = filepath.Join(here, "..", "models", "digits-wide", "1", "model.onnx")
	}
	want := strings.TrimSpace(pinned)
	if sum, err := onnxfile.SumFile(out); err == nil && !pin && sum == want {
		return nil // made before
	}
	model, err := generate()
	if err != nil {
		return err
	}
	if pin {
		want = ""
	}
	sum, err := model.Save(out, want)
	if different := (*onnxfile.SumError)(nil); errors.As(err, &different) {
		return fmt.Errorf("%w: trained.bin or the generator changed; after training run with -pin", err)
	} else if err != nil {
		return err
	}
	if pin {
		if err := os.WriteFile(filepath.Join(here, "model.sha256"), []byte(sum+"\n"), 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("digits-wide: wrote %s (%.1f MB)\n", shorten(out), float64(model.Size())/1e6)
	return nil
}

// generate describes the model.
func generate() (*onnxfile.Model, error) {
	layers, err := network(trained)
	if err != nil {
		return nil, err
	}
	return build(layers), nil
}

// sourceFolder is where this file lay when it was compiled: with `go run`
// that is the checkout.
func sourceFolder() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", errors.New("built with -trimpath: say where to write by -o, from a checkout")
	}
	return filepath.Dir(file), nil
}

// shorten makes a path relative to the working directory where that is shorter.
func shorten(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(wd, path); err == nil && len(rel) < len(path) {
		return rel
	}
	return path
}
