package fakecuda

import (
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// engine does one thing at a time, in the order in which streams come. The GPU's lock
// guards it.
type engine struct {
	came, served uint64    // tickets
	free         mono.Time // of the device: when it has done the last
}

// run does the stream's work until it is closed and has done all. A lost device does
// nothing more, and passes all.
func (s *stream) run() {
	defer close(s.ended)
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	var w work
	for {
		for s.head == len(s.queue) && !s.closed {
			s.g.cond.Wait()
		}
		if s.head == len(s.queue) {
			return
		}
		w, s.queue[s.head] = s.queue[s.head], work{}
		s.head++
		if s.c.p.lost == nil {
			s.execute(&w)
		}
		for _, m := range w.spans() {
			m.b.uses--
		}
		if w.pin != nil {
			w.pin.uses.Add(-1)
		}
		s.done = w.place
		s.g.cond.Broadcast()
	}
}

// execute does one piece of work. The lock is held, and released where it takes time.
func (s *stream) execute(w *work) {
	s.at = max(s.at, w.queued)
	switch w.kind {
	case doRecord:
		if w.event.of == s && w.event.upTo == w.place {
			w.event.at = s.at
		}
	case doWait:
		if s.await(w.of, w.upTo) != nil {
			return
		}
		at := mono.Now() // of a mark that was made anew meanwhile nobody knows the time
		if w.event.of == w.of && w.event.upTo == w.upTo {
			at = w.event.at
		}
		s.at = max(s.at, at)
	case doCopyIn:
		s.transfer(&s.c.p.copyIn, w)
	case doCopyOut:
		s.transfer(&s.c.p.copyOut, w)
	case doRun:
		s.compute(w.run)
	}
}

// take waits for the stream's turn at an engine; false: the device is lost.
func (s *stream) take(e *engine) bool {
	ticket := e.came
	e.came++
	for e.served != ticket && s.c.p.lost == nil {
		s.g.cond.Wait()
	}
	s.at = max(s.at, e.free)
	return s.c.p.lost == nil
}

// leave ends its turn.
func (s *stream) leave(e *engine) {
	e.free = s.at
	e.served++
	s.g.cond.Broadcast()
}

// transfer copies at the copy's end: who touches the memory before is seen.
func (s *stream) transfer(e *engine, w *work) {
	if !s.take(e) {
		return
	}
	n := int64(len(w.host))
	length := s.g.d.c.CopyTime
	if rate := s.g.d.c.Bandwidth; rate > 0 {
		length += mono.Dur(float64(n) / float64(rate) * float64(mono.Second))
	}
	s.claim(w.spans())
	if s.sleep(s.at.Add(length)) {
		m := w.dev[0]
		s.g.mu.Unlock()
		if w.kind == doCopyIn {
			copy(m.b.mem[m.from:m.to], w.host)
		} else {
			copy(w.host, m.b.mem[m.from:m.to])
		}
		s.g.mu.Lock()
		s.count(w.kind, n)
	}
	s.release()
	s.at = s.at.Add(length)
	s.leave(e)
}

func (s *stream) count(k kind, n int64) {
	if k == doCopyIn {
		s.g.stats.In++
		s.g.stats.BytesIn += n
	} else {
		s.g.stats.Out++
		s.g.stats.BytesOut += n
	}
}

// compute runs a kernel's function, and then waits until its time has passed.
func (s *stream) compute(b *binding) {
	p, g := s.c.p, s.g
	e := &p.compute
	if !s.take(e) || !s.suffer() {
		return
	}
	s.claim(b.spans)
	length := b.length
	if b.kernel.Run != nil {
		g.mu.Unlock()
		start := mono.Now()
		err := b.kernel.Run(b.size, b.in, b.out)
		length = max(length, mono.Now().Sub(start))
		g.mu.Lock()
		if err != nil {
			p.lose(g.errLost("a kernel failed: " + err.Error()))
		}
	}
	if s.sleep(s.at.Add(length)) {
		g.stats.Runs++
	}
	s.release()
	s.at = s.at.Add(length)
	s.leave(e)
}

// suffer does what tests have ordered for the next kernel; false: the device is lost.
func (s *stream) suffer() bool {
	g, p := s.g, s.c.p
	if g.failKernel {
		g.failKernel = false
		p.lose(g.errLost("a kernel failed: illegal address"))
	}
	if g.hang == hangNext && p.lost == nil {
		g.hang = hangs
		g.cond.Broadcast()
		for g.hang == hangs && p.lost == nil {
			g.cond.Wait()
		}
		g.hang = hangNot
		s.at = max(s.at, mono.Now())
	}
	return p.lost == nil
}

// claim says what the stream is at work on from now on. Another stream that is at work on
// the same, one of both writing, is a race: an event is missing between them.
func (s *stream) claim(spans []span) {
	s.now = spans
	for _, other := range s.c.p.running {
		for _, theirs := range other.now {
			for _, ours := range spans {
				if ours.overlaps(theirs) && (ours.write || theirs.write) {
					_ = s.g.d.misuse("two streams at work on the memory at %#x at once, and one writes: a Wait is missing", uint64(ours.b.at)+uint64(ours.from))
				}
			}
		}
	}
	s.c.p.running = append(s.c.p.running, s)
}

// release ends that.
func (s *stream) release() {
	p := s.c.p
	for i, other := range p.running {
		if other == s {
			last := len(p.running) - 1
			p.running[i], p.running[last] = p.running[last], nil
			p.running = p.running[:last]
			break
		}
	}
	s.now = nil
}

// How precisely streams wait: Go's timers are good to about a millisecond, the kernel's
// sleep to 60 us.
const (
	napMax   = 2 * mono.Millisecond
	sleepMax = 5 * mono.Millisecond // then it looks whether the device is lost
)

// sleep waits until an instant without the lock; false: the device was lost.
func (s *stream) sleep(until mono.Time) bool {
	for s.c.p.lost == nil {
		left := until.Sub(mono.Now())
		if left <= 0 {
			return true
		}
		s.g.mu.Unlock()
		if left > napMax {
			time.Sleep(min(left-napMax/2, sleepMax).Std())
		} else {
			nap(left)
		}
		s.g.mu.Lock()
	}
	return false
}
