package grpcin

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string                             { return "proto" }
func (rawCodec) Unmarshal(d mem.BufferSlice, v any) error { *v.(*[]byte) = d.Materialize(); return nil }
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

const inferMethod = "/inference.GRPCInferenceService/ModelInfer"

// badCall is a request that must be refused with a code and some words.
type badCall struct {
	name string
	body []byte
	code codes.Code
	text string
}

// change is the good request, changed.
func change(f func(q *inference.ModelInferRequest)) []byte {
	q := ask("echo-FP32", "x", catalog.FP32, []int64{1, 2, 3}, make([]byte, 24))
	f(q)
	b, err := proto.Marshal(q)
	if err != nil {
		panic(err)
	}
	return b
}

func param(key string, p *inference.InferParameter) map[string]*inference.InferParameter {
	return map[string]*inference.InferParameter{key: p}
}

func number(v int64) *inference.InferParameter {
	return &inference.InferParameter{ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: v}}
}

func word(v string) *inference.InferParameter {
	return &inference.InferParameter{ParameterChoice: &inference.InferParameter_StringParam{StringParam: v}}
}

// wireCases are no messages.
func wireCases() []badCall {
	good := change(func(*inference.ModelInferRequest) {})
	tag := func(n protowire.Number, k protowire.Type) []byte { return protowire.AppendTag(nil, n, k) }
	field := func(n protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(tag(n, protowire.BytesType), b)
	}
	const bad = codes.InvalidArgument
	return []badCall{
		{"cut in the middle", good[:len(good)/2], bad, "ends in the middle"},
		{"one byte short", good[:len(good)-1], bad, "ends in the middle"},
		{"a tag alone", []byte{0x0a}, bad, "ends in the middle"},
		{"a length beyond the end", append(tag(fieldRaw, protowire.BytesType), 0xff, 0xff, 0xff, 0x7f), bad, "ends in the middle"},
		{"a length of 2^63", append(tag(fieldRaw, protowire.BytesType), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01), bad, "ends in the middle"},
		{"a varint without an end", append(tag(9, protowire.VarintType), bytes.Repeat([]byte{0xff}, 12)...), bad, "no end"},
		{"field number 0", []byte{0x00, 0x00}, bad, "valid number"},
		{"a group", tag(9, protowire.StartGroupType), bad, "group"},
		{"wire type 7", []byte{0x0f, 1, 2, 3}, bad, "group"},
		{"text", []byte("GET / HTTP/1.1\r\n\r\n"), bad, ""},
		{"zeros", make([]byte, 100), bad, "valid number"},
		{"an input cut short", field(fieldInputs, []byte{0x0a, 0x05, 'x'}), bad, "ends in the middle"},
		{"an input that is a group", field(fieldInputs, []byte{0x0b}), bad, "group"},
		{"a shape cut short", field(fieldInputs, field(fieldShape, []byte{0x80})), bad, "ends in the middle"},
		{"a parameter cut short", field(fieldParameters, []byte{0x0a, 0x20}), bad, "ends in the middle"},
		{"a name that is no text", field(fieldModel, []byte{0xff, 0xfe}), bad, "model_name: not UTF-8"},
		{"an id that is no text", append(bytes.Clone(good), field(fieldID, []byte{0xff})...), bad, "id: not UTF-8"},
		{"a fixed32 cut short", append(tag(9, protowire.Fixed32Type), 1), bad, "ends in the middle"},
		{"a fixed64 cut short", append(tag(9, protowire.Fixed64Type), 1), bad, "ends in the middle"},
		{"300 raw tensors", bytes.Repeat(field(fieldRaw, nil), 300), bad, "more than 256 raw_input_contents"},
		{"300 inputs", bytes.Repeat(field(fieldInputs, nil), 300), bad, "inputs: more than 256"},
		{"300 outputs", bytes.Repeat(field(fieldOutputs, nil), 300), bad, "outputs: more than 256"},
		{"contents given twice", append(bytes.Clone(good), field(fieldInputs, append(field(fieldContents, nil), field(fieldContents, nil)...))...), bad, "given twice"},
		{"nothing", nil, codes.NotFound, "unknown model: ''"},
		{"a huge name", field(fieldModel, bytes.Repeat([]byte{'m'}, 100_000)), codes.NotFound, "unknown model"},
	}
}

