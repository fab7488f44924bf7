package grpcin

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/frontend/ingress"
)

// object makes a shared memory object of this test's.
func object(t *testing.T, b []byte) (key, path string) {
	t.Helper()
	f, err := os.CreateTemp("/dev/shm", "symphony-test-*")
	if err != nil {
		t.Skipf("there is no shared memory here: %v", err)
	}
	t.Cleanup(func() { os.Remove(f.Name()) })
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	return "/" + filepath.Base(f.Name()), f.Name()
}

// in are the parameters that say where a tensor lies.
func in(region string, offset, size int64) map[string]*inference.InferParameter {
	number := func(v int64) *inference.InferParameter {
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: v}}
	}
	return map[string]*inference.InferParameter{"shared_memory_region": {ParameterChoice: &inference.InferParameter_StringParam{StringParam: region}},
		"shared_memory_offset": number(offset), "shared_memory_byte_size": number(size)}
}

// A client on this host sends no tensor, and gets none: both lie in its memory, also those of a batch.
func TestSharedMemory(t *testing.T) {
	k, ctx := startWith(t, Config{}, ingress.Config{SharedMemory: true}), within(t)
	c := k.client
	tensors := make([]byte, 48)
	for i := range tensors {
		tensors[i] = byte(i + 1)
	}
	key, path := object(t, append(bytes.Clone(tensors), make([]byte, 200)...))
	register := func(name string, offset, size uint64) error {
		_, err := c.SystemSharedMemoryRegister(ctx, &inference.SystemSharedMemoryRegisterRequest{Name: name, Key: key, Offset: offset, ByteSize: size})
		return err
	}
	if err := register("in", 0, 48); err != nil {
		t.Fatal(err)
	}
	if err := register("out", 48, 200); err != nil {
		t.Fatal(err)
	}
	if err := register("out", 48, 200); status.Code(err) != codes.AlreadyExists || !strings.Contains(err.Error(), "already in manager") {
		t.Errorf("%v", err)
	}
	if err := register("beyond", 200, 49); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "beyond the object's end") {
		t.Errorf("%v", err)
	}
	for items, from := range map[int64]int64{1: 24, 2: 0} {
		q := &inference.ModelInferRequest{ModelName: "echo-FP32",
			Inputs:  []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: []int64{items, 2, 3}, Parameters: in("in", from, items*24)}},
			Outputs: []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "y", Parameters: in("out", 8, 100)}}}
		r, err := c.ModelInfer(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		p := r.Outputs[0].Parameters
		if len(r.RawOutputContents) != 1 || len(r.RawOutputContents[0]) != 0 || p["shared_memory_region"].GetStringParam() != "out" || p["shared_memory_byte_size"].GetInt64Param() != items*24 || p["shared_memory_offset"].GetInt64Param() != 8 {
			t.Errorf("%v", r)
		}
		b, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(b[56:56+items*24], tensors[from:from+items*24]) {
			t.Errorf("%v: %v", err, b[56:])
		}
	}
	// Triton's clients look for an output's tensor at its place among the outputs: one in shared memory has a place, too.
	q := &inference.ModelInferRequest{ModelName: "two", RawInputContents: [][]byte{tensors[:8], {42}},
		Inputs:  []*inference.ModelInferRequest_InferInputTensor{{Name: "a", Datatype: "INT32", Shape: []int64{1, 2}}, {Name: "b", Datatype: "UINT8", Shape: []int64{1, 1}}},
		Outputs: []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "p", Parameters: in("out", 0, 8)}, {Name: "q"}}}
	if r, err := c.ModelInfer(ctx, q); err != nil || len(r.RawOutputContents) != 2 || len(r.RawOutputContents[0]) != 0 || !bytes.Equal(r.RawOutputContents[1], []byte{42}) {
		t.Errorf("%v, %v", r, err)
	}
	s, err := c.SystemSharedMemoryStatus(ctx, &inference.SystemSharedMemoryStatusRequest{})
	if err != nil || len(s.Regions) != 2 || s.Regions["out"].Offset != 48 || s.Regions["out"].Key != key {
		t.Errorf("%v, %v", s, err)
	}
	if _, err := c.SystemSharedMemoryUnregister(ctx, &inference.SystemSharedMemoryUnregisterRequest{}); err != nil {
		t.Error(err)
	}
	if _, err := c.SystemSharedMemoryStatus(ctx, &inference.SystemSharedMemoryStatusRequest{Name: "in"}); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
	if _, err := c.CudaSharedMemoryRegister(ctx, &inference.CudaSharedMemoryRegisterRequest{Name: "g"}); status.Code(err) != codes.Unimplemented {
		t.Errorf("%v", err)
	}
}

