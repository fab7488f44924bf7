package watch

import "github.com/symphony-serving/symphony/transport/mono"

// History keeps the last events, bounded by age and by bytes.
type History struct {
	span   mono.Dur
	most   int
	events []Event // a ring
	first  int     // index of the oldest
	n      int
	bytes  int
	from   mono.Time // all since then is here, but for what Missed tells
	begun  bool      // from is set
	forgot bool
	gone   uint64 // events that were forgotten: the number of the oldest that is here
	missed uint64
	last   mono.Time
}

// NewHistory keeps events for span, and no more than about so many bytes.
func NewHistory(span mono.Dur, bytes int) *History { return &History{span: span, most: bytes} }

// Add takes an event. Who tells events tells them about in order.
func (h *History) Add(e *Event) {
	if !h.forgot && e.Kind < Model && (!h.begun || e.At < h.from) {
		h.from, h.begun = e.At, true // surroundings may be told again, later than what they surround
	}
	if h.n == len(h.events) {
		h.grow()
	}
	h.events[(h.first+h.n)%len(h.events)] = *e
	h.n++
	h.bytes += e.bytes()
	h.last = max(h.last, e.At)
	if e.Kind == Missed {
		h.missed += uint64(e.Size)
	}
	for h.n > 1 && (h.bytes > h.most || h.last.Sub(h.events[h.first].At) > h.span) {
		h.forget()
	}
}

func (h *History) grow() {
	events := make([]Event, max(64, 2*len(h.events)))
	for i := range h.n {
		events[i] = *h.At(i)
	}
	h.events, h.first = events, 0
}

func (h *History) forget() {
	e := &h.events[h.first]
	if e.Kind == Missed {
		h.missed -= uint64(e.Size)
	}
	h.bytes -= e.bytes()
	h.gone++
	h.from, h.forgot = max(h.from, e.At), true
	*e = Event{}
	h.first = (h.first + 1) % len(h.events)
	h.n--
}

// Len is how many events there are, At the i-th from the oldest on, valid until the next Add.
func (h *History) Len() int { return h.n }

// At is the i-th event.
func (h *History) At(i int) *Event { return &h.events[(h.first+i)%len(h.events)] }

// First is the number of the oldest event: who reads in pieces knows by it what was forgotten
// between two of them. Numbers begin at 0, and with Clear again.
func (h *History) First() uint64 { return h.gone }

// From is the instant since which all that was told is here, To that of the newest event.
func (h *History) From() mono.Time { return h.from }

// To is the instant of the newest event.
func (h *History) To() mono.Time { return h.last }

// Missed is how many events of that time could not be told.
func (h *History) Missed() uint64 { return h.missed }

// Clear forgets everything, as when nobody looked for a while: what happened meanwhile is not known.
func (h *History) Clear() { *h = History{span: h.span, most: h.most} }
