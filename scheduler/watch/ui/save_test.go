package ui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/wire"
)

// slowReader is a client that takes a piece when it is let to. It notes how long the longest was, and
// whether it came with a deadline.
type slowReader struct {
	*httptest.ResponseRecorder
	took, let       chan struct{}
	pieces, longest int
	deadlines       int
}

func newSlowReader() *slowReader {
	return &slowReader{ResponseRecorder: httptest.NewRecorder(), took: make(chan struct{}), let: make(chan struct{})}
}

func (r *slowReader) SetWriteDeadline(time.Time) error {
	r.deadlines++
	return nil
}

func (r *slowReader) Write(p []byte) (int, error) {
	r.took <- struct{}{}
	<-r.let
	r.pieces, r.longest = r.pieces+1, max(r.longest, len(p))
	return r.ResponseRecorder.Write(p)
}

// many are batches with a request each.
func many(n int) (out []watch.Event) {
	for i := range n {
		e := overload()[0]
		e.Batch += wire.BatchID(i) << 16
		out = append(out, e)
	}
	return out
}

const manyEvents = 20_000

// saver is a hub that has many events.
func saver(t *testing.T, cfg Config) (*Hub, *http.ServeMux) {
	t.Helper()
	f := &fake{}
	f.tell(many(manyEvents)...)
	cfg.Always, cfg.Source = true, func() Source { return f }
	h, mux := NewHub(cfg), http.NewServeMux()
	t.Cleanup(h.Close)
	h.Register(mux)
	return h, mux
}

// A save is for one reader at a time, and is written in pieces, each with a deadline; between them
// others have the hub.
func TestSaveInPieces(t *testing.T) {
	h, mux := saver(t, Config{})
	ended, r := make(chan struct{}), newSlowReader()
	request := func() *http.Request { return httptest.NewRequest("GET", "/ui/save", nil) }
	go func() {
		defer close(ended)
		mux.ServeHTTP(r, request())
	}()
	<-r.took
	second := httptest.NewRecorder()
	mux.ServeHTTP(second, request())
	if second.Code != http.StatusServiceUnavailable || second.Header().Get("Retry-After") == "" || !strings.Contains(second.Body.String(), "saved by somebody else") {
		t.Errorf("a second save: %d, %v, %.200s", second.Code, second.Header(), second.Body)
	}
	for writing := true; writing; {
		h.mu.Lock() // nobody holds it while the reader takes its time
		h.mu.Unlock()
		r.let <- struct{}{}
		select {
		case <-r.took:
		case <-ended:
			writing = false
		}
	}
	if r.pieces < 5 || r.deadlines < r.pieces || r.longest > pieceBytes+1<<12 {
		t.Errorf("%d pieces of up to %d bytes, %d deadlines", r.pieces, r.longest, r.deadlines)
	}
	if n := strings.Count(r.Body.String(), `"e":"batch"`); n != manyEvents || strings.Contains(r.Body.String(), `"e":"missed"`) {
		t.Errorf("%d batches are saved, want %d, and none missed", n, manyEvents)
	}
	third := httptest.NewRecorder()
	mux.ServeHTTP(third, request())
	if third.Code != http.StatusOK {
		t.Errorf("a save after the first: %d", third.Code)
	}
}

// What is forgotten while a slow reader saves is told of as missed; where the hub began anew the file is cut off.
func TestSaveWhileItGoesOn(t *testing.T) {
	h, _ := saver(t, Config{Bytes: 5 << 20}) // about what there is
	s, doc := h.beginSave()
	doc, _ = h.piece(&s, doc)
	h.mu.Lock()
	for e := overload()[0]; h.history.First() < 10_000; {
		h.history.Add(&e)
	}
	h.history.Close() // or the next look would, and forget what is too much by then
	first := h.history.First()
	gap := first - s.next
	h.mu.Unlock()
	for more := true; more; {
		var next []byte
		next, more = h.piece(&s, nil)
		doc = append(doc, next...)
	}
	_, after, ok := strings.Cut(string(doc), `"e":"missed"`)
	line, after, _ := strings.Cut(after, "\n")
	if !ok || !strings.Contains(line, fmt.Sprintf(`"size":%d`, gap)) {
		t.Errorf("of %d events that were forgotten is told %q", gap, line)
	}
	if n := uint64(strings.Count(after, "\n")); n != s.to-first {
		t.Errorf("after them are %d events, want %d", n, s.to-first)
	}
	if _, err := Read(strings.NewReader(string(doc))); err != nil {
		t.Error(err)
	}

	s, _ = h.beginSave()
	h.mu.Lock()
	h.begin()
	h.mu.Unlock()
	defer func() {
		if r := recover(); r != http.ErrAbortHandler {
			t.Errorf("after the hub began anew: %v, want that the answer is cut off", r)
		}
	}()
	h.piece(&s, nil)
}
