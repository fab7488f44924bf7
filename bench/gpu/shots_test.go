package gpu

import (
	"errors"
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// lost is a device that finishes each batch with an error.
type lost struct{ err error }

// Launch implements executor.Device.
func (l lost) Launch(b *executor.Batch) { b.Finish(0, 0, l.err) }

// Close implements executor.Device.
func (lost) Close() {}

// What a lost device may still write to is not given back; what has only failed is.
func TestMemoryOfALostDevice(t *testing.T) {
	spec := &catalog.ModelSpec{Name: "m", Version: "1", MaxBatch: 1, SLO: mono.Second,
		Inputs:  []catalog.TensorSpec{{Name: "x", Type: catalog.FP32, Shape: []int64{4}}},
		Outputs: []catalog.TensorSpec{{Name: "y", Type: catalog.FP32, Shape: []int64{4}}}}
	for name, c := range map[string]struct {
		err  error
		back int
	}{
		"failed": {errRig, 2},
		"lost":   {fmt.Errorf("%w; %w", executor.ErrLost, executor.ErrAstray), 0},
	} {
		t.Run(name, func(t *testing.T) {
			back := 0
			d := &Direct{GPU: lost{c.err}, Free: func([]byte) { back++ }}
			s, free, err := d.shot(&Model{Model: cuda.Model{Spec: spec}, Item: func(int) []byte { return make([]byte, 16) }}, 0, 1, 0)
			if s == nil || err != nil {
				t.Fatal(err)
			}
			if _, err := s.run(t.Context(), d.GPU); !errors.Is(err, c.err) {
				t.Errorf("%v, want %v", err, c.err)
			}
			if free(); back != c.back {
				t.Errorf("%d pieces of memory were given back, want %d", back, c.back)
			}
		})
	}
}
