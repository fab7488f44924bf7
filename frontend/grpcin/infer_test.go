package grpcin

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Raw tensors of every type come back as they went, alone and in batches.
func TestRawTensors(t *testing.T) {
	k := start(t, Config{})
	for _, of := range types() {
		for _, items := range []int{0, 1, 3} { // 0: without the leading dimension
			shape, n := []int64{2, 3}, 6*of.Size()
			if items > 0 {
				shape, n = append([]int64{int64(items)}, shape...), n*items
			}
			raw := make([]byte, n)
			for i := range raw {
				raw[i] = byte(i * 7)
			}
			r, err := k.client.ModelInfer(within(t), ask("echo-"+string(of), "x", of, shape, raw))
			if err != nil {
				t.Fatalf("%s %v: %v", of, shape, err)
			}
			if len(r.Outputs) != 1 || r.Outputs[0].Name != "y" || r.Outputs[0].Datatype != string(of) || !slices.Equal(r.Outputs[0].Shape, shape) || !bytes.Equal(r.RawOutputContents[0], raw) {
				t.Errorf("%s %v: %v", of, shape, r)
			}
			if r.ModelName != "echo-"+string(of) || r.ModelVersion != "1" || r.Parameters["queue_us"].GetInt64Param() != 3000 || r.Parameters["slack_us"].GetInt64Param() != -2000 || r.Parameters["batch_size"].GetInt64Param() != 4 {
				t.Errorf("%s: %v", of, r)
			}
		}
	}
}

// An answer says that its batch waited for the model's weights, and only then.
func TestColdStart(t *testing.T) {
	k := start(t, Config{})
	for _, cold := range []bool{true, false} {
		k.fake.cold.Store(cold)
		r, err := k.client.ModelInfer(within(t), ask("echo-UINT8", "x", catalog.Uint8, []int64{2, 3}, make([]byte, 6)))
		if err != nil {
			t.Fatal(err)
		}
		p, said := r.Parameters["cold"]
		if said != cold || p.GetBoolParam() != cold || r.Parameters["queue_us"].GetInt64Param() != 3000 {
			t.Errorf("cold %v: %v", cold, r.Parameters)
		}
	}
}

// Typed contents become the same tensors.
func TestTypedContents(t *testing.T) {
	k := start(t, Config{})
	for of, c := range map[catalog.DataType]*inference.InferTensorContents{
		catalog.Bool:   {BoolContents: []bool{true, false, true, true, false, false}},
		catalog.Int8:   {IntContents: []int32{-128, -1, 0, 1, 2, 127}},
		catalog.Int16:  {IntContents: []int32{-32768, -1, 0, 1, 2, 32767}},
		catalog.Int32:  {IntContents: []int32{math.MinInt32, -1, 0, 1, 2, math.MaxInt32}},
		catalog.Int64:  {Int64Contents: []int64{math.MinInt64, -1, 0, 1, 2, math.MaxInt64}},
		catalog.Uint8:  {UintContents: []uint32{0, 1, 2, 3, 4, 255}},
		catalog.Uint16: {UintContents: []uint32{0, 1, 2, 3, 4, 65535}},
		catalog.Uint32: {UintContents: []uint32{0, 1, 2, 3, 4, math.MaxUint32}},
		catalog.Uint64: {Uint64Contents: []uint64{0, 1, 2, 3, 4, math.MaxUint64}},
		catalog.FP32:   {Fp32Contents: []float32{0, 1.5, -2, 3, 4, math.MaxFloat32}},
		catalog.FP64:   {Fp64Contents: []float64{0, 1.5, -2, 3, 4, math.MaxFloat64}},
	} {
		q := ask("echo-"+string(of), "x", of, []int64{1, 2, 3}, nil)
		q.RawInputContents, q.Inputs[0].Contents = nil, c
		r, err := k.client.ModelInfer(within(t), q)
		if err != nil {
			t.Fatalf("%s: %v", of, err)
		}
		var want bytes.Buffer
		for _, v := range []any{c.BoolContents, c.Int64Contents, c.Uint64Contents, c.Fp32Contents, c.Fp64Contents} {
			binary.Write(&want, binary.LittleEndian, v)
		}
		for _, v := range c.IntContents {
			want.Write(binary.LittleEndian.AppendUint32(nil, uint32(v))[:of.Size()])
		}
		for _, v := range c.UintContents {
			want.Write(binary.LittleEndian.AppendUint32(nil, v)[:of.Size()])
		}
		if !bytes.Equal(r.RawOutputContents[0], want.Bytes()) {
			t.Errorf("%s: %x, want %x", of, r.RawOutputContents[0], want.Bytes())
		}
	}
}

