package schedbench

import (
	"math/rand/v2"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// arrival is one place of a tape: the gap before it at tapeRate, and its model.
type arrival struct {
	gap   uint32 // ns
	model uint16
}

// tape is arrivals drawn before the run. To draw costs a logarithm, and with
// bursts far more; to read costs a few ns.
type tape struct{ arrivals []arrival }

const (
	tapeLength = 1 << 20
	tapeRate   = 1e6 // requests/s at which it is drawn
)

func newTape(p workload.Process, shape float64, models int, seed uint64) (*tape, error) {
	streams := make([]workload.Stream, models)
	for i := range streams {
		streams[i] = workload.Stream{Process: p, Shape: shape, Rate: tapeRate / float64(models)}
	}
	mix, err := workload.NewMix(streams, seed)
	if err != nil {
		return nil, err
	}
	t := &tape{arrivals: make([]arrival, tapeLength)}
	last := mono.Time(0)
	for i := range t.arrivals {
		at, model, _ := mix.Next()
		t.arrivals[i] = arrival{gap: uint32(min(at.Sub(last), 1<<32-1)), model: uint16(model)}
		last = at
	}
	return t, nil
}

// source plays a tape at a rate. Every pass begins at another place, so that what
// recurs does so at another distance each time.
type source struct {
	tape  []arrival
	scale float64 // tapeRate / rate
	rand  *rand.PCG
	at    float64 // ns since the start: instants are rounded, their sum is not
	start mono.Time
	i     int
	left  int // of this pass
	next  mono.Time
	model wire.ModelID
}

func newSource(t *tape, rate float64, start mono.Time, seed uint64) *source {
	s := &source{tape: t.arrivals, scale: tapeRate / rate, rand: rand.NewPCG(seed, 77), start: start, left: len(t.arrivals)}
	s.advance()
	return s
}

// advance goes on to the next arrival: s.next, s.model.
func (s *source) advance() {
	if s.left == 0 {
		s.left, s.i = len(s.tape), int(s.rand.Uint64()%uint64(len(s.tape)))
	}
	a := s.tape[s.i]
	if s.i++; s.i == len(s.tape) {
		s.i = 0
	}
	s.left--
	s.at += float64(a.gap) * s.scale
	s.next, s.model = s.start.Add(mono.Dur(s.at)), wire.ModelID(a.model)
}
