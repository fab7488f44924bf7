package gpu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// shot is a batch with its memory, launched as often as one likes.
type shot struct {
	batch executor.Batch
	ended chan ran
	stray bool // it has not ended: its memory must stay
}

// ran is one run of it.
type ran struct {
	start, end mono.Time
	err        error
}

func (r ran) span() mono.Dur { return r.end.Sub(r.start) }

func itemSize(specs []catalog.TensorSpec) int {
	n := int64(0)
	for _, s := range specs {
		n += s.ByteSize()
	}
	return int(n)
}

// newShot makes a batch of items, which fills its input with.
func newShot(spec *catalog.ModelSpec, index, size int, alloc func(int) ([]byte, error), item func(i int) []byte) (*shot, error) {
	in, out := itemSize(spec.Inputs), itemSize(spec.Outputs)
	s := &shot{batch: executor.Batch{Model: index, Size: size}, ended: make(chan ran, 1)}
	var err error
	if s.batch.Input, err = alloc(size * in); err != nil {
		return nil, fmt.Errorf("%s: no memory for a batch of %d: %w", spec.Key(), size, err)
	}
	if s.batch.Output, err = alloc(size * out); err != nil {
		return s, fmt.Errorf("%s: no memory for a batch of %d: %w", spec.Key(), size, err)
	}
	for i := range size {
		s.batch.Inputs = append(s.batch.Inputs, s.batch.Input[i*in:(i+1)*in:(i+1)*in])
		s.batch.Outputs = append(s.batch.Outputs, s.batch.Output[i*out:(i+1)*out:(i+1)*out])
		data := item(i)
		if len(data) != in {
			return s, fmt.Errorf("%s: an input of %d bytes, want %d", spec.Key(), len(data), in)
		}
		copy(s.batch.Inputs[i], data)
	}
	s.batch.Finish = func(start, end mono.Time, err error) { s.ended <- ran{start, end, err} }
	return s, nil
}

// heap is memory for devices that need none in particular.
func heap(bytes int) ([]byte, error) { return make([]byte, bytes), nil }

// shot makes a batch on the GPU; free gives its memory back.
func (d *Direct) shot(m *Model, index, size, first int) (s *shot, free func(), err error) {
	alloc := d.Alloc
	if alloc == nil {
		alloc = heap
	}
	s, err = newShot(m.Spec, index, size, alloc, func(i int) []byte { return m.Item((first + i) % max(1, m.Items)) })
	free = func() {
		if s != nil && d.Free != nil && !s.stray {
			for _, b := range [][]byte{s.batch.Input, s.batch.Output} {
				if b != nil {
					d.Free(b)
				}
			}
		}
	}
	if err != nil {
		free()
		return nil, nil, err
	}
	return s, free, nil
}

// errHang is of a run that has not ended long after its part's time.
var errHang = errors.New("a run on the device has not ended: it hangs")

// hangMax is how long a run may last beyond its part's time.
const hangMax = 10 * time.Second

// run launches it and waits for its end, or for the end of ctx before it begins.
func (s *shot) run(ctx context.Context, d executor.Device) (ran, error) {
	if err := ctx.Err(); err != nil {
		return ran{}, err
	}
	d.Launch(&s.batch)
	return s.wait(ctx)
}

// wait is for the end of what was launched.
func (s *shot) wait(ctx context.Context) (ran, error) {
	select {
	case r := <-s.ended:
		return s.over(r)
	case <-ctx.Done():
	}
	late := time.NewTimer(hangMax)
	defer late.Stop()
	select {
	case r := <-s.ended:
		return s.over(r)
	case <-late.C:
		s.stray = true
		return ran{}, errHang
	}
}

// over is how it has ended. What a lost device has may run yet, and write.
func (s *shot) over(r ran) (ran, error) {
	s.stray = errors.Is(r.err, executor.ErrAstray)
	return r, r.err
}
