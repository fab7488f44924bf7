// Command zoo writes a model repository with networks as the paper's zoo has them:
// ResNet50, MobileNet and an encoder like BERT base. They are too large to be
// committed, and need not be: their weights are drawn from a seed, so the files are the
// same on every machine. Their SHA-256 are pinned in zoo.sha256 and checked.
// `make zoo` runs it.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/examples/onnxfile"
	"github.com/symphony-serving/symphony/examples/zoo/nets"
)

//go:embed zoo.sha256
var pinned string

func main() {
	z := zoo{pins: parsePins(pinned), say: func(line string) { fmt.Println("zoo:", line) }}
	precisions := flag.String("precision", "fp32", "of the weights: fp32, fp16 (models named -fp16), or both with a comma")
	target := flag.String("for", "", "what the device type, SLO and max_batch in config.yaml are for: gpu (where there is none yet), cpu")
	pin := flag.Bool("pin", false, "accept the results and write their SHA-256 to zoo.sha256: after a change of the networks")
	flag.StringVar(&z.dir, "o", "build/zoo", "the repository's folder")
	flag.Usage = usage
	flag.Parse()
	err := z.check(*precisions, *target)
	if err == nil {
		err = z.write(flag.Args(), *pin)
	}
	if err == nil && *pin {
		err = z.keepPins()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "zoo:", err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(flag.CommandLine.Output(), "zoo [flags] [model...]: writes the models, all when none is named.")
	for _, m := range nets.Zoo() {
		fmt.Fprintf(flag.CommandLine.Output(), "  %-10s %s, %.0f MB\n", m.Name, m.About, float64(m.File(nets.FP32).Size())/1e6)
	}
	flag.PrintDefaults()
}

// zoo is one run.
type zoo struct {
	dir        string
	precisions []nets.Precision
	target     string            // of the configurations: "gpu", "cpu", or empty: of new ones only, and "gpu"
	pins       map[string]string // SHA-256 by model
	say        func(line string)
}

func (z *zoo) check(precisions, target string) error {
	for _, p := range strings.Split(precisions, ",") {
		if nets.Precision(p) != nets.FP32 && nets.Precision(p) != nets.FP16 {
			return fmt.Errorf("-precision %q: a file is fp32 or fp16", p)
		}
		z.precisions = append(z.precisions, nets.Precision(p))
	}
	if target != "" && target != "gpu" && target != "cpu" {
		return fmt.Errorf("-for %q: write gpu or cpu", target)
	}
	z.target = target
	return nil
}

// write makes what is missing or wrong of the models.
func (z *zoo) write(names []string, pin bool) error {
	models, err := nets.Find(names)
	if err != nil {
		return err
	}
	for _, m := range models {
		for _, p := range z.precisions {
			if err := z.file(m, p, pin); err != nil {
				return err
			}
			if err := z.config(m, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// file makes a model's file where it is not there as pinned.
func (z *zoo) file(m nets.Model, p nets.Precision, pin bool) error {
	key := m.Key(p)
	path, want := filepath.Join(z.dir, key, "1", "model.onnx"), z.pins[key]
	if pin {
		want = ""
	} else if want == "" {
		return fmt.Errorf("%s has no SHA-256 in zoo.sha256: run with -pin", key)
	} else if sum, err := onnxfile.SumFile(path); err == nil && sum == want {
		return nil // made before
	}
	file := m.File(p)
	sum, err := file.Save(path, want)
	if different := (*onnxfile.SumError)(nil); errors.As(err, &different) {
		return fmt.Errorf("%w: the networks changed; run with -pin where that is meant", err)
	} else if err != nil {
		return err
	}
	z.pins[key] = sum
	z.say(fmt.Sprintf("wrote %s (%.1f MB)", path, float64(file.Size())/1e6))
	return nil
}

// config writes config.yaml, unless a person changed it.
func (z *zoo) config(m nets.Model, p nets.Precision) error {
	path, text := filepath.Join(z.dir, m.Key(p), "config.yaml"), m.Config(p, m.OnGPU)
	if z.target == "cpu" {
		text = m.Config(p, m.OnCPU)
	}
	old, err := os.ReadFile(path)
	switch {
	case err == nil && (z.target == "" || string(old) == text):
		return nil
	case err == nil && string(old) != m.Config(p, m.OnGPU) && string(old) != m.Config(p, m.OnCPU):
		z.say(path + " was changed and stays as it is; remove it to have it anew")
		return nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	}
	beside := path + ".new"
	if err := os.WriteFile(beside, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(beside, path)
}

// parsePins reads the lines of sha256sum: a sum, two spaces, <model>/1/model.onnx.
func parsePins(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 {
			out[strings.TrimSuffix(f[1], "/1/model.onnx")] = f[0]
		}
	}
	return out
}

func formatPins(pins map[string]string) string {
	var lines []string
	for key, sum := range pins {
		lines = append(lines, fmt.Sprintf("%s  %s/1/model.onnx\n", sum, key))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return strings.Join(lines, "")
}

// keepPins writes zoo.sha256 beside this file: with `go run` that is the checkout.
func (z *zoo) keepPins() error {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return errors.New("built with -trimpath: -pin works from a checkout")
	}
	return os.WriteFile(filepath.Join(filepath.Dir(file), "zoo.sha256"), []byte(formatPins(z.pins)), 0o644)
}
