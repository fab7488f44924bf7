// Command fetch-ocr writes a model repository of the PP-OCR models for text in images, out of
// the wheel rapidocr-onnxruntime of the Python package index: pinned by version and
// checksum, and never run. examples/ocr/README.md says what they are and how they are served.
//
// The index is PIP_INDEX_URL, else pip's own configuration, else the public one.
package main

import (
	"archive/zip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/symphony-serving/symphony/cmd/internal/fetch"
)

const (
	project = "rapidocr-onnxruntime"
	wheel   = "rapidocr_onnxruntime-1.4.4-py3-none-any.whl"
	size    = 14915192
	sum     = "sha256:971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf"

	memberMax = 64 << 20 // bytes of a file of the wheel
)

func main() {
	out := flag.String("o", "build/ocr/models", "folder of the repository")
	index := flag.String("index", "", "address of a Python package index (simple API); pip's if empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *out, *index); err != nil {
		fmt.Fprintln(os.Stderr, "fetch-ocr:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, index string) error {
	if present(out) {
		fmt.Printf("the OCR models are there: %s\n", out)
		return nil
	}
	if index == "" {
		index = fetch.Registry("PIP_INDEX_URL", []string{"pip", "config", "get", "global.index-url"}, "https://pypi.org/simple")
	}
	fmt.Printf("fetching %s from %s ...\n", wheel, fetch.Shown(index))
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	url, err := fetch.Find(ctx, index, project, wheel)
	if err != nil {
		return err
	}
	archive := filepath.Join(filepath.Dir(filepath.Clean(out)), wheel)
	g := fetch.Getter{Progress: fetch.NewProgress(os.Stderr)}
	if err := g.Get(ctx, fetch.File{URL: url, Path: archive, Size: size, Sum: sum}); err != nil {
		return err
	}
	if err := errors.Join(unpack(archive, out), os.Remove(archive)); err != nil {
		return err
	}
	fmt.Printf("the OCR models: %s\n", out)
	return os.WriteFile(stamp(out), []byte(stamped()), 0o644)
}

// stamp is the file that says of which wheel a repository is, once it is whole.
func stamp(out string) string { return filepath.Clean(out) + ".stamp" }

func stamped() string { return fmt.Sprintf("%s %s %d\n", wheel, sum, revision) }

func present(out string) bool {
	have, err := os.ReadFile(stamp(out))
	for _, m := range models() {
		_, missing := os.Stat(filepath.Join(out, m.name, "1", "model.onnx"))
		err = errors.Join(err, missing)
	}
	return err == nil && string(have) == stamped()
}

// unpack writes the repository.
func unpack(archive, out string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	defer z.Close()
	for _, m := range models() {
		file, err := member(z, m.member)
		if err != nil {
			return err
		}
		config, err := m.config(file)
		if err != nil {
			return fmt.Errorf("%s: %w", m.member, err)
		}
		folder := filepath.Join(out, m.name)
		if err := os.MkdirAll(filepath.Join(folder, "1"), 0o755); err != nil {
			return err
		}
		if err := errors.Join(os.WriteFile(filepath.Join(folder, "1", "model.onnx"), file, 0o644), os.WriteFile(filepath.Join(folder, "config.yaml"), config, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// member is a file of the wheel.
func member(z *zip.ReadCloser, name string) ([]byte, error) {
	in, err := z.Open(name)
	if err != nil {
		return nil, fmt.Errorf("the wheel has no %s: %w", name, err)
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, memberMax+1))
	if err == nil && len(b) > memberMax {
		err = fmt.Errorf("the wheel's %s has more than %d bytes", name, memberMax)
	}
	return b, err
}