// A tensor of many frames comes whole, compressed or not.
func TestLargeTensor(t *testing.T) {
	k := start(t, Config{})
	raw := make([]byte, 400_000)
	rng := rand.NewChaCha8([32]byte{1})
	rng.Read(raw)
	for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}, {grpc.UseCompressor("deflate")}, {grpc.UseCompressor("deflate")}} {
		r, err := k.client.ModelInfer(within(t), ask("big", "x", catalog.FP32, []int64{100_000}, raw), options...)
		if err != nil || !bytes.Equal(r.RawOutputContents[0], raw) {
			t.Fatalf("%v, or another tensor", err)
		}
	}
}

// Outputs come as asked for, in the order asked; ids come back; classes are ranked; a version is
// the one that is named.
func TestOutputsIDsAndClasses(t *testing.T) {
	k := start(t, Config{})
	q := &inference.ModelInferRequest{ModelName: "two", ModelVersion: "1", Id: "id-7", Inputs: []*inference.ModelInferRequest_InferInputTensor{
		{Name: "b", Datatype: "UINT8", Shape: []int64{1, 1}}, {Name: "a", Datatype: "INT32", Shape: []int64{1, 2}}},
		Outputs:          []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "q"}, {Name: "p"}},
		RawInputContents: [][]byte{{9}, {1, 0, 0, 0, 2, 0, 0, 0}}}
	r, err := k.client.ModelInfer(within(t), q)
	if err != nil {
		t.Fatal(err)
	}
	if r.Id != "id-7" || r.ModelVersion != "1" || len(r.Outputs) != 2 || r.Outputs[0].Name != "q" || !bytes.Equal(r.RawOutputContents[0], []byte{9}) || !bytes.Equal(r.RawOutputContents[1], q.RawInputContents[1]) {
		t.Errorf("%v", r)
	}
	q.Outputs = []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "p", Parameters: map[string]*inference.InferParameter{"classification": {ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: 1}}}}}
	if r, err = k.client.ModelInfer(within(t), q); err != nil {
		t.Fatal(err)
	}
	const want = "2.000000:1:one"
	if r.Outputs[0].Datatype != "BYTES" || !slices.Equal(r.Outputs[0].Shape, []int64{1, 1}) || string(r.RawOutputContents[0][4:]) != want || r.RawOutputContents[0][0] != byte(len(want)) {
		t.Errorf("%v", r)
	}
	q.ModelVersion = ""
	if r, err = k.client.ModelInfer(within(t), q); err != nil || r.ModelVersion != "2" {
		t.Errorf("%v, %v", r, err)
	}
}

// The deadline is grpc-timeout's and parameters.timeout's.
func TestDeadlines(t *testing.T) {
	k := start(t, Config{})
	q := ask("flat", "x", catalog.FP32, []int64{4}, make([]byte, 16))
	q.Parameters = map[string]*inference.InferParameter{"timeout": {ParameterChoice: &inference.InferParameter_Uint64Param{Uint64Param: 1_500_000}}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if _, err := k.client.ModelInfer(ctx, q); err != nil {
		t.Fatal(err)
	}
	if timeout, left := k.fake.asked(); timeout != 1500*time.Millisecond || left < 55*time.Minute || left > time.Hour {
		t.Errorf("the client asked with %v, and %v are left", timeout, left)
	}
	k.fake.set(nil, make(chan struct{})) // nobody answers
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := k.client.ModelInfer(short, q); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v", err)
	}
	until(t, "the call's end", func() bool { return k.fake.waiting.Load() == 0 })
}

// A client that cancels, or whose connection ends, ends its inference.
func TestCancelled(t *testing.T) {
	k := start(t, Config{})
	k.fake.set(nil, make(chan struct{}))
	q := ask("flat", "x", catalog.FP32, []int64{4}, make([]byte, 16))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { _, err := k.client.ModelInfer(ctx, q); ended <- err }()
	until(t, "the first", func() bool { return k.fake.waiting.Load() == 1 })
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Errorf("%v", err)
	}
	until(t, "the end of the first", func() bool { return k.fake.waiting.Load() == 0 }) // else it would be taken for the second
	other := k.dial()
	go func() {
		_, err := inference.NewGRPCInferenceServiceClient(other).ModelInfer(context.Background(), q)
		ended <- err
	}()
	until(t, "the second", func() bool { return k.fake.waiting.Load() == 1 })
	other.Close()
	<-ended
	until(t, "the end of both", func() bool { return k.fake.waiting.Load() == 0 })
}

