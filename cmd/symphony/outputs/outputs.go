// Package outputs is for tests: it asks for outputs of many sizes, in every way that an answer has, and compares each word.
//
// The models repeat their input: word i of an output is word i mod period of the input. The period is a prime, so
// that a part in another's place shows, and each item of each request has words of its own.
package outputs

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
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
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/symphony-serving/symphony/examples/onnxfile"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/transport/catalog"
)

const period = 1021

// Model writes a model whose outputs have about size bytes an item, as repeat-SIZE.
func Model(repository string, size, maxBatch int) (name string, err error) {
	times := repeats(size)
	name = fmt.Sprintf("repeat-%d", size)
	dir := filepath.Join(repository, name, "1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	g := onnxfile.NewGraph(name)
	g.Integers("times", []int64{1, int64(times)}, 2)
	g.Node("Tile", []string{"x", "times"}, "y")
	g.Input("x", onnxfile.Float32, period)
	g.Output("y", onnxfile.Float32, int64(times*period))
	if _, err := (&onnxfile.Model{Producer: "test", Graph: g}).Save(filepath.Join(dir, "model.onnx"), ""); err != nil {
		return "", err
	}
	return name, os.WriteFile(filepath.Join(repository, name, "config.yaml"), fmt.Appendf(nil, "platform: onnxruntime\nslo: 60s\nmax_batch: %d\n"+
		"inputs: [{name: x, type: FP32, shape: [%d]}]\noutputs: [{name: y, type: FP32, shape: [%d]}]\n", maxBatch, period, times*period), 0o644)
}

// repeats is how often a model of that size repeats its input.
func repeats(size int) int { return max(1, size/4/period) }

// Question is a request of some items for the model of a size. Its seed decides its inputs.
type Question struct{ Size, Items, Seed int }

func (q Question) times() int    { return repeats(q.Size) }
func (q Question) model() string { return fmt.Sprintf("repeat-%d", q.Size) }

func (q Question) word(item, i int) float32 { return float32(q.Seed%100*40_000 + item*1100 + i%period) }

func (q Question) input() []byte {
	b := make([]byte, 0, q.Items*period*4)
	for k := range q.Items {
		for i := range period {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(q.word(k, i)))
		}
	}
	return b
}

// Bytes are those of all outputs.
func (q Question) Bytes() int { return q.Items * q.times() * period * 4 }

// checker compares the bytes that are written to it with the model's own outputs, so that no client has to hold them.
type checker struct {
	q     Question
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
	n := c.q.times() * period
	if want := c.q.word(c.words/n, c.words%n); got != want {
		return fmt.Errorf("item %d, word %d is %v, want %v", c.words/n, c.words%n, got, want)
	}
	c.words++
	return nil
}

func (c *checker) end() error {
	if got := 4*c.words + len(c.rest); got != c.q.Bytes() {
		return fmt.Errorf("%d bytes of outputs, want %d", got, c.q.Bytes())
	}
	return nil
}

// check reads outputs to their end.
func (q Question) check(from io.Reader) error {
	c := &checker{q: q}
	if _, err := io.CopyBuffer(c, struct{ io.Reader }{from}, make([]byte, 256<<10)); err != nil { // in pieces, whatever else it can do
		return err
	}
	return c.end()
}

// checkJSON reads an answer whose outputs are text: what follows "data":[ up to the bracket's end.
func (q Question) checkJSON(from io.Reader) error {
	c, in := &checker{q: q}, bufio.NewReaderSize(from, 256<<10)
	for at, start := 0, `"data":[`; at < len(start); {
		b, err := in.ReadByte()
		switch {
		case err != nil:
			return err
		case b == start[at]:
			at++
		case b == start[0]:
			at = 1
		default:
			at = 0
		}
	}
	var number []byte
	for {
		b, err := in.ReadByte()
		if err != nil {
			return err
		}
		if b != ',' && b != ']' {
			number = append(number, b)
			continue
		}
		v, err := strconv.ParseFloat(string(number), 32)
		if err == nil {
			err = c.word(float32(v))
		}
		if err != nil {
			return err
		}
		if number = number[:0]; b == ']' {
			return c.end()
		}
	}
}

// Refused is an answer that is a reason.
type Refused struct{ Why string }

func (r Refused) Error() string { return r.Why }

// post makes an HTTP request with binary inputs; binaryOut: and outputs.
func (q Question) post(address string, binaryOut bool, parameters string) *http.Request {
	in := q.input()
	head := fmt.Sprintf(`{"parameters":{"binary_data_output":%v},"inputs":[{"name":"x","datatype":"FP32","shape":[%d,%d],"parameters":{"binary_data_size":%d}}]%s}`,
		binaryOut, q.Items, period, len(in), parameters)
	r, _ := http.NewRequest("POST", "http://"+address+"/v2/models/"+q.model()+"/infer", bytes.NewReader(append([]byte(head), in...)))
	r.Header.Set("Inference-Header-Content-Length", strconv.Itoa(len(head)))
	return r
}

