package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/symphony-serving/symphony/examples/onnxfile"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// Outputs of many sizes, by every way that an answer has: each is the model's own, or the client is told a reason.
//
// The models repeat their input: word i of an output is word i mod period of the input. The period is a prime, so
// that a part in another's place shows, and each item of each request has words of its own.
const period = 1021

// repeater writes a model whose output has about size bytes, and returns how often it repeats its input.
func repeater(t *testing.T, repository string, size, maxBatch int) (name string, times int) {
	t.Helper()
	times = max(1, size/4/period)
	name = fmt.Sprintf("repeat-%d", size)
	dir := filepath.Join(repository, name, "1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	g := onnxfile.NewGraph(name)
	g.Integers("times", []int64{1, int64(times)}, 2)
	g.Node("Tile", []string{"x", "times"}, "y")
	g.Input("x", onnxfile.Float32, period)
	g.Output("y", onnxfile.Float32, int64(times*period))
	_, err := (&onnxfile.Model{Producer: "test", Graph: g}).Save(filepath.Join(dir, "model.onnx"), "")
	if err == nil {
		err = os.WriteFile(filepath.Join(repository, name, "config.yaml"), []byte(fmt.Sprintf("platform: onnxruntime\nslo: 30s\nmax_batch: %d\n"+
			"inputs: [{name: x, type: FP32, shape: [%d]}]\noutputs: [{name: y, type: FP32, shape: [%d]}]\n", maxBatch, period, times*period)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name, times
}

// question is a request of some items for a repeater.
type question struct {
	model        string
	times, items int
	seed         int
}

func (q question) word(item, i int) float32 { return float32(q.seed%100*40_000 + item*1100 + i%period) }

func (q question) input() []byte {
	b := make([]byte, 0, q.items*period*4)
	for k := range q.items {
		for i := range period {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(q.word(k, i)))
		}
	}
	return b
}

func (q question) size() int { return q.items * q.times * period * 4 }

// checker compares the bytes that are written to it with the model's own outputs, so that no client has to hold them.
type checker struct {
	q     question
	words int // that were right
	rest  []byte
}

func (c *checker) Write(p []byte) (int, error) {
	c.rest = append(c.rest, p...)
	for ; len(c.rest) >= 4; c.rest = c.rest[4:] {
		if err := c.word(math.Float32frombits(binary.LittleEndian.Uint32(c.rest))); err != nil {
			return 0, err
		}
	}
	c.rest = append(c.rest[:0:0], c.rest...)
	return len(p), nil
}

func (c *checker) word(got float32) error {
	n := c.q.times * period
	if want := c.q.word(c.words/n, c.words%n); got != want {
		return fmt.Errorf("item %d, word %d is %v, want %v", c.words/n, c.words%n, got, want)
	}
	c.words++
	return nil
}

func (c *checker) end() error {
	if got := 4*c.words + len(c.rest); got != c.q.size() {
		return fmt.Errorf("%d bytes of outputs, want %d", got, c.q.size())
	}
	return nil
}

// check reads outputs to their end.
func (q question) check(from io.Reader) error {
	c := &checker{q: q}
	if _, err := io.CopyBuffer(c, struct{ io.Reader }{from}, make([]byte, 256<<10)); err != nil { // in pieces, whatever else it can do
		return err
	}
	return c.end()
}

// checkJSON reads an answer whose outputs are text.
func (q question) checkJSON(from io.Reader) error {
	c, doc := &checker{q: q}, json.NewDecoder(from)
	for at := json.Token(nil); at != "data"; {
		var err error
		if at, err = doc.Token(); err != nil {
			return err
		}
	}
	if _, err := doc.Token(); err != nil { // the bracket
		return err
	}
	for doc.More() {
		var v float32
		if err := doc.Decode(&v); err != nil {
			return err
		}
		if err := c.word(v); err != nil {
			return err
		}
	}
	return c.end()
}

// refused is an answer that is a reason.
type refused struct{ why string }

func (r refused) Error() string { return r.why }

// post makes an HTTP request with binary inputs; binaryOut: and outputs.
func (q question) post(address string, binaryOut bool, parameters string) *http.Request {
	in := q.input()
	head := fmt.Sprintf(`{"parameters":{"binary_data_output":%v},"inputs":[{"name":"x","datatype":"FP32","shape":[%d,%d],"parameters":{"binary_data_size":%d}}]%s}`,
		binaryOut, q.items, period, len(in), parameters)
	r, _ := http.NewRequest("POST", "http://"+address+"/v2/models/"+q.model+"/infer", bytes.NewReader(append([]byte(head), in...)))
	r.Header.Set("Inference-Header-Content-Length", strconv.Itoa(len(head)))
	return r
}

// overHTTP asks by a form: json, binary or gzip.
func (q question) overHTTP(address, form string) error {
	r := q.post(address, form != "json", "")
	c := http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	if form == "gzip" {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	a, err := c.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	var body io.Reader = a.Body
	if a.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(a.Body); err != nil {
			return err
		}
	}
	switch {
	case a.StatusCode != 200:
		text, _ := io.ReadAll(body)
		return refused{fmt.Sprintf("%d %s: %s", a.StatusCode, a.Header.Get("X-Symphony-Reason"), text)}
	case form == "json":
		return q.checkJSON(body)
	}
	return q.checkBinary(a, body)
}

// checkBinary reads an answer whose outputs follow its JSON.
func (q question) checkBinary(a *http.Response, body io.Reader) error {
	head, err := strconv.ParseInt(a.Header.Get("Inference-Header-Content-Length"), 10, 64)
	if err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, body, head); err != nil {
		return err
	}
	return q.check(body)
}

// overGRPC asks over gRPC.
func (q question) overGRPC(c inference.GRPCInferenceServiceClient) error {
	a, err := c.ModelInfer(context.Background(), &inference.ModelInferRequest{ModelName: q.model, RawInputContents: [][]byte{q.input()},
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: []int64{int64(q.items), period}}}})
	if err != nil {
		return refused{err.Error()}
	}
	return q.check(bytes.NewReader(a.RawOutputContents[0]))
}