// Each refusal has its code, the words of HTTP's, and the reason in its details.
func TestRefusals(t *testing.T) {
	k := start(t, Config{})
	q := ask("flat", "x", catalog.FP32, []int64{4}, make([]byte, 16))
	for reason, c := range map[wire.Reason]struct {
		kind  error
		code  codes.Code
		text  string
		retry time.Duration // full: of the least wait, once to twice; elsewhere a pause
	}{
		wire.ReasonFull:         {frontend.ErrOverloaded, codes.ResourceExhausted, "Exceeds maximum queue size", 250 * time.Millisecond},
		wire.ReasonDeadline:     {frontend.ErrDropped, codes.DeadlineExceeded, "Request timeout expired", 0},
		wire.ReasonExpired:      {frontend.ErrDeadlineExceeded, codes.DeadlineExceeded, "Request timeout expired", 0},
		wire.ReasonLate:         {frontend.ErrDropped, codes.DeadlineExceeded, "Request timeout expired", 0},
		wire.ReasonCold:         {frontend.ErrDropped, codes.Unavailable, "dropped", time.Second},
		wire.ReasonMemory:       {frontend.ErrOverloaded, codes.ResourceExhausted, "Exceeds maximum queue size", 250 * time.Millisecond},
		wire.ReasonInfeasible:   {frontend.ErrInfeasible, codes.InvalidArgument, "infeasible", 0},
		wire.ReasonShed:         {frontend.ErrDropped, codes.ResourceExhausted, "Exceeds maximum queue size", 250 * time.Millisecond},
		wire.ReasonUnavailable:  {frontend.ErrUnavailable, codes.Unavailable, "unavailable", time.Second},
		wire.ReasonBackendLost:  {frontend.ErrUnavailable, codes.Unavailable, "unavailable", time.Second},
		wire.ReasonDraining:     {frontend.ErrUnavailable, codes.Unavailable, "unavailable", time.Second},
		wire.ReasonExecution:    {frontend.ErrFailed, codes.Internal, "execution failed", 0},
		wire.ReasonInput:        {frontend.ErrBadInput, codes.InvalidArgument, "bad input", 0},
		wire.ReasonCancelled:    {frontend.ErrCancelled, codes.Canceled, "cancelled", 0},
		wire.ReasonUnknownModel: {frontend.ErrUnknownModel, codes.NotFound, "Request for unknown model: 'flat' is not found", 0},
	} {
		k.fake.set(&frontend.Error{Kind: c.kind, Reason: reason, Model: "flat"}, nil)
		_, err := k.client.ModelInfer(within(t), q)
		st := status.Convert(err)
		if st.Code() != c.code || !strings.Contains(st.Message(), c.text) {
			t.Errorf("%v: %v", reason, err)
		}
		var info *errdetails.ErrorInfo
		retry := time.Duration(0)
		for _, d := range st.Details() {
			switch d := d.(type) {
			case *errdetails.ErrorInfo:
				info = d
			case *errdetails.RetryInfo:
				retry = d.RetryDelay.AsDuration()
			}
		}
		most := c.retry
		if c.code == codes.ResourceExhausted {
			most *= 2
		}
		if info == nil || info.Reason != strings.ToUpper(reason.String()) || info.Domain != "symphony" || info.Metadata["model"] != "flat" || retry < c.retry || retry > most {
			t.Errorf("%v: details %v", reason, st.Details())
		}
	}
	k.fake.set(errors.New("something"), nil)
	if _, err := k.client.ModelInfer(within(t), q); status.Code(err) != codes.Internal {
		t.Errorf("%v", err)
	}
}

// Limits are answers: of messages, of calls of a batch, of inferences at a time, of time for a message.
func TestLimits(t *testing.T) {
	k := start(t, Config{MessageMax: 10_000})
	_, err := k.client.ModelInfer(within(t), ask("big", "x", catalog.FP32, []int64{100_000}, make([]byte, 400_000)))
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "larger than max") {
		t.Errorf("%v", err)
	}
	hold := make(chan struct{})
	k.fake.set(nil, hold)
	q := ask("flat", "x", catalog.FP32, []int64{4}, make([]byte, 16))
	ended := make(chan error, 64)
	for range 64 {
		go func() { _, err := k.client.ModelInfer(context.Background(), q); ended <- err }()
	}
	until(t, "64 inferences", func() bool { return k.fake.waiting.Load() == 64 })
	if _, err := k.client.ModelInfer(within(t), q); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "too many requests at a time") {
		t.Errorf("%v", err)
	}
	close(hold)
	for range 64 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