// overHTTP asks by a form: json, binary or gzip.
func (q Question) overHTTP(address, form string) error {
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
		return Refused{fmt.Sprintf("%d %s: %s", a.StatusCode, a.Header.Get("X-Symphony-Reason"), text)}
	case form == "json":
		return q.checkJSON(body)
	}
	return q.checkBinary(a, body)
}

// checkBinary reads an answer whose outputs follow its JSON.
func (q Question) checkBinary(a *http.Response, body io.Reader) error {
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
func (q Question) overGRPC(c inference.GRPCInferenceServiceClient) error {
	a, err := c.ModelInfer(context.Background(), &inference.ModelInferRequest{ModelName: q.model(), RawInputContents: [][]byte{q.input()},
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: []int64{int64(q.Items), period}}}})
	if err != nil {
		return Refused{err.Error()}
	}
	return q.check(bytes.NewReader(a.RawOutputContents[0]))
}

// byLibrary asks by the Go library, an inference for each item.
func (q Question) byLibrary(c *frontend.Client) error {
	in := q.input()
	outs, errs := make([][]byte, q.Items), make([]error, q.Items)
	var all sync.WaitGroup
	for k := range q.Items {
		all.Go(func() {
			r, err := c.Infer(context.Background(), frontend.Request{Model: q.model(), Inputs: []frontend.Tensor{{Name: "x", Type: catalog.FP32, Shape: []int64{period}, Data: in[k*period*4 : (k+1)*period*4]}}})
			if errs[k] = err; err == nil {
				outs[k] = r.Outputs[0].Data
			}
		})
	}
	all.Wait()
	var pieces []io.Reader
	for k := range outs {
		if errs[k] != nil {
			return Refused{errs[k].Error()}
		}
		pieces = append(pieces, bytes.NewReader(outs[k]))
	}
	return q.check(io.MultiReader(pieces...))
}

// inSharedMemory asks for outputs in a region of the test's own.
func (q Question) inSharedMemory(address string) error {
	name := fmt.Sprintf("symphony-outputs-%d-%d", os.Getpid(), q.Seed)
	path := "/dev/shm/" + name
	region, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		defer os.Remove(path)
		defer region.Close()
		err = region.Truncate(int64(q.Bytes()))
	}
	if err != nil {
		return err
	}
	base := "http://" + address + "/v2/systemsharedmemory/region/" + name
	a, err := http.Post(base+"/register", "application/json", strings.NewReader(fmt.Sprintf(`{"key":"/%s","offset":0,"byte_size":%d}`, name, q.Bytes())))
	if err != nil {
		return err
	}
	a.Body.Close()
	defer http.Post(base+"/unregister", "application/json", nil)
	a, err = http.DefaultClient.Do(q.post(address, true, fmt.Sprintf(`,"outputs":[{"name":"y","parameters":{"shared_memory_region":"%s","shared_memory_byte_size":%d}}]`, name, q.Bytes())))
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if text, _ := io.ReadAll(a.Body); a.StatusCode != 200 {
		return Refused{fmt.Sprintf("%d: %s", a.StatusCode, text)}
	}
	return q.check(region)
}

// slowly reads a reply in small pieces with pauses; vanish: not to its end.
func (q Question) slowly(address string, vanish bool) error {
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
		_, err := io.CopyN(io.Discard, a.Body, int64(min(q.Bytes()/2, 64<<10)))
		return err
	}
	if a.StatusCode != 200 {
		text, _ := io.ReadAll(a.Body)
		return Refused{fmt.Sprintf("%d %s", a.StatusCode, text)}
	}
	return q.checkBinary(a, slowReader{a.Body, time.Duration(max(1, 1000/(1+q.Bytes()>>18))) * time.Millisecond}) // a second more, in all
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

// Ways are all that an answer has. A reader that vanishes reads a part of it.
func Ways() []string {
	return []string{"json", "binary", "gzip", "grpc", "library", "shared memory", "slow reader", "reader that vanishes"}
}

// Clients ask in all ways.
type Clients struct {
	web  string
	conn *grpc.ClientConn
	grpc inference.GRPCInferenceServiceClient
	lib  *frontend.Client
}

// Dial takes the frontend's addresses for HTTP and gRPC, and the scheduler's.
func Dial(web, rpc string, library frontend.Options) (*Clients, error) {
	conn, err := grpc.NewClient(rpc, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		return nil, err
	}
	lib, err := frontend.Dial(context.Background(), library)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Clients{web, conn, inference.NewGRPCInferenceServiceClient(conn), lib}, nil
}

func (c *Clients) Close() error {
	return errors.Join(c.lib.Close(), c.conn.Close())
}

// Ask asks in one of the ways. nil: each word is the model's own; Refused: the reason.
func (c *Clients) Ask(q Question, way string) (err error) {
	switch way {
	case "grpc":
		return q.overGRPC(c.grpc)
	case "library":
		return q.byLibrary(c.lib)
	case "shared memory":
		return q.inSharedMemory(c.web)
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