// An output in memory has an empty place among the tensors of the reply, so that those of the others are where
// clients look for them.
func TestSharedMemoryForOneOutputOfTwo(t *testing.T) {
	k, ctx := startWith(t, Config{}, ingress.Config{SharedMemory: true}), within(t)
	key, path := object(t, make([]byte, 100))
	if _, err := k.client.SystemSharedMemoryRegister(ctx, &inference.SystemSharedMemoryRegisterRequest{Name: "r", Key: key, ByteSize: 100}); err != nil {
		t.Fatal(err)
	}
	a := []byte{1, 0, 0, 0, 2, 0, 0, 0}
	r, err := k.client.ModelInfer(ctx, &inference.ModelInferRequest{ModelName: "two",
		Inputs: []*inference.ModelInferRequest_InferInputTensor{
			{Name: "a", Datatype: "INT32", Shape: []int64{1, 2}}, {Name: "b", Datatype: "UINT8", Shape: []int64{1, 1}}},
		Outputs:          []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "p", Parameters: in("r", 4, 8)}, {Name: "q"}},
		RawInputContents: [][]byte{a, {9}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Outputs) != 2 || len(r.RawOutputContents) != 2 || len(r.RawOutputContents[0]) != 0 || !bytes.Equal(r.RawOutputContents[1], []byte{9}) {
		t.Errorf("%v", r)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b[4:12], a) {
		t.Errorf("%v, %v", b, err)
	}
}

// Nobody may name memory unless the server is configured so: who seems to be on this host may have come through a
// proxy on it. The error says which key it is.
func TestNoSharedMemoryUnlessConfigured(t *testing.T) {
	k, ctx := start(t, Config{}), within(t)
	key, _ := object(t, make([]byte, 100))
	_, err := k.client.SystemSharedMemoryRegister(ctx, &inference.SystemSharedMemoryRegisterRequest{Name: "r", Key: key, ByteSize: 100})
	if status.Code(err) != codes.Unimplemented || !strings.Contains(status.Convert(err).Message(), "frontend.shared_memory: true") {
		t.Error(err)
	}
}

// What is wrong with the use of a region is refused before anything runs, and says what.
func TestSharedMemoryIsChecked(t *testing.T) {
	k, ctx := startWith(t, Config{}, ingress.Config{SharedMemory: true}), within(t)
	key, path := object(t, make([]byte, 100))
	if _, err := k.client.SystemSharedMemoryRegister(ctx, &inference.SystemSharedMemoryRegisterRequest{Name: "r", Key: key, ByteSize: 100}); err != nil {
		t.Fatal(err)
	}
	both := in("r", 0, 24)
	for i, c := range []struct {
		input, output map[string]*inference.InferParameter
		raw           [][]byte
		code          codes.Code
		text          string
	}{
		{in("nobody", 0, 24), nil, nil, codes.NotFound, "Unable to find shared memory region: 'nobody'"},
		{in("r", 77, 24), nil, nil, codes.InvalidArgument, "Invalid offset + byte size"},
		{in("r", -1, 24), nil, nil, codes.InvalidArgument, "must not be negative"},
		{in("r", 1<<62, 24), nil, nil, codes.InvalidArgument, "Invalid offset + byte size"},
		{in("r", 0, 25), nil, nil, codes.InvalidArgument, "25 bytes, its shape"},
		{in("", 0, 24), nil, nil, codes.InvalidArgument, "region's name"},
		{both, nil, [][]byte{make([]byte, 24)}, codes.InvalidArgument, "1 are given, for 0 inputs"},
		{both, in("r", 90, 24), nil, codes.InvalidArgument, "Invalid offset + byte size"},
		{both, in("r", 0, 23), nil, codes.InvalidArgument, "should be at least 24 bytes"},
		{both, in("nobody", 0, 24), nil, codes.NotFound, "nobody"},
		{both, in("r", 0, 24), nil, codes.OK, ""},
	} {
		q := &inference.ModelInferRequest{ModelName: "echo-FP32", RawInputContents: c.raw,
			Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: []int64{1, 2, 3}, Parameters: c.input}}}
		if c.output != nil {
			q.Outputs = []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "y", Parameters: c.output}}
		}
		if _, err := k.client.ModelInfer(ctx, q); status.Code(err) != c.code || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%d: %v, want %v with %q", i, err, c.code, c.text)
		}
	}
	if err := os.Truncate(path, 10); err != nil { // while it is registered
		t.Fatal(err)
	}
	q := &inference.ModelInferRequest{ModelName: "echo-FP32", Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: []int64{1, 2, 3}, Parameters: both}}}
	if _, err := k.client.ModelInfer(ctx, q); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "smaller than it was") {
		t.Errorf("%v", err)
	}
	if _, err := k.client.SystemSharedMemoryRegister(ctx, &inference.SystemSharedMemoryRegisterRequest{Name: "up", Key: "/../etc/passwd", ByteSize: 1}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("%v", fmt.Sprint(err))
	}
}
