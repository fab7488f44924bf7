package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
)

var (
	ocrSeed     = flag.Uint64("ocr.seed", 0, "of the recogniser's inputs (0: another one each time)")
	ocrBatch    = flag.Int("ocr.batch", 16, "the recogniser's max_batch")
	ocrRequests = flag.Int("ocr.requests", 2000, "to the recogniser")
)

const (
	ocrModel   = "ppocr-rec"
	ocrClients = 16
	ocrInputs  = 200 // different ones
	ocrWithin  = 1e-4
)

// TestOCR: 16 clients ask a real recogniser, whose outputs are large (1.06 MB), half of them over
// HTTP and half over gRPC. Every answer comes, and is that of ONNX Runtime alone. (make test-ocr)
func TestOCR(t *testing.T) {
	if os.Getenv("SYMPHONY_REQUIRE_OCR") == "" {
		t.Skip("some minutes: make test-ocr")
	}
	seed := *ocrSeed
	if seed == 0 {
		seed = 1 + rand.Uint64()%1e6
	}
	t.Logf("seed %d (-ocr.seed), batches up to %d (-ocr.batch)", seed, *ocrBatch)
	models := ocrRepository(t, *ocrBatch)
	spec, inputs, want := ocrAlone(t, models, seed)
	config := write(t, `
scheduler: {listen: ["inproc:scheduler"]}
frontend: {name: f, scheduler: "inproc:scheduler", listen: "inproc:frontend"}
backend: {name: b, scheduler: "inproc:scheduler", repository: %q, onnxruntime: %q, pools: [{device_type: cpu, kind: cpu, devices: 1, threads: 1}]}
`, models, must(filepath.Abs(library(t))))
	web, rpc := hostPort(freePort(t)), hostPort(freePort(t))
	start(t, "serve", "serve", "--config", config, "--http", web, "--grpc", rpc, "--admin", hostPort(freePort(t)), "--set", "control.http="+hostPort(freePort(t)))
	waitReady(t, web, ocrModel)
	conn, err := grpc.NewClient(rpc, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := ocrClient{spec: spec, url: "http://" + web + "/v2/models/" + ocrModel + "/infer", http: &http.Client{Timeout: 2 * time.Minute}, grpc: inference.NewGRPCInferenceServiceClient(conn)}
	var next, good, wrong atomic.Int64
	var worst atomic.Uint64 // bits of the largest difference
	var all sync.WaitGroup
	began := time.Now()
	for range ocrClients {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < *ocrRequests; i = int(next.Add(1)) - 1 {
				k := i % ocrInputs
				got, err := c.ask(t, i, inputs[k])
				if err != nil {
					if wrong.Add(1) <= 5 {
						t.Errorf("request %d: %v", i, err)
					}
					continue
				}
				d := differs(got, want[k])
				for old := worst.Load(); d > math.Float64frombits(old) && !worst.CompareAndSwap(old, math.Float64bits(d)); old = worst.Load() {
				}
				if d <= ocrWithin {
					good.Add(1)
				} else if wrong.Add(1) <= 5 {
					t.Errorf("request %d: it differs by %g, at most %g", i, d, ocrWithin)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d of %d answers are right in %v; the largest difference is %.2g", good.Load(), *ocrRequests, time.Since(began).Round(time.Second), math.Float64frombits(worst.Load()))
	if good.Load() != int64(*ocrRequests) {
		t.Errorf("%d are lost or wrong", int64(*ocrRequests)-good.Load())
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// ocrRepository is a copy of make models-ocr's with the recogniser alone.
func ocrRepository(t *testing.T, batch int) string {
	t.Helper()
	from, to := filepath.Join(root, "build/ocr/models", ocrModel), filepath.Join(t.TempDir(), "models")
	config, err := os.ReadFile(filepath.Join(from, "config.yaml"))
	if err != nil {
		t.Fatalf("%v: run `make models-ocr`", err)
	}
	text := strings.Replace(string(config), "max_batch: 16", fmt.Sprint("max_batch: ", batch), 1)
	file := must(os.ReadFile(filepath.Join(from, "1", "model.onnx")))
	folder := filepath.Join(to, ocrModel)
	if err := os.MkdirAll(filepath.Join(folder, "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "1", "model.onnx"), file, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "config.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}

// ocrAlone makes the inputs, and what ONNX Runtime answers to each, alone in its batch.
func ocrAlone(t *testing.T, models string, seed uint64) (spec *repository.Model, inputs, outputs [][]byte) {
	t.Helper()
	if err := onnx.Load(library(t)); err != nil {
		t.Fatal(err)
	}
	all, failed, err := repository.Load(models)
	if err != nil || len(failed) > 0 || len(all) != 1 {
		t.Fatal(err, failed, len(all))
	}
	spec = &all[0]
	s, err := onnx.Open(spec.Path, &spec.Spec, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rng := rand.New(rand.NewPCG(seed, 0x6f6372))
	for range ocrInputs {
		in, out := written(rng), make([]byte, spec.Spec.Outputs[0].ByteSize())
		if err := s.Run(&executor.Batch{Size: 1, Inputs: [][]byte{in}, Outputs: [][]byte{out}}); err != nil {
			t.Fatal(err)
		}
		if n := len(outputs); n > 0 && differs(outputs[n-1], out) < 100*ocrWithin {
			t.Fatal("two inputs have one answer: whose it was could not be told")
		}
		inputs, outputs = append(inputs, in), append(outputs, out)
	}
	return spec, inputs, outputs
}

// written is a line of dark strokes on a light, uneven ground, as the recogniser's input: the
// same in three colours.
func written(rng *rand.Rand) []byte {
	const high, wide = 48, 320
	var grey [high * wide]float32
	for i := range grey {
		grey[i] = 0.7 + 0.3*rng.Float32()
	}
	for range 10 + rng.IntN(60) { // strokes
		x, y := 4+rng.Float64()*(wide-8), 4+rng.Float64()*(high-8)
		dx, dy := rng.Float64()*2-1, rng.Float64()*2-1
		for range 4 + rng.IntN(24) {
			for _, w := range []int{0, 1} {
				if px, py := int(x)+w, int(y); px >= 0 && px < wide && py >= 0 && py < high {
					grey[py*wide+px] = -0.8
				}
			}
			x, y = x+dx, y+dy
		}
	}
	out := make([]byte, 0, 3*4*len(grey))
	for range 3 {
		for _, v := range grey {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
	}
	return out
}

// differs is the largest difference of two tensors; +Inf where one has another size, or no number.
func differs(a, b []byte) (most float64) {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	for i := 0; i < len(a); i += 4 {
		d := math.Abs(float64(math.Float32frombits(binary.LittleEndian.Uint32(a[i:]))) - float64(math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))))
		if math.IsNaN(d) {
			return math.Inf(1)
		}
		most = max(most, d)
	}
	return most
}

// ocrClient asks in each way.
type ocrClient struct {
	spec *repository.Model
	url  string
	http *http.Client
	grpc inference.GRPCInferenceServiceClient
}

// patience of requests: none is late on a busy machine.
const patience = time.Minute

func (c *ocrClient) ask(t *testing.T, i int, input []byte) ([]byte, error) {
	switch {
	case i%2 == 1:
		return c.overGRPC(t, input)
	case i%20 == 0: // text takes long to read
		return c.overJSON(input)
	}
	return c.overHTTP(input)
}

func (c *ocrClient) overGRPC(t *testing.T, input []byte) ([]byte, error) {
	in := &c.spec.Spec.Inputs[0]
	r, err := c.grpc.ModelInfer(t.Context(), &inference.ModelInferRequest{ModelName: ocrModel, RawInputContents: [][]byte{input},
		Inputs:     []*inference.ModelInferRequest_InferInputTensor{{Name: in.Name, Datatype: "FP32", Shape: append([]int64{1}, in.Shape...)}},
		Parameters: map[string]*inference.InferParameter{"timeout": {ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: patience.Microseconds()}}}})
	if err != nil {
		return nil, err
	}
	if len(r.RawOutputContents) != 1 {
		return nil, fmt.Errorf("%d outputs", len(r.RawOutputContents))
	}
	return r.RawOutputContents[0], nil
}

// head is a request's JSON; more stands in its input and beside it.
func (c *ocrClient) head(input, beside string) string {
	in := &c.spec.Spec.Inputs[0]
	shape := must(json.Marshal(append([]int64{1}, in.Shape...)))
	return fmt.Sprintf(`{"inputs":[{"name":%q,"datatype":"FP32","shape":%s,%s}],"parameters":{"timeout":%d%s}}`, in.Name, shape, input, patience.Microseconds(), beside)
}

func (c *ocrClient) overHTTP(input []byte) ([]byte, error) {
	head := c.head(fmt.Sprintf(`"parameters":{"binary_data_size":%d}`, len(input)), `,"binary_data_output":true`)
	body, header, err := c.post(slices.Concat([]byte(head), input), strconv.Itoa(len(head)))
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(header.Get("Inference-Header-Content-Length"))
	if err != nil || n > len(body) {
		return nil, fmt.Errorf("an answer of %d bytes with a head of %d: %v", len(body), n, err)
	}
	return body[n:], nil
}

func (c *ocrClient) overJSON(input []byte) ([]byte, error) {
	data := []byte(`"data":[`)
	for i := 0; i < len(input); i += 4 {
		if i > 0 {
			data = append(data, ',')
		}
		data = strconv.AppendFloat(data, float64(math.Float32frombits(binary.LittleEndian.Uint32(input[i:]))), 'g', -1, 32)
	}
	body, _, err := c.post([]byte(c.head(string(append(data, ']')), "")), "")
	if err != nil {
		return nil, err
	}
	var r struct {
		Outputs []struct{ Data []float32 }
	}
	if err := json.Unmarshal(body, &r); err != nil || len(r.Outputs) != 1 {
		return nil, fmt.Errorf("%d outputs, %v", len(r.Outputs), err)
	}
	var out []byte
	for _, v := range r.Outputs[0].Data {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out, nil
}

func (c *ocrClient) post(body []byte, head string) ([]byte, http.Header, error) {
	q, err := http.NewRequest("POST", c.url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if head != "" {
		q.Header.Set("Inference-Header-Content-Length", head)
	}
	r, err := c.http.Do(q)
	if err != nil {
		return nil, nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", r.Status, b)
	}
	return b, r.Header, err
}
