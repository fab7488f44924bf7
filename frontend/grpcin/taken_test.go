package grpcin

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/frontend/ingress"
)

// What a small message says of its size takes no memory before the tensor is known to be there.
func TestNoMemoryForWhatIsNotThere(t *testing.T) {
	f := newFake()
	web, err := ingress.New(ingress.Config{Client: f, SharedMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	s, err := New(Config{Web: web, Client: f})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	host := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: host, LocalAddr: host})
	const items = 256
	for _, c := range []struct {
		name     string
		contents *inference.InferTensorContents
		where    map[string]*inference.InferParameter
		code     codes.Code
	}{
		{"one element", &inference.InferTensorContents{Fp32Contents: []float32{1}}, nil, codes.InvalidArgument},
		{"no element", &inference.InferTensorContents{}, nil, codes.InvalidArgument},
		{"no such region", nil, in("nobody", 0, items*400_000), codes.NotFound},
	} {
		m := &inference.ModelInferRequest{ModelName: "big", Inputs: []*inference.ModelInferRequest_InferInputTensor{
			{Name: "x", Datatype: "FP32", Shape: []int64{items, 100_000}, Contents: c.contents, Parameters: c.where}}}
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var q request
		q.take(mem.BufferSlice{mem.SliceBuffer(b)})
		_, err = s.infer(ctx, &q, false)
		if code := status.Code(s.status("big", "", err)); code != c.code {
			t.Errorf("%s: %v, want %v", c.name, err, c.code)
		}
		if n := cap(q.scratch); n > 0 {
			t.Errorf("%s: %d bytes were taken for a message of %d", c.name, n, len(b))
		}
	}
}
