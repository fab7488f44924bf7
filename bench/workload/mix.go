package workload

import (
	"fmt"
	"math/rand/v2"

	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Source yields arrivals in the order of time, instants counted from 0. It
// holds no more memory for a long run than for a short one.
type Source interface {
	// Next is the next arrival; ok is false when there are no more.
	Next() (at mono.Time, model int, ok bool)
}

// Stream is the arrivals of one model: a renewal process.
type Stream struct {
	Process Process
	Shape   float64 // of Gamma, 0.05 to 1
	Rate    float64 // requests/s; 0: none ever
}

// Mix merges independent streams, one for each model.
type Mix struct {
	streams []stream
	next    pq.Heap // model -> instant of its next arrival
}

type stream struct {
	draw  draw
	mean  float64 // gap in ns
	rand  *rand.Rand
	pcg   rand.PCG
	clock float64 // ns: sums of gaps, so that rounding does not add up
}

// NewMix checks the streams and starts each at a random point of its first
// gap, except Constant ones, which start in order.
func NewMix(streams []Stream, seed uint64) (*Mix, error) {
	if len(streams) == 0 {
		return nil, fmt.Errorf("%w: no models", ErrInvalid)
	}
	m := &Mix{streams: make([]stream, len(streams))}
	for i, s := range streams {
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("model %d: %w", i, err)
		}
		if s.Rate == 0 {
			continue
		}
		k := &m.streams[i]
		k.draw, k.mean = draw{s.Process, s.Shape}, 1e9/s.Rate
		k.pcg.Seed(seed, 0x6d6978<<32|uint64(i))
		k.rand = rand.New(&k.pcg)
		k.clock = float64(k.mean*k.rand.Float64()) - k.mean
		m.advance(i)
	}
	return m, nil
}

func (s Stream) check() error {
	switch {
	case !(s.Rate >= 0) || s.Rate > 1e9:
		return fmt.Errorf("%w: rate %g, must be 0 to 1e9 requests/s", ErrInvalid, s.Rate)
	case s.Process == Gamma && !(s.Shape >= 0.01 && s.Shape <= 100):
		return fmt.Errorf("%w: Gamma shape %g, must be 0.01 to 100", ErrInvalid, s.Shape)
	}
	return s.Process.check()
}

// advance puts the stream's next arrival into the heap.
func (m *Mix) advance(i int) {
	s := &m.streams[i]
	for {
		s.clock += float64(s.mean * s.draw.gap(s.rand))
		if s.clock >= 0 {
			break
		}
	}
	m.next.Set(uint32(i), int64(s.clock))
}

// Next implements Source; it never ends.
func (m *Mix) Next() (mono.Time, int, bool) {
	if m.next.Len() == 0 {
		return mono.Never, 0, false
	}
	id, at := m.next.Min()
	m.advance(int(id))
	return mono.Time(at), int(id), true
}