// floats has so many elements as typed contents.
func floats(n int) func(*inference.ModelInferRequest) {
	return func(m *inference.ModelInferRequest) {
		m.RawInputContents, m.Inputs[0].Contents = nil, &inference.InferTensorContents{Fp32Contents: make([]float32, n)}
	}
}

// requestCases are messages that no model takes.
func requestCases() []badCall {
	const bad = codes.InvalidArgument
	type q = *inference.ModelInferRequest
	cases := map[string]struct {
		f    func(q)
		code codes.Code
		text string
	}{
		"unknown version":      {func(m q) { m.ModelVersion = "9" }, codes.NotFound, "version 9"},
		"a path as the model":  {func(m q) { m.ModelName = "../../etc" }, codes.NotFound, "unknown model"},
		"no inputs":            {func(m q) { m.Inputs = nil }, bad, "takes \"x\""},
		"no tensor":            {func(m q) { m.RawInputContents = nil }, bad, "has none, nor contents"},
		"two tensors":          {func(m q) { m.RawInputContents = append(m.RawInputContents, nil) }, bad, "2 are given, for 1"},
		"a short tensor":       {func(m q) { m.RawInputContents[0] = make([]byte, 23) }, bad, "23 bytes, its shape"},
		"a long tensor":        {func(m q) { m.RawInputContents[0] = make([]byte, 25) }, bad, "25 bytes, its shape"},
		"an empty tensor":      {func(m q) { m.RawInputContents[0] = nil }, bad, "0 bytes, its shape"},
		"an unknown input":     {func(m q) { m.Inputs[0].Name = "z" }, bad, "\"z\" is no input"},
		"an input twice":       {func(m q) { m.Inputs = append(m.Inputs, m.Inputs[0]) }, bad, "given twice"},
		"another type":         {func(m q) { m.Inputs[0].Datatype = "INT32" }, bad, "the model takes FP32"},
		"no type":              {func(m q) { m.Inputs[0].Datatype = "" }, bad, "the model takes FP32"},
		"text":                 {func(m q) { m.Inputs[0].Datatype = "BYTES" }, bad, "BYTES (text) is not served"},
		"another shape":        {func(m q) { m.Inputs[0].Shape = []int64{1, 3, 2} }, bad, "the model takes [-1 2 3]"},
		"no shape":             {func(m q) { m.Inputs[0].Shape = nil }, bad, "the model takes"},
		"a negative dimension": {func(m q) { m.Inputs[0].Shape[0] = -1 }, bad, "-1 is negative"},
		"a batch of none":      {func(m q) { m.Inputs[0].Shape[0] = 0 }, bad, "must be 1 to"},
		"a batch of too many":  {func(m q) { m.Inputs[0].Shape[0] = 1 << 40 }, bad, "must be 1 to"},
		"a batch of 2^63-1":    {func(m q) { m.Inputs[0].Shape[0] = 1<<63 - 1 }, bad, "must be 1 to"},
		"40 dimensions":        {func(m q) { m.Inputs[0].Shape = make([]int64, 40) }, bad, "more than 32 dimensions"},
		"raw and contents":     {func(m q) { m.Inputs[0].Contents = &inference.InferTensorContents{} }, bad, "raw_input_contents as well"},
		"an unknown output": {func(m q) {
			m.Outputs = append(m.Outputs, &inference.ModelInferRequest_InferRequestedOutputTensor{Name: "z"})
		}, bad, "\"z\" is no output"},
		"an output without a name": {func(m q) { m.Outputs = append(m.Outputs, &inference.ModelInferRequest_InferRequestedOutputTensor{}) }, bad, "is no output"},
		"an output twice": {func(m q) {
			o := &inference.ModelInferRequest_InferRequestedOutputTensor{Name: "y"}
			m.Outputs = append(m.Outputs, o, o)
		}, bad, "asked for twice"},
		"a negative timeout":       {func(m q) { m.Parameters = param("timeout", number(-1)) }, bad, "parameters.timeout"},
		"a timeout of two hours":   {func(m q) { m.Parameters = param("timeout", number(7200e6)) }, bad, "an hour"},
		"a timeout in words":       {func(m q) { m.Parameters = param("timeout", word("soon")) }, bad, "int64_param"},
		"details as a number":      {func(m q) { m.Parameters = param("details", number(1)) }, bad, "bool_param"},
		"a priority in words":      {func(m q) { m.Parameters = param("priority", word("high")) }, bad, "int64_param"},
		"a negative priority":      {func(m q) { m.Parameters = param("priority", number(-1)) }, bad, "parameters.priority: must not be negative"},
		"an unknown class":         {func(m q) { m.Parameters = param("class", word("batch")) }, bad, `parameters.class: "batch", must be "latency" (the default) or "best_effort"`},
		"a class as a number":      {func(m q) { m.Parameters = param("class", number(1)) }, bad, "string_param"},
		"an unknown priority":      {func(m q) { m.Parameters = param("priority", number(256)) }, bad, "parameters.priority: 256, must be 1 (the first) to 255"},
		"a priority without value": {func(m q) { m.Parameters = param("priority", &inference.InferParameter{}) }, bad, "int64_param"},
		"classes in words": {func(m q) {
			m.Outputs = []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "y", Parameters: param("classification", word("two"))}}
		}, bad, "parameters.classification"},
		"a region that is a number": {func(m q) { m.Inputs[0].Parameters = param("shared_memory_region", number(1)) }, bad, "string_param"},
		"a region without a size":   {func(m q) { m.Inputs[0].Parameters = param("shared_memory_region", word("r")) }, bad, "shared_memory_byte_size: missing"},
		"contents of another type": {func(m q) {
			m.RawInputContents, m.Inputs[0].Contents = nil, &inference.InferTensorContents{IntContents: []int32{1}}
		}, bad, "has another list than fp32_contents"},
		"too few contents":  {floats(1), bad, "1 elements in fp32_contents, the shape says 6"},
		"too many contents": {floats(7), bad, "more than the 6 elements"},
		"contents out of range": {func(m q) {
			m.ModelName, m.Inputs[0].Datatype, m.RawInputContents, m.Inputs[0].Contents = "echo-INT8", "INT8", nil, &inference.InferTensorContents{IntContents: []int32{1, 2, 3, 4, 5, 300}}
		}, bad, "int_contents[5] does not fit INT8"},
		"FP16 as contents": {func(m q) {
			m.ModelName, m.Inputs[0].Datatype, m.RawInputContents, m.Inputs[0].Contents = "echo-FP16", "FP16", nil, &inference.InferTensorContents{Fp32Contents: make([]float32, 6)}
		}, bad, "send it as raw_input_contents"},
	}
	var all []badCall
	for name, c := range cases {
		all = append(all, badCall{name, change(c.f), c.code, c.text})
	}
	return all
}

