// Package outbound sends batches' outputs, of any size, over links whose send buffers are bounded.
//
//	executor --Direct: small, and nothing waits--> link
//	    |                                            ^
//	    +--Send--> the link's line (parts.Queue) ----+ parts, the earliest deadline first;
//	                     ^                           | what has left brings the next one
//	                     +---------- release --------+
//
// # Rules
//
//  1. Each output that Send took is over exactly once: all of it has left, or it was given up, which is
//     counted by its cause. Release follows when no link refers to its bytes any more.
//  2. An output that was begun and is given up is ended by its reason, so that its frontend does not wait for the rest.
//  3. What waits is bounded: by bytes (Reserve), by number (parts.Max a link), and by time, as none is kept for
//     longer than Grace after its deadline.
//  4. Nothing here blocks. Links are called without a lock, by the goroutine that called Send or by the one that called release.
//
// # Rejected
//
//   - A goroutine for each link: a hand-over for each part, where release can send the next one.
//   - A larger send buffer: it would bring large outputs through, and put small ones behind all of them.
//   - Waiting in the executor: the device's next batch would wait for the slowest frontend.
package outbound

import (
	"sync"
	"sync/atomic"

	"github.com/symphony-serving/symphony/backend/outbound/parts"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// MaxDefault is the most bytes of buffers whose outputs wait, where nothing is said.
const MaxDefault = 2 << 30

// Grace is how long after its deadline an output is still sent: frontends wait for a moment.
const Grace = 50 * mono.Millisecond

// Cause is why an output was given up.
type Cause uint8

// The causes.
const (
	CauseExpired Cause = iota // its deadline passed while it waited
	CauseLink                 // its link ended
	CauseMany                 // parts.Max outputs wait for its link already
)

// String is the cause as a metric's label.
func (c Cause) String() string { return [...]string{"expired", "link", "many"}[c] }

// Output is one request's outputs, or a reason in their place.
type Output struct {
	Head     wire.Output // but for Offset and Total
	Data     []byte      // nil: Head has a reason
	Deadline mono.Time
	Model    int // the executor's slot, for Lost
	// Release is called once, when nothing refers to Data any more. Lost is called once where the output was given up,
	// before or after Release: it must not read the bytes of Data. Neither is called under a lock, nor may block. Both
	// may be nil.
	Release func()
	Lost    func(o *Output, c Cause)
}

// Sender sends outputs over any number of links.
type Sender struct {
	max  int64        // Immutable: bytes of buffers whose outputs wait
	held atomic.Int64 // bytes reserved
	busy atomic.Int64 // lines with outputs
	mu   sync.Mutex   // Guards all.
	all  map[transport.Link]*line
}

// New makes a sender that keeps at most max bytes; 0: MaxDefault.
func New(max int64) *Sender {
	if max <= 0 {
		max = MaxDefault
	}
	return &Sender{max: max, all: map[transport.Link]*line{}}
}

// Max is the most bytes that Reserve gives; of no sender: MaxDefault.
func (s *Sender) Max() int64 {
	if s == nil {
		return MaxDefault
	}
	return s.max
}

// Held is how many bytes are reserved now.
func (s *Sender) Held() int64 { return s.held.Load() }

// Idle reports whether nothing waits for a link, and none has anything that Send took.
func (s *Sender) Idle() bool { return s.busy.Load() == 0 }

// Reserve takes room for a buffer of n bytes whose outputs will wait; false: there is none.
func (s *Sender) Reserve(n int64) bool {
	if s.held.Add(n) <= s.max {
		return true
	}
	s.held.Add(-n)
	return false
}

// Unreserve gives it back.
func (s *Sender) Unreserve(n int64) { s.held.Add(-n) }

// Direct reports whether an output of n bytes may go to its link at once: it is small, and nothing
// waits for that link. A link that refuses it (transport.ErrFull) gets it by Send.
func (s *Sender) Direct(l transport.Link, n int) bool {
	return n <= parts.Small && (s.busy.Load() == 0 || s.free(l))
}

// free reports whether nothing waits for a link while something does for others.
func (s *Sender) free(l transport.Link) bool {
	s.mu.Lock()
	n := s.all[l]
	s.mu.Unlock()
	if n == nil {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.busy
}

// Send takes an output over. Its Lost and Release say what becomes of it.
func (s *Sender) Send(l transport.Link, o Output) {
	for !s.line(l).add(&o) { // that one has just ended
	}
}

// line is the link's.
func (s *Sender) line(l transport.Link) *line {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.all[l]
	if n == nil {
		n = newLine(s, l)
		s.all[l] = n
	}
	return n
}

// end forgets a line with which nothing is left to do.
func (s *Sender) end(n *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[n.link] == n {
		delete(s.all, n.link)
	}
}
