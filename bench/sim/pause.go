package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Pause is a part that stands still for a Length now and then: a process that
// the host does not run, a device that hiccups.
//
// While the scheduler stands still it is told nothing and does nothing: what
// comes waits in its mailbox, its timers fire late, GPUs that are to join or
// leave do so when it is back. While a GPU stands still, its batch takes that
// much longer, and none starts. What was sent is under way meanwhile.
//
// Rejected: to stop the whole simulation for a span, which nobody would notice;
// and to lengthen a batch by chance, which is Jitter: that has no batch that
// waits for its start, and no two batches late for the same reason.
type Pause struct {
	Part   Part
	Length mono.Dur
	Every  mono.Dur // from begin to begin; their mean where Random
	Random bool     // the spans from begin to begin are exponential, else all alike
}

// Part is what stands still.
type Part uint8

const (
	// SchedulerPart is the scheduler, all of it.
	SchedulerPart Part = iota
	// BackendPart is each GPU, with pauses of its own.
	BackendPart
)

// pausedMost is the greatest share of the time that a part may stand still. Far
// more than any machine does that is of use, and every span comes to an end.
const pausedMost = 0.5

func checkPauses(pauses []Pause) error {
	var paused [BackendPart + 1]float64
	for _, p := range pauses {
		if p.Part > BackendPart || p.Length <= 0 || p.Every <= p.Length {
			return fmt.Errorf("%w: a pause of %v every %v: both must be above 0, and the second above the first", ErrInvalid, p.Length, p.Every)
		}
		if paused[p.Part] += p.Length.Seconds() / p.Every.Seconds(); paused[p.Part] > pausedMost {
			return fmt.Errorf("%w: pauses take %g of the time of one part, at most %g", ErrInvalid, paused[p.Part], pausedMost)
		}
	}
	return nil
}

// span is from an instant on, and up to another.
type span struct{ from, to mono.Time }

// rhythm draws the pauses of one kind.
type rhythm struct {
	Pause
	begin  mono.Time     // of the next one
	random *workload.Mix // nil: they are regular
}

func newRhythm(p Pause, seed uint64) rhythm {
	r := rhythm{Pause: p}
	if !p.Random {
		r.begin = mono.Time(rand.New(rand.NewPCG(seed, 0x7061757365)).Int64N(int64(p.Every)))
		return r
	}
	mix, err := workload.NewMix([]workload.Stream{{Process: workload.Poisson, Rate: 1 / p.Every.Seconds()}}, seed)
	if err != nil {
		panic("sim: a pause that was checked: " + err.Error())
	}
	r.random = mix
	r.advance()
	return r
}

func (r *rhythm) advance() {
	if r.random == nil {
		r.begin = r.begin.Add(r.Every)
	} else {
		r.begin, _, _ = r.random.Next()
	}
}

// pauses are the spans for which one part stands still. They are drawn as far
// as somebody asks, and forgotten when they are over.
type pauses struct {
	rhythms []rhythm
	spans   []span // in order, apart from each other
}

// newPauses are those of part number i of its kind.
func newPauses(all []Pause, part Part, i int, seed uint64) *pauses {
	s := &pauses{}
	for k, p := range all {
		if p.Part == part {
			own := rand.NewPCG(seed, uint64(part)<<60|uint64(k)<<32|uint64(i))
			s.rhythms = append(s.rhythms, newRhythm(p, own.Uint64()))
		}
	}
	return s
}

func (s *pauses) none() bool { return len(s.rhythms) == 0 }

// draw draws spans until one begins after t: those before it are whole then.
func (s *pauses) draw(t mono.Time) {
	for n := len(s.spans); n == 0 || s.spans[n-1].from <= t; n = len(s.spans) {
		r := &s.rhythms[0]
		for i := range s.rhythms {
			if s.rhythms[i].begin < r.begin {
				r = &s.rhythms[i]
			}
		}
		next := span{r.begin, r.begin.Add(r.Length)}
		r.advance()
		if n > 0 && next.from <= s.spans[n-1].to {
			s.spans[n-1].to = max(s.spans[n-1].to, next.to)
		} else {
			s.spans = append(s.spans, next)
		}
	}
}

// after is the first instant from t on at which the part does not stand still.
func (s *pauses) after(t mono.Time) mono.Time {
	if s.none() || t == mono.Never {
		return t
	}
	s.draw(t)
	for _, p := range s.spans {
		if t < p.to {
			if t >= p.from {
				return p.to
			}
			break
		}
	}
	return t
}

// stretch is when work of length d ends that begins at t, outside of a pause.
func (s *pauses) stretch(t mono.Time, d mono.Dur) mono.Time {
	end := t.Add(d)
	if s.none() {
		return end
	}
	s.draw(end)
	for i := 0; i < len(s.spans) && s.spans[i].from < end; i++ {
		if p := s.spans[i]; p.from >= t {
			end = end.Add(p.to.Sub(p.from))
			s.draw(end)
		}
	}
	return end
}

// forget drops the spans that were over by t: nobody asks for earlier instants.
func (s *pauses) forget(t mono.Time) {
	n := 0
	for n < len(s.spans) && s.spans[n].to <= t {
		n++
	}
	if n > 0 {
		s.spans = append(s.spans[:0], s.spans[n:]...)
	}
}
