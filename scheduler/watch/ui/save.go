package ui

import (
	"errors"
	"net/http"
	"time"

	"github.com/symphony-serving/symphony/scheduler/watch"
)

const (
	// pieceBytes is about how much of a document is encoded at a time, under the lock.
	pieceBytes = 256 << 10
	// saveMost is how long a save may take: a reader that is slower is cut off, for others wait.
	saveMost = 5 * time.Minute
)

var (
	errNobody = errors.New("there is no scheduler here at the moment: try again")
	errSaving = errors.New("what is kept is being saved by somebody else: try again in a moment")
)

// saving is one save: which events it writes, and how far it is.
type saving struct {
	state    *watch.State // that it began with: another one means that the hub began anew
	next, to uint64       // numbers of the history's events
}

// serveSave is what is kept, as a file: encoded in pieces, so that neither the lock is held for long nor
// a second copy of all is in memory, and for one reader at a time.
func (h *Hub) serveSave(w http.ResponseWriter, _ *http.Request) {
	select {
	case h.saves <- struct{}{}:
		defer func() { <-h.saves }()
	default:
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, errSaving)
		return
	}
	s, piece := h.beginSave()
	if piece == nil {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, errNobody)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Content-Disposition", `attachment; filename="schedule-`+time.Now().UTC().Format("20060102-150405")+`.jsonl"`)
	out, end := http.NewResponseController(w), time.Now().Add(saveMost)
	for {
		limit := time.Now().Add(writeMost)
		if limit.After(end) {
			limit = end
		}
		_ = out.SetWriteDeadline(limit)
		if _, err := w.Write(piece); err != nil || out.Flush() != nil {
			return // the client went, or is too slow
		}
		var more bool
		if piece, more = h.piece(&s, piece[:0]); !more {
			return
		}
	}
}

// beginSave is the document's head with the surroundings; nil: there is nothing to save.
func (h *Hub) beginSave() (s saving, doc []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.look()
	if h.file.Symphony == "" && h.source == nil {
		return saving{}, nil
	}
	head := h.head()
	doc = head.Append(nil)
	for _, e := range h.state.Surroundings(h.history.From()) {
		doc = e.Append(doc)
	}
	first := h.history.First()
	return saving{state: h.state, next: first, to: first + uint64(h.history.Len())}, doc
}

// piece appends the next events; false: there are no more. What was forgotten since the last piece is told
// of as missed. It panics with http.ErrAbortHandler where the hub began anew meanwhile: a file that is cut off
// must not look whole.
func (h *Hub) piece(s *saving, doc []byte) (all []byte, more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.next >= s.to {
		return nil, false
	}
	if h.state != s.state {
		panic(http.ErrAbortHandler)
	}
	h.linger() // it goes on while somebody saves
	first := h.history.First()
	if s.next < first {
		gap := min(first, s.to) - s.next
		lost := watch.Event{Kind: watch.Missed, At: h.history.From(), Size: int32(gap)}
		doc = lost.Append(doc)
		s.next += gap
	}
	doc, s.next = h.history.AppendPlain(doc, s.next, s.to, pieceBytes)
	return doc, true
}
