package e2e

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/preprocess"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// library is where ONNX Runtime lies; without it the test is skipped, unless
// it was promised.
func library(t *testing.T) string {
	t.Helper()
	path := os.Getenv("SYMPHONY_ONNXRUNTIME")
	if path == "" {
		path = filepath.Join(root, "build/onnxruntime/libonnxruntime.so")
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("SYMPHONY_REQUIRE_ONNXRUNTIME") != "" {
			t.Fatalf("%v: run `make models`", err)
		}
		t.Skipf("%v: run `make models`", err)
	}
	return path
}

// direct is a digits model in this very process, run by ONNX Runtime without
// anything of Symphony around it.
type direct struct {
	model   repository.Model
	session *onnx.Session
	ladder  []int // the sizes that the server runs; nil: all
}

func openDirect(t *testing.T, name string) direct {
	t.Helper()
	if err := onnx.Load(library(t)); err != nil {
		if errors.Is(err, onnx.ErrUnsupported) && os.Getenv("SYMPHONY_REQUIRE_ONNXRUNTIME") == "" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	models, failed, err := repository.Load(filepath.Join(root, "examples/digits/models"))
	if err != nil || len(failed) > 0 {
		t.Fatal(err, failed)
	}
	for _, m := range models {
		if m.Spec.Name == name {
			s, err := onnx.Open(m.Path, &m.Spec, 1)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			return direct{model: m, session: s}
		}
	}
	t.Fatalf("no model %s", name)
	return direct{}
}

// run executes the input in a batch of n copies and returns the first row.
func (d direct) run(t *testing.T, input []byte, n int) []byte {
	t.Helper()
	b := &executor.Batch{Size: n}
	for range n {
		b.Inputs = append(b.Inputs, input)
		b.Outputs = append(b.Outputs, make([]byte, d.model.Spec.Outputs[0].ByteSize()))
	}
	if err := d.session.Run(b); err != nil {
		t.Fatal(err)
	}
	return b.Outputs[0]
}

// digits are the sample images as the model's input tensors.
func (d direct) digits(t *testing.T) [][]byte {
	t.Helper()
	dir := filepath.Join(root, "examples/digits/images")
	f, err := os.Open(filepath.Join(dir, "labels.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := preprocess.NewPlan(*d.model.Spec.Image, d.model.Spec.Inputs[0])
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for _, r := range rows[1:] {
		image, err := os.ReadFile(filepath.Join(dir, r[0]))
		if err != nil {
			t.Fatal(err)
		}
		tensor := make([]byte, plan.Size())
		if err := plan.Into(tensor, image); err != nil {
			t.Fatal(err)
		}
		out = append(out, tensor)
	}
	return out
}

// patiently asks until an answer is not late, three times at most: what is compared
// here is bytes, and a lone request is served so near its deadline that one pause of
// the machine makes it late. That none is lost is shown by TestSoak.
func patiently[T any](t *testing.T, ask func() (T, error)) (T, error) {
	for tries := 1; ; tries++ {
		r, err := ask()
		if !errors.Is(err, frontend.ErrDeadlineExceeded) || tries == 3 {
			return r, err
		}
		t.Logf("asked again: %v", err)
	}
}

// compare asks the server for every digit, alone and all at once, and demands
// the very bytes that ONNX Runtime gives for the same batch size.
func (d direct) compare(t *testing.T, client *frontend.Client) {
	t.Helper()
	digits, sizes := d.digits(t), map[int]int{}
	in := d.model.Spec.Inputs[0]
	ask := func(tensor []byte) (*frontend.Response, error) {
		return patiently(t, func() (*frontend.Response, error) {
			return client.Infer(context.Background(), frontend.Request{Model: d.model.Spec.Name, Timeout: 2 * time.Second,
				Inputs: []frontend.Tensor{{Name: in.Name, Type: in.Type, Shape: in.Shape, Data: tensor}}})
		})
	}
	check := func(i int, r *frontend.Response, err error) {
		if err != nil {
			t.Errorf("digit %d: %v", i, err)
			return
		}
		sizes[r.BatchSize]++
		n := r.BatchSize
		if d.ladder != nil {
			n = cuda.RoundUp(d.ladder, n)
		}
		if want := d.run(t, digits[i], n); !bytes.Equal(r.Outputs[0].Data, want) {
			t.Errorf("digit %d in a batch of %d: the server's bytes differ from ONNX Runtime's", i, r.BatchSize)
		}
	}
	r, err := ask(digits[0])
	check(0, r, err)
	replies, errs := make([]*frontend.Response, len(digits)), make([]error, len(digits))
	var wait sync.WaitGroup
	for i := range digits {
		wait.Add(1)
		go func() { defer wait.Done(); replies[i], errs[i] = ask(digits[i]) }()
	}
	wait.Wait()
	for i := range digits {
		check(i, replies[i], errs[i])
	}
	t.Logf("%s: every byte equal; answers by batch size: %v", d.model.Spec.Name, sizes)
}

const digitsPool = "{device_type: cpu, kind: cpu, devices: 1, threads: 1}"

// TestSameAnswersInOneProcess: `symphony serve` answers as ONNX Runtime called
// directly, to the byte.
func TestSameAnswersInOneProcess(t *testing.T) {
	models := []direct{openDirect(t, "digits-cnn"), openDirect(t, "digits-wide")}
	scheduler, http := hostPort(freePort(t)), hostPort(freePort(t))
	start(t, "serve", "serve", "-c", write(t, serveYAML, scheduler, http, "examples/digits/models", digitsPool))
	waitReady(t, http, "digits-cnn", "digits-wide")
	c := &cluster{t: t, address: scheduler}
	c.dial("digits-cnn", "digits-wide")
	for _, d := range models {
		d.compare(t, c.client)
	}
}

// TestSameAnswersOverTCP: the same from scheduler, frontend and two backends as
// processes of their own, asked through the client library and over HTTP.
func TestSameAnswersOverTCP(t *testing.T) {
	models := []direct{openDirect(t, "digits-cnn"), openDirect(t, "digits-wide")}
	c := &cluster{t: t, address: hostPort(freePort(t)), metrics: hostPort(freePort(t))}
	c.startScheduler()
	path := write(t, "backend:\n  repository: examples/digits/models\n  pools: [%s]\n", digitsPool)
	for i := range 2 {
		name := fmt.Sprint("backend-", i)
		start(t, name, "backend", "-c", path, "--scheduler", "tcp:"+c.address, "--name", name)
	}
	http := hostPort(freePort(t))
	start(t, "frontend", "frontend", "--scheduler", "tcp:"+c.address, "--http", http)
	waitReady(t, http, "digits-cnn", "digits-wide")
	c.dial("digits-cnn", "digits-wide")
	c.waitGPUs("digits-cnn", 2, 60*time.Second)
	for _, d := range models {
		d.compare(t, c.client)
		d.compareHTTP(t, http)
	}
}

// compareHTTP asks for one digit by the protocol's binary extension.
func (d direct) compareHTTP(t *testing.T, http string) {
	t.Helper()
	tensor := d.digits(t)[3]
	in, out := d.model.Spec.Inputs[0], d.model.Spec.Outputs[0]
	head := fmt.Sprintf(`{"id":"7","parameters":{"timeout":2000000},"inputs":[{"name":%q,"datatype":"FP32","shape":%s,"parameters":{"binary_data_size":%d}}],"outputs":[{"name":%q,"parameters":{"binary_data":true}}]}`,
		in.Name, shape(in), len(tensor), out.Name)
	output, err := patiently(t, func() ([]byte, error) {
		code, header, body := post(t, "http://"+http+"/v2/models/"+d.model.Spec.Name+"/infer", append([]byte(head), tensor...),
			"Inference-Header-Content-Length", fmt.Sprint(len(head)))
		if code == 429 || code == 503 && bytes.Contains(body, []byte("Request timeout expired")) {
			return nil, frontend.ErrDeadlineExceeded
		}
		if code != 200 {
			return nil, fmt.Errorf("status %d: %s", code, body)
		}
		at, err := strconv.Atoi(header.Get("Inference-Header-Content-Length"))
		return body[min(at, len(body)):], err
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := d.run(t, tensor, 1); !bytes.Equal(output, want) {
		t.Errorf("%s over HTTP: the bytes differ from ONNX Runtime's", d.model.Spec.Name)
	}
}

// shape is the tensor's shape with a batch dimension of 1, as JSON.
func shape(s catalog.TensorSpec) string {
	out := "[1"
	for _, d := range s.Shape {
		out += fmt.Sprintf(",%d", d)
	}
	return out + "]"
}