// byLibrary asks by the Go library, an inference for each item.
func (q question) byLibrary(c *frontend.Client) error {
	in := q.input()
	outs, errs := make([][]byte, q.items), make([]error, q.items)
	var all sync.WaitGroup
	for k := range q.items {
		all.Go(func() {
			r, err := c.Infer(context.Background(), frontend.Request{Model: q.model, Inputs: []frontend.Tensor{{Name: "x", Type: catalog.FP32, Shape: []int64{period}, Data: in[k*period*4 : (k+1)*period*4]}}})
			if errs[k] = err; err == nil {
				outs[k] = r.Outputs[0].Data
			}
		})
	}
	all.Wait()
	var pieces []io.Reader
	for k := range outs {
		if errs[k] != nil {
			return refused{errs[k].Error()}
		}
		pieces = append(pieces, bytes.NewReader(outs[k]))
	}
	return q.check(io.MultiReader(pieces...))
}

// inSharedMemory asks for outputs in a region of the test's own.
func (q question) inSharedMemory(t *testing.T, address string) error {
	name := fmt.Sprintf("symphony-outputs-%d-%d", os.Getpid(), q.seed)
	path := "/dev/shm/" + name
	region, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		defer os.Remove(path)
		defer region.Close()
		err = region.Truncate(int64(q.size()))
	}
	if err != nil {
		t.Skip(err)
	}
	base := "http://" + address + "/v2/systemsharedmemory/region/" + name
	a, err := http.Post(base+"/register", "application/json", strings.NewReader(fmt.Sprintf(`{"key":"/%s","offset":0,"byte_size":%d}`, name, q.size())))
	if err != nil {
		return err
	}
	a.Body.Close()
	defer http.Post(base+"/unregister", "application/json", nil)
	a, err = http.DefaultClient.Do(q.post(address, true, fmt.Sprintf(`,"outputs":[{"name":"y","parameters":{"shared_memory_region":"%s","shared_memory_byte_size":%d}}]`, name, q.size())))
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if text, _ := io.ReadAll(a.Body); a.StatusCode != 200 {
		return refused{fmt.Sprintf("%d: %s", a.StatusCode, text)}
	}
	return q.check(region)
}

// slowly reads a reply in small pieces with pauses; vanish: not to its end.
func (q question) slowly(address string, vanish bool) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := q.post(address, true, "").Write(c); err != nil {
		return err
	}
	buffered := bufio.NewReaderSize(c, 32<<10)
	a, err := http.ReadResponse(buffered, nil)
	if err != nil {
		return err
	}
	if vanish {
		_, err := io.CopyN(io.Discard, a.Body, int64(min(q.size()/2, 64<<10)))
		return err
	}
	if a.StatusCode != 200 {
		text, _ := io.ReadAll(a.Body)
		return refused{fmt.Sprintf("%d %s", a.StatusCode, text)}
	}
	return q.checkBinary(a, slowReader{a.Body, time.Duration(max(1, 1000/(1+q.size()>>18))) * time.Millisecond}) // a second more, in all
}

// slowReader pauses before each piece of at most 256 KiB.
type slowReader struct {
	from  io.Reader
	pause time.Duration
}

func (r slowReader) Read(p []byte) (int, error) {
	time.Sleep(r.pause)
	n, err := io.ReadFull(r.from, p[:min(len(p), 256<<10)])
	if err == io.ErrUnexpectedEOF { // the last piece
		err = nil
	}
	return n, err
}

// peak is the most memory that a process has had, or has now, in bytes.
func peak(t *testing.T, p *process, field string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == field+":" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	t.Fatalf("no %s", field)
	return 0
}

