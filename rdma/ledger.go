package rdma

import "github.com/symphony-serving/symphony/transport/mono"

// ledger is what was posted to a send queue and has not completed, in order. A
// ring of the queue's depth.
type ledger struct {
	ring       []sent
	head, used int
}

// sent is one posted work request.
type sent struct {
	id uint32
	at mono.Time
}

func newLedger(depth int) ledger { return ledger{ring: make([]sent, depth)} }

func (l *ledger) len() int  { return l.used }
func (l *ledger) room() int { return len(l.ring) - l.used }

// push adds one; there is room.
func (l *ledger) push(s sent) {
	l.ring[(l.head+l.used)%len(l.ring)] = s
	l.used++
}

// pop takes the oldest.
func (l *ledger) pop() (sent, bool) {
	s, ok := l.oldest()
	if ok {
		l.head = (l.head + 1) % len(l.ring)
		l.used--
	}
	return s, ok
}

func (l *ledger) oldest() (sent, bool) {
	if l.used == 0 {
		return sent{}, false
	}
	return l.ring[l.head], true
}
