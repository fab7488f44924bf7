// Command wide writes the ONNX file of digits-wide, the model of the digits
// example whose 34 MB of weights no cache holds (so that batching pays on a
// CPU too). They are random numbers from fixed seeds but for the first and the
// last layer, trained.bin, 160 KB: the file is made where it is needed instead
// of being committed. The result is the same on every machine; its SHA-256 is pinned in
// model.sha256 and checked. `make models` runs it.
package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
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
	if old, err := os.ReadFile(out); err == nil && !pin && sum(old) == strings.TrimSpace(pinned) {
		return nil // made before
	}
	model, err := generate()
	if err != nil {
		return err
	}
	if pin {
		if err := os.WriteFile(filepath.Join(here, "model.sha256"), []byte(sum(model)+"\n"), 0o644); err != nil {
			return err
		}
	} else if got := sum(model); got != strings.TrimSpace(pinned) {
		return fmt.Errorf("made a model with SHA-256 %s, pinned is %s: trained.bin or the generator changed; after training run with -pin", got, strings.TrimSpace(pinned))
	}
	if err := replace(out, model); err != nil {
		return err
	}
	fmt.Printf("digits-wide: wrote %s (%.1f MB)\n", shorten(out), float64(len(model))/1e6)
	return nil
}

// generate makes the model's file in memory.
func generate() ([]byte, error) {
	layers, err := network(trained)
	if err != nil {
		return nil, err
	}
	return build(layers), nil
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// replace writes beside the file and renames, so that a server that starts
// meanwhile never reads half of it.
func replace(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".model-*")
	if err != nil {
		return err
	}
	_, err = bytes.NewReader(b).WriteTo(f)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
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
