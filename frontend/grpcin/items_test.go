package grpcin

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/symphony-serving/symphony/frontend/ingress"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Client-side batches have as many items as over HTTP; their copies are counted with HTTP's bodies, and
// off again.
func TestBatchesOfManyItems(t *testing.T) {
	k := startWith(t, Config{}, ingress.Config{BodyMax: 40 << 10, BodiesMax: 80 << 10})
	infer := func(n int) error {
		raw := make([]byte, 6*n)
		for i := range raw {
			raw[i] = byte(i * 7 % 251)
		}
		r, err := k.client.ModelInfer(within(t), ask("echo-UINT8", "x", catalog.Uint8, []int64{int64(n), 2, 3}, raw))
		if err == nil && !bytes.Equal(r.RawOutputContents[0], raw) {
			t.Errorf("%d items came back as others", n)
		}
		return err
	}
	for range 3 { // bytes that were not given back would refuse a later one
		for _, n := range []int{256, 257, 300, wire.BatchMax, wire.BatchMax + 1, 4 * wire.BatchMax} {
			if err := infer(n); err != nil {
				t.Errorf("%d items: %v", n, err)
			}
		}
	}
	if err := infer(4*wire.BatchMax + 1); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "a batch of 4097 items, must be 1 to 4096") {
		t.Errorf("4097 items: %v", err)
	}
	fp64 := ask("echo-FP64", "x", catalog.FP64, []int64{3000, 2, 3}, make([]byte, 6*8*3000))
	if _, err := k.client.ModelInfer(within(t), fp64); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "too many bytes of tensors at a time") {
		t.Errorf("more bytes than there may be: %v", err)
	}
}

func TestItemsAtATime(t *testing.T) {
	k := startWith(t, Config{}, ingress.Config{ItemsOpen: 300})
	if err := k.web.EnterItems(200, 0); err != nil {
		t.Fatal(err)
	}
	message := ask("echo-UINT8", "x", catalog.Uint8, []int64{101, 2, 3}, make([]byte, 606))
	if _, err := k.client.ModelInfer(within(t), message); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "frontend.max_in_flight") {
		t.Errorf("beyond the bound: %v", err)
	}
	k.web.LeaveItems(200, 0)
	if _, err := k.client.ModelInfer(within(t), message); err != nil {
		t.Errorf("within the bound: %v", err)
	}
}
