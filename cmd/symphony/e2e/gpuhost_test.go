package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend"
	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A gpuHost is a backend process on GPUs in software: this test's binary, started once more,
// with the parts of `symphony backend` but for the driver and what computes. It takes orders
// on its standard input, a line each, and answers with a look at its GPUs in JSON.

// fakeGPUsEnv makes the test's binary a gpuHost; it is the path of the configuration. Not with
// SYMPHONY_ in front: that would be a key of the configuration.
const fakeGPUsEnv = "FAKE_GPUS_OF_SYMPHONY"

const fakeGPUs = 2

// look is what there is to see of a gpuHost.
type look struct {
	Open    fakecuda.Counts
	GPUs    []fakecuda.Stats
	Misused []string
	Error   string
}

// serveFakeGPUs is the process from within: until its standard input ends.
func serveFakeGPUs(path string) error {
	cfg, err := config.Load(path, nil, nil)
	if err != nil {
		return err
	}
	digits, err := digitKernel(cfg.Backend)
	if err != nil {
		return err
	}
	driver := fakecuda.New(fakecuda.Config{GPUs: make([]cuda.Info, fakeGPUs), CopyTime: 20 * mono.Microsecond, Bandwidth: 10 << 30})
	p, err := parts.New(cfg)
	if err != nil {
		return err
	}
	p.GPUs = &backend.GPUs{Driver: driver, Runtime: func() (cuda.Runtime, string, error) {
		return fakecuda.NewRuntime(fakecuda.Kernels{"digits-cnn": digits}), "fake", nil
	}}
	b, err := p.Backend(context.Background())
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.NewFile(3, "looks")) // standard output has the log
	see := func(err error) error {
		l := look{Open: driver.Counts()}
		for i := range fakeGPUs {
			l.GPUs = append(l.GPUs, driver.GPU(i).Stats())
		}
		for _, m := range driver.Misused() {
			l.Misused = append(l.Misused, m.Error())
		}
		if err != nil {
			l.Error = err.Error()
		}
		return out.Encode(l)
	}
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		if orders.Text() == "end" {
			limit, done := p.DrainContext()
			defer done()
			return see(b.Drain(limit))
		}
		if err := see(nil); err != nil {
			return err
		}
	}
	return b.Close()
}

// digitKernel computes the digits on the CPU, and takes at least a millisecond.
func digitKernel(c config.Backend) (fakecuda.Kernel, error) {
	if err := onnx.Load(parts.ONNXLibrary(c.ONNXRuntime)); err != nil {
		return fakecuda.Kernel{}, err
	}
	models, failed, err := repository.Load(c.Repository)
	if err = errors.Join(append(failed, err)...); err != nil {
		return fakecuda.Kernel{}, err
	}
	for _, m := range models {
		if m.Spec.Name != "digits-cnn" {
			continue
		}
		s, err := onnx.Open(m.Path, &m.Spec, 1)
		if err != nil {
			return fakecuda.Kernel{}, err
		}
		var one sync.Mutex // the GPUs share the session
		in, out := int(m.Spec.Inputs[0].ByteSize()), int(m.Spec.Outputs[0].ByteSize())
		return fakecuda.Kernel{Memory: 1 << 20, Time: func(int) mono.Dur { return mono.Millisecond },
			Run: func(size int, inputs, outputs [][]byte) error {
				b := &executor.Batch{Size: size}
				for i := range size {
					b.Inputs, b.Outputs = append(b.Inputs, inputs[0][i*in:(i+1)*in]), append(b.Outputs, outputs[0][i*out:(i+1)*out])
				}
				one.Lock()
				defer one.Unlock()
				return s.Run(b)
			}}, nil
	}
	return fakecuda.Kernel{}, fmt.Errorf("%s has no digits-cnn", c.Repository)
}

// gpuHost is the process from outside.
type gpuHost struct {
	*process
	orders io.WriteCloser
	looks  *bufio.Scanner
}

func startGPUHost(t *testing.T, name, scheduler string) *gpuHost {
	t.Helper()
	// A copy: profiles are written beside models.
	models := t.TempDir()
	if err := os.CopyFS(filepath.Join(models, "digits-cnn"), os.DirFS(filepath.Join(root, "examples/digits/models/digits-cnn"))); err != nil {
		t.Fatal(err)
	}
	path := write(t, `
log: {level: info, format: console}
rdma: {mode: never}
backend:
  name: %q
  scheduler: "tcp:%s"
  repository: %q
  onnxruntime: %q
  pools: [{kind: cuda, models: [digits-cnn], memory: 256MiB}]
`, name, scheduler, models, absolute(t, library(t)))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), fakeGPUsEnv+"="+path)
	h := &gpuHost{}
	if h.orders, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { from.Close(); to.Close() })
	cmd.ExtraFiles = []*os.File{to}
	h.looks = bufio.NewScanner(from)
	h.process = launch(t, name, cmd)
	return h
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	full, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return full
}

// do gives an order and looks.
func (h *gpuHost) do(order string) look {
	h.t.Helper()
	if _, err := io.WriteString(h.orders, order+"\n"); err != nil {
		h.t.Fatal(err)
	}
	line := make(chan string, 1)
	go func() {
		h.looks.Scan()
		line <- h.looks.Text()
	}()
	select {
	case text := <-line:
		var l look
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			h.t.Fatalf("%s: %q: %v", order, text, err)
		}
		return l
	case <-time.After(30 * time.Second):
		h.t.Fatalf("%s: no answer within 30 s", order)
		return look{}
	}
}
