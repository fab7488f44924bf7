package grpcin

import (
	"context"
	"runtime"
	"strings"
	"testing"

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