// Each malformed request has its code and says what is wrong; good ones beside them lose nothing.
func TestMalformed(t *testing.T) {
	k := start(t, Config{})
	all := append(wireCases(), requestCases()...)
	if len(all) < 50 {
		t.Fatalf("%d cases", len(all))
	}
	var good sync.WaitGroup
	var served atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 2 {
		good.Go(func() {
			for ctx.Err() == nil {
				raw := bytes.Repeat([]byte{7}, 24)
				r, err := k.client.ModelInfer(context.Background(), ask("echo-FP32", "x", catalog.FP32, []int64{1, 2, 3}, raw))
				if err != nil || !bytes.Equal(r.RawOutputContents[0], raw) {
					t.Errorf("a good request: %v", err)
					return
				}
				served.Add(1)
			}
		})
	}
	for _, c := range all {
		var answer []byte
		err := k.conn.Invoke(within(t), inferMethod, c.body, &answer, grpc.ForceCodecV2(rawCodec{}))
		if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.text) {
			t.Errorf("%s: %.300v, want %v with %q", c.name, err, c.code, c.text)
		}
	}
	for name, c := range map[string]struct {
		method string
		ctx    context.Context
		code   codes.Code
	}{
		"an unknown method":  {"/inference.GRPCInferenceService/Nothing", ctx, codes.Unimplemented},
		"an unknown service": {"/inference.Nobody/ModelInfer", ctx, codes.Unimplemented},
		"no method":          {"/", ctx, codes.Unimplemented},
		"too long headers":   {inferMethod, metadata.AppendToOutgoingContext(ctx, "x", strings.Repeat("y", 100_000)), codes.Internal},
	} {
		var answer []byte
		if err := k.conn.Invoke(c.ctx, c.method, []byte{}, &answer, grpc.ForceCodecV2(rawCodec{})); status.Code(err) != c.code {
			t.Errorf("%s: %v, want %v", name, err, c.code)
		}
	}
	var answer []byte
	if err := k.conn.Invoke(within(t), inferMethod, change(func(*inference.ModelInferRequest) {}), &answer, grpc.ForceCodecV2(rawCodec{})); err != nil {
		t.Errorf("the good one: %v", err)
	}
	until(t, "good requests", func() bool { return served.Load() > 10 })
	cancel()
	good.Wait()
}

