package ingress

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// instant answers at once and allocates nothing: what is measured is the
// ingress.
type instant struct {
	entry    catalog.Entry
	response frontend.Response
	slab     []byte
}

func newInstant() *instant {
	e := spec("digits", []catalog.TensorSpec{{Name: "x", Type: catalog.FP32, Shape: []int64{784}}},
		[]catalog.TensorSpec{{Name: "logits", Type: catalog.FP32, Shape: []int64{10}}})
	return &instant{e, frontend.Response{BatchSize: 1, Total: time.Millisecond,
		Outputs: []frontend.Tensor{{Name: "logits", Type: catalog.FP32, Shape: []int64{10}, Data: make([]byte, 40)}}}, make([]byte, 3136)}
}

func (f *instant) Models() catalog.Catalogue {
	return catalog.Catalogue{Entries: []catalog.Entry{f.entry}}
}
func (f *instant) Ready() bool                                            { return true }
func (*instant) Labels(context.Context, string, string) ([]string, error) { return nil, nil }

func (f *instant) Model(string, string) (catalog.Entry, error) {
	return f.entry, nil
}
func (f *instant) Serving() bool            { return true }
func (f *instant) Versions(string) []string { return []string{"1"} }
func (f *instant) Choose(string, string) (catalog.Entry, error) {
	return f.entry, nil
}
func (f *instant) Infer(context.Context, frontend.Request) (*frontend.Response, error) {
	return &f.response, nil
}
func (f *instant) Reserve(r *frontend.Reservation, _, _ string) error {
	r.Input = f.slab
	return nil
}
func (f *instant) Release(*frontend.Reservation) {}
func (f *instant) Cancel(wire.RequestID)         {}
func (f *instant) InferReserved(context.Context, *frontend.Reservation, time.Duration) (*frontend.Response, error) {
	return &f.response, nil
}
func (f *instant) InferAsync(_ context.Context, _ frontend.Request, done func(*frontend.Response, error)) {
	done(&f.response, nil)
}

// bodies are one inference on 784 floats, as bytes and as JSON.
func bodies() (bin, json []byte) {
	var tensor, list []byte
	for i := range 784 {
		v := float32(i*37%256) / 255
		tensor = binary.LittleEndian.AppendUint32(tensor, math.Float32bits(v))
		list = fmt.Appendf(list, ",%v", v)
	}
	head := `{"inputs":[{"name":"x","shape":[1,784],"datatype":"FP32","parameters":{"binary_data_size":3136}}],"outputs":[{"name":"logits","parameters":{"binary_data":true}}]}`
	const post = "POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n"
	bin = fmt.Appendf(nil, post+"Inference-Header-Content-Length: %d\r\n\r\n%s%s", len(head)+len(tensor), len(head), head, tensor)
	j := `{"inputs":[{"name":"x","shape":[1,784],"datatype":"FP32","data":[` + string(list[1:]) + `]}]}`
	return bin, fmt.Appendf(nil, post+"\r\n%s", len(j), j)
}

// BenchmarkInfer compares the ingress with a bare fasthttp server that echoes
// the same bytes, over loopback TCP, a connection for each processor.
func BenchmarkInfer(b *testing.B) {
	echo := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) { ctx.SetBody(ctx.PostBody()) }}
	s, err := New(Config{Client: newInstant()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil && !errors.Is(err, net.ErrClosed) { // its listeners are, below
			b.Error(err)
		}
	}()
	bin, json := bodies()
	for _, c := range []struct {
		name  string
		serve func(net.Listener) error
		body  []byte
	}{{"binary/echo", echo.Serve, bin}, {"binary/infer", s.Serve, bin}, {"json/echo", echo.Serve, json}, {"json/infer", s.Serve, json}} {
		b.Run(c.name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			go func() { _ = c.serve(l) }()
			b.ReportAllocs()
			b.SetBytes(int64(len(c.body)))
			b.RunParallel(func(pb *testing.PB) { drive(b, pb, l.Addr().String(), c.body) })
		})
	}
}

func drive(b *testing.B, pb *testing.PB, address string, body []byte) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Error(err)
		return
	}
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 1<<16)
	var resp fasthttp.Response
	for pb.Next() {
		if _, err = conn.Write(body); err == nil {
			err = resp.Read(r)
		}
		if err != nil || resp.StatusCode() != 200 {
			b.Errorf("%v %d %.200s", err, resp.StatusCode(), resp.Body())
			return
		}
	}
}