// asker has the clients of all ways.
type asker struct {
	web  string
	grpc inference.GRPCInferenceServiceClient
	lib  *frontend.Client
}

func dialOutputs(t *testing.T, web, rpc, scheduler string) *asker {
	conn, err := grpc.NewClient(rpc, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	lib, err := frontend.Dial(context.Background(), frontend.Options{Scheduler: "tcp:" + scheduler})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lib.Close() })
	return &asker{web, inference.NewGRPCInferenceServiceClient(conn), lib}
}

func (c *asker) ask(t *testing.T, q question, way string) (err error) {
	switch way {
	case "grpc":
		return q.overGRPC(c.grpc)
	case "library":
		return q.byLibrary(c.lib)
	case "shared memory":
		return q.inSharedMemory(t, c.web)
	case "slow reader":
		return q.slowly(c.web, false)
	case "reader that vanishes":
		for range 3 {
			if err == nil {
				err = q.slowly(c.web, true)
			}
		}
		return err
	}
	return q.overHTTP(c.web, way)
}

const outputsYAML = `
gc_percent: 50
scheduler: {listen: ["%s", "tcp:%s"]}
frontend: {scheduler: "%s", listen: "%s", http: "%s", grpc: "%s", shared_memory: true, outputs_max: %d}
backend: {name: here, scheduler: "%s", repository: %q, outputs_max: %d, pools: [{device_type: cpu, kind: cpu, devices: 1}]}
control: {http: "127.0.0.1:0"}
`

func TestOutputs(t *testing.T) {
	t.Parallel()
	sizes, batches, room := []int{1 << 10, 256 << 10, 3 << 20}, []int{1, 8}, int64(96<<20)
	full := os.Getenv("OUTPUTS") == "all"
	if full {
		sizes, batches, room = []int{1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20}, []int{1, 4, 8, 32}, 2<<30
	}
	for _, network := range []string{"inproc", "tcp"} {
		t.Run(network, func(t *testing.T) { outputsOver(t, network, sizes, batches, room, full) })
	}
}

func outputsOver(t *testing.T, network string, sizes, batches []int, room int64, full bool) {
	repository := t.TempDir()
	maxBatch := batches[len(batches)-1]
	var names []string
	times := map[int]int{}
	for _, size := range sizes {
		name, n := repeater(t, repository, size, maxBatch)
		names, times[size] = append(names, name), n
	}
	lead, tcp, web, rpc := "inproc:scheduler", hostPort(freePort(t)), hostPort(freePort(t)), hostPort(freePort(t))
	listen := "inproc:frontend"
	first := lead
	if network == "tcp" {
		lead, listen = "tcp:"+tcp, "tcp:127.0.0.1:0"
	}
	p := start(t, "serve", "serve", "-c", write(t, outputsYAML, first, tcp, lead, listen, web, rpc, room, lead, repository, room))
	waitReady(t, web, names...)
	c := dialOutputs(t, web, rpc, tcp)
	// Profiles were measured at the start, with whole batches: the most memory counts from here on.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0); err != nil {
		t.Logf("the most memory counts from the process's start on: %v", err)
	}
	base := peak(t, p, "VmRSS")
	seed := 0
	for _, size := range sizes {
		for _, items := range batches {
			if most, err := strconv.Atoi(os.Getenv("OUTPUTS_MOST")); err == nil && size*items > most {
				continue // on a machine with less memory
			}
			for _, way := range []string{"json", "binary", "gzip", "grpc", "library", "shared memory", "slow reader", "reader that vanishes"} {
				seed++
				q := question{fmt.Sprintf("repeat-%d", size), times[size], items, seed}
				began := time.Now()
				err := c.ask(t, q, way)
				took, told := time.Since(began), "the model's own"
				if r, is := err.(refused); is && int64(q.size())*8 >= room { // a reason: of what is larger than the room alone
					told = r.why
				} else if err != nil {
					t.Errorf("%d items of %d bytes, %s: %v", items, size, way, err)
				}
				if full {
					t.Logf("%-6s %9d B x %2d  %-20s %8.1f ms  RSS %5d MiB (peak %5d)  %.120s", network, size, items, way, took.Seconds()*1000,
						peak(t, p, "VmRSS")>>20, peak(t, p, "VmHWM")>>20, told)
				}
			}
		}
	}
	// Of each: outputs that wait at the backend, outputs and replies at the frontend; the device has two batches, and three
	// orders keep theirs. Go's collector lets as much garbage come as gc_percent says.
	batch := int64(sizes[len(sizes)-1]) * int64(maxBatch)
	bound := base + (2*room+5*batch)*3/2
	most := peak(t, p, "VmHWM")
	t.Logf("%s: at the start %d MiB, at most %d MiB, bound %d MiB", network, base>>20, most>>20, bound>>20)
	if most > bound {
		t.Errorf("%d MiB of memory, at most %d were to be used", most>>20, bound>>20)
	}
}
