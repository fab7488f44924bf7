// Command check runs the zoo's models on our CPU device, alone and in a batch, and
// compares the outputs with package reference, which computes the networks again. It
// leaves inputs and outputs in a folder, where ../check.py gives the inputs to Python's
// onnxruntime and compares again. `make zoo-check` runs both.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/examples/zoo/agree"
	"github.com/symphony-serving/symphony/examples/zoo/nets"
	"github.com/symphony-serving/symphony/examples/zoo/reference"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

func main() {
	var c checker
	library := flag.String("onnxruntime", "build/onnxruntime/libonnxruntime.so", "ONNX Runtime's library")
	flag.StringVar(&c.dir, "repository", "build/zoo", "the repository that examples/zoo wrote")
	flag.StringVar(&c.out, "o", "build/zoo-check", "the folder for inputs and outputs")
	flag.IntVar(&c.items, "items", 2, "inputs a model")
	flag.Parse()
	err := onnx.Load(*library)
	if err == nil {
		err = c.run(flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "zoo check:", err)
		os.Exit(1)
	}
}

// differentMin is how far the outputs of two inputs are apart at least, by the measure of package agree.
const differentMin = 0.1

// checker is one run.
type checker struct {
	dir, out string
	items    int
	manifest []entry
}

// entry is what check.py needs to know of a model.
type entry struct {
	Name      string               `json:"name"`
	Model     string               `json:"model"`
	Inputs    []catalog.TensorSpec `json:"inputs"`
	Outputs   []catalog.TensorSpec `json:"outputs"`
	Items     int                  `json:"items"`
	Tolerance float64              `json:"tolerance"`
}

// run checks the models of these names in both precisions, as far as they are there.
func (c *checker) run(names []string) error {
	if c.items < 2 {
		return errors.New("-items: at least 2, so that there is a batch")
	}
	models, err := nets.Find(names)
	if err != nil {
		return err
	}
	served, failed, err := repository.Load(c.dir)
	if err = errors.Join(append(failed, err)...); err != nil {
		return fmt.Errorf("%w; run `make zoo`", err)
	}
	var bad []error
	for _, m := range models {
		for _, p := range []nets.Precision{nets.FP32, nets.FP16} {
			at := slices.IndexFunc(served, func(s repository.Model) bool { return s.Spec.Name == m.Key(p) })
			if at < 0 {
				fmt.Printf("%s is not in %s: not checked\n", m.Key(p), c.dir)
				continue
			}
			if err := c.check(m, p, served[at]); err != nil {
				bad = append(bad, fmt.Errorf("%s: %w", m.Key(p), err))
			}
		}
	}
	if len(c.manifest) == 0 && len(bad) == 0 {
		return fmt.Errorf("none of the models is in %s: run `make zoo`", c.dir)
	}
	text, err := json.MarshalIndent(c.manifest, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(c.out, "manifest.json"), text, 0o644)
	}
	return errors.Join(append(bad, err)...)
}

// check runs one model.
func (c *checker) check(m nets.Model, p nets.Precision, served repository.Model) error {
	spec := &served.Spec
	items := make([][]byte, c.items)
	for i := range items {
		items[i] = m.Net.Item(uint64(i) + 1)
	}
	outputs, span, err := infer(served, items)
	if err != nil {
		return err
	}
	// The file of float32 is what all are measured by.
	weights, err := reference.Open(filepath.Join(c.dir, m.Key(nets.FP32), "1", "model.onnx"))
	if err != nil {
		return err
	}
	worst, tolerance := agree.Difference{Argmax: true}, agree.Same
	if p != nets.FP32 {
		tolerance = agree.Tolerance(p)
	}
	for i, item := range items {
		want, err := reference.Run(m.Net, weights, item)
		if err != nil {
			return err
		}
		d, err := agree.Outputs(spec.Outputs, outputs[i], want)
		if err != nil {
			return err
		}
		worst = worst.Worse(d)
	}
	fmt.Printf("%-16s device against reference: largest difference %.2g, of the largest output %.2g (tolerated %.0e), same argmax: %v; a batch of %d in %v\n",
		spec.Name, worst.Absolute, worst.Relative, tolerance, worst.Argmax, len(items), span.Round(time.Millisecond))
	if err := worst.Within(tolerance); err != nil {
		return err
	}
	other, err := agree.Outputs(spec.Outputs, outputs[0], outputs[1])
	if err == nil && other.Relative < differentMin {
		err = fmt.Errorf("two inputs have the same outputs, to %.2g of the largest", other.Relative)
	}
	if err != nil {
		return err
	}
	fmt.Printf("%-16s outputs of two inputs differ by %.2g of the largest\n", spec.Name, other.Relative)
	c.manifest = append(c.manifest, entry{spec.Name, served.Path, spec.Inputs, spec.Outputs, len(items), tolerance})
	return c.keep(spec.Name, items, outputs)
}

// infer runs the items on our device, each alone and all as a batch, which must agree, and
// says how long the batch took.
func infer(served repository.Model, items [][]byte) (outputs [][]byte, span time.Duration, err error) {
	served.Spec.MaxBatch = max(len(items), served.Spec.MaxBatch)
	s, err := onnx.Open(served.Path, &served.Spec, runtime.NumCPU())
	if err != nil {
		return nil, 0, err
	}
	device := onnx.NewDevice([]*onnx.Session{s})
	defer device.Close()
	size := int64(0)
	for _, o := range served.Spec.Outputs {
		size += o.ByteSize()
	}
	launch := func(items [][]byte) ([][]byte, error) {
		finished := make(chan error, 1)
		b := &executor.Batch{Size: len(items), Inputs: items, Finish: func(start, end mono.Time, err error) {
			span = time.Duration(end.Sub(start))
			finished <- err
		}}
		for range items {
			b.Outputs = append(b.Outputs, make([]byte, size))
		}
		device.Launch(b)
		return b.Outputs, <-finished
	}
	var alone [][]byte
	for i := range items {
		out, err := launch(items[i : i+1])
		if err != nil {
			return nil, 0, err
		}
		alone = append(alone, out...)
	}
	if outputs, err = launch(items); err != nil {
		return nil, 0, err
	}
	for i := range items {
		d, err := agree.Outputs(served.Spec.Outputs, outputs[i], alone[i])
		if err == nil {
			err = d.Within(agree.Tolerance(nets.FP32))
		}
		if err != nil {
			return nil, 0, fmt.Errorf("alone and in a batch: %w", err)
		}
	}
	return outputs, span, nil
}

// keep writes what went in and what came out, item after item.
func (c *checker) keep(name string, items, outputs [][]byte) error {
	dir := filepath.Join(c.out, name)
	err := os.MkdirAll(dir, 0o755)
	for file, tensors := range map[string][][]byte{"inputs.bin": items, "outputs.bin": outputs} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), slices.Concat(tensors...), 0o644)
		}
	}
	return err
}