// cut makes a message of pieces, as the connection brings them.
func cut(b []byte, size int) (data mem.BufferSlice) {
	for len(b) > 0 {
		n := min(len(b), max(1, size))
		data = append(data, mem.SliceBuffer(b[:n]))
		b = b[n:]
	}
	return data
}

// Whatever comes, in whatever pieces: nothing panics and nothing stays reserved; what is understood says
// the same as protobuf's own decoder.
func FuzzInfer(f *testing.F) {
	for _, c := range append(wireCases(), requestCases()...) {
		f.Add(c.body, uint16(7))
	}
	f.Add(change(func(q *inference.ModelInferRequest) { q.Id = "i"; q.Parameters = param("timeout", number(5)) }), uint16(1))
	f.Add(change(func(q *inference.ModelInferRequest) { q.Parameters = param("priority", number(255)) }), uint16(1))
	f.Add(change(func(q *inference.ModelInferRequest) { q.Parameters = param("details", yes()) }), uint16(1))
	s := bare(f)
	f.Fuzz(func(t *testing.T, b []byte, size uint16) {
		q := s.request()
		defer s.give(q)
		q.take(cut(b, int(size)))
		var m inference.ModelInferRequest
		if theirs := proto.Unmarshal(b, &m); q.err == nil && theirs == nil {
			if err := same(q, &m); err != nil {
				t.Fatal(err)
			}
		}
		r, err := s.infer(context.Background(), q, size%2 == 0)
		if err == nil {
			var out inference.ModelInferResponse
			var streamed inference.ModelStreamInferResponse
			if size%2 == 0 {
				err = proto.Unmarshal(r.bytes, &streamed)
			} else {
				err = proto.Unmarshal(r.bytes, &out)
			}
			if err != nil {
				t.Fatalf("a reply that is none: %v", err)
			}
		} else if st := s.status(string(q.model), string(q.version), err); status.Code(st) == codes.OK || status.Code(st) == codes.Internal {
			t.Fatalf("%v", st)
		}
		if n := s.cfg.Client.(*fake).reserved.Load(); n != 0 {
			t.Fatalf("%d reservations are left", n)
		}
	})
}

// same compares a request with protobuf's reading of it.
func same(q *request, m *inference.ModelInferRequest) error {
	if string(q.model) != m.ModelName || string(q.version) != m.ModelVersion || string(q.id) != m.Id || len(q.inputs) != len(m.Inputs) || len(q.outputs) != len(m.Outputs) || len(q.raw) != len(m.RawInputContents) {
		return fmt.Errorf("%q %q %q, %d inputs, %d outputs, %d raw; protobuf says %v", q.model, q.version, q.id, len(q.inputs), len(q.outputs), len(q.raw), m)
	}
	for i, in := range m.Inputs {
		if t := &q.inputs[i]; string(t.name) != in.Name || string(t.datatype) != in.Datatype || fmt.Sprint(t.shape) != fmt.Sprint(in.Shape) || t.contented != (in.Contents != nil) {
			return fmt.Errorf("input %d: %q %q %v; protobuf says %v", i, t.name, t.datatype, t.shape, in)
		}
	}
	for i, b := range m.RawInputContents {
		got := make([]byte, len(b))
		if copyView(got, q.data, q.raw[i], 0); len(b) != q.raw[i].n || !bytes.Equal(got, b) {
			return fmt.Errorf("raw tensor %d has %d bytes, protobuf says %d, or they differ", i, q.raw[i].n, len(b))
		}
	}
	return nil
}
