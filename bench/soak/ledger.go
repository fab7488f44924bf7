package soak

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/symphony-serving/symphony/transport/mono"
)

// overdue is how long after its budget a request may be open: the client library
// answers at the deadline by itself, and an HTTP client gives up before this.
const overdue = 10 * mono.Second

// stamp fills dst, of whole words, with what no other request has at any place. An
// output repeats the begin of its input, or all of it (Model.Echo).
func stamp(dst []byte, id uint64) {
	for i := range len(dst) / 8 {
		binary.LittleEndian.PutUint64(dst[8*i:], id^(uint64(i)*0x9e3779b97f4a7c15))
	}
}

// stamped finds the first word that is not the request's; -1: all are.
func stamped(b []byte, id uint64) (wrong int) {
	for i := range len(b) / 8 {
		if binary.LittleEndian.Uint64(b[8*i:]) != id^(uint64(i)*0x9e3779b97f4a7c15) {
			return i
		}
	}
	return -1
}

// Counts is what the ledger knows.
type Counts struct {
	Asked    int64 `json:"asked"`
	Answered int64 `json:"answered"` // at least once
	Outputs  int64 `json:"outputs"`
	Open     int64 `json:"open"`                   // at the end: lost
	Overdue  int64 `json:"overdue"`                // answered, or lost, long after the deadline
	Twice    int64 `json:"twice"`                  // answers beyond a request's first
	Foreign  int64 `json:"foreign"`                // outputs of another request, or none's
	ConnLost int64 `json:"conn_lost_with_process"` // HTTP connections that a fault broke
}

// ledger holds every request until its answer.
type ledger struct {
	mu     sync.Mutex // Guards what follows.
	next   uint64
	open   map[uint64]mono.Time // request -> when it is overdue
	late   map[uint64]bool      // told as overdue
	counts Counts
	notes  []string
}

func newLedger() *ledger { return &ledger{open: map[uint64]mono.Time{}, late: map[uint64]bool{}} }

// ask enters a request.
func (l *ledger) ask(now mono.Time, budget mono.Dur) (id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	l.open[l.next] = now.Add(budget + overdue)
	l.counts.Asked++
	return l.next
}

// answer strikes a request out and says whether this is its first answer. output is
// nil when there is none, only a reason; else it must have so many bytes, all its own.
func (l *ledger) answer(id uint64, who string, output []byte, size int) (fits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.open[id]; !ok {
		l.counts.Twice++
		l.note("%s: request %d was answered again", who, id)
		return false
	}
	delete(l.open, id)
	delete(l.late, id)
	l.counts.Answered++
	if output == nil {
		return true
	}
	l.counts.Outputs++
	wrong := stamped(output, id)
	if wrong < 0 && len(output) == size {
		return true
	}
	l.counts.Foreign++
	own := 8 * wrong
	if wrong < 0 {
		own = len(output)
	}
	l.note("%s: request %d got %d bytes, the first %d its own; it should have got %d", who, id, len(output), own, size)
	return false
}

func (l *ledger) brokenConnection() {
	l.mu.Lock()
	l.counts.ConnLost++
	l.mu.Unlock()
}

// notesMost bounds what is written about single requests.
const notesMost = 20

func (l *ledger) note(format string, args ...any) {
	if len(l.notes) < notesMost {
		l.notes = append(l.notes, fmt.Sprintf(format, args...))
	}
}

// look counts the overdue and returns the state.
func (l *ledger) look(now mono.Time) Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, at := range l.open {
		if at < now && !l.late[id] {
			l.late[id] = true
			l.counts.Overdue++
			l.note("request %d is open %v after its deadline", id, overdue)
		}
	}
	l.counts.Open = int64(len(l.open))
	return l.counts
}
