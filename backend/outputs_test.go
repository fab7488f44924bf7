package backend

import (
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/backend/outbound"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// A model whose outputs could never be sent is refused when it is loaded, with the numbers and the setting.
func TestOutputsThatCannotBeSent(t *testing.T) {
	b := &Backend{outputs: outbound.New(100 << 20)}
	model := func(bytes int64, batch int) *catalog.ModelSpec {
		return &catalog.ModelSpec{MaxBatch: batch, Outputs: []catalog.TensorSpec{{Name: "y", Type: catalog.Uint8, Shape: []int64{bytes}}}}
	}
	for _, c := range []struct {
		bytes int64
		batch int
		want  []string
	}{
		{10 << 20, 10, nil}, {100 << 20, 0, nil},
		{10 << 20, 11, []string{"10.0 MiB for one", "110.0 MiB for a batch of 11", "100.0 MiB", "backend.outputs_max", "max_batch of 10"}},
		{101 << 20, 4, []string{"101.0 MiB for one", "100.0 MiB", "backend.outputs_max", "smaller shape"}}, // no max_batch helps
		{1<<30 + 1, 1, []string{"1024.0 MiB", "smaller shape"}},
	} {
		err := b.checkOutputs(model(c.bytes, c.batch))
		if (err == nil) != (c.want == nil) {
			t.Errorf("%d bytes, batches of %d: %v", c.bytes, c.batch, err)
		}
		for _, part := range c.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%d bytes, batches of %d: %v lacks %q", c.bytes, c.batch, err, part)
			}
		}
	}
}
