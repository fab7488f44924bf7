package grpcin

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// A stream whose client goes away leaves no handler behind, without a drain.
func TestStreamsEndWithTheirClients(t *testing.T) {
	k := start(t, Config{})
	for range 32 {
		ctx, cancel := context.WithCancel(within(t))
		stream, err := k.client.ModelStreamInfer(ctx)
		if err == nil {
			err = stream.Send(ask("flat", "x", catalog.FP32, []int64{4}, make([]byte, 16)))
		}
		if err == nil {
			_, err = stream.Recv()
		}
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	stacks := make([]byte, 4<<20)
	until(t, "the handlers' end", func() bool {
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "grpcin.modelStreamInfer(")
	})
}

// broken is a stream that fails as no stream should.
type broken struct {
	grpc.ServerStream
	ctx context.Context
}

func (b broken) Context() context.Context { return b.ctx }
func (b broken) RecvMsg(any) error        { panic("broken") }

// A panic where messages are received ends the stream, not the process.
func TestStreamReceivePanics(t *testing.T) {
	if err := modelStreamInfer(bare(t), broken{ctx: within(t)}); status.Code(err) != codes.Internal {
		t.Errorf("%v, want %v", err, codes.Internal)
	}
}
