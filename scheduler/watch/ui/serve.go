package ui

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
)

//go:embed page
var page embed.FS

// writeMost is how long a write to a viewer may take: one that is gone without a word is
// found out by it.
const writeMost = 10 * time.Second

// Register adds the page, its stream and the questions to a mux, below /ui/.
func (h *Hub) Register(mux *http.ServeMux) {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the embedded folder's name is wrong: a bug
	}
	static := http.StripPrefix("/ui/", http.FileServerFS(files))
	mux.Handle("GET /ui/", guarded(static.ServeHTTP))
	mux.Handle("GET /ui", http.RedirectHandler("/ui/", http.StatusMovedPermanently))
	mux.Handle("GET /ui/events", guarded(h.serveEvents))
	mux.Handle("GET /ui/story", guarded(h.serveStory))
	mux.Handle("GET /ui/lost", guarded(h.serveLost))
	mux.Handle("GET /ui/pages", guarded(h.servePages))
	mux.Handle("GET /ui/save", guarded(h.serveSave))
}

// guarded has browsers load nothing of other hosts for the page, and give nothing of it to
// other pages.
func guarded(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cache-Control", "no-cache")
		next(w, r)
	})
}

// errFull is the answer to a viewer too many.
var errFull = errors.New("as many viewers as may be follow the schedule already: close one of them")

// join adds a viewer, with what it needs to begin.
func (h *Hub) join() (*viewer, []byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, nil, errors.New("the scheduler is shutting down")
	case len(h.viewers) >= h.cfg.Viewers:
		return nil, nil, fmt.Errorf("%w (at most %d)", errFull, h.cfg.Viewers)
	}
	if h.look(); h.file.Symphony == "" && h.source == nil {
		return nil, nil, errors.New("there is no scheduler here at the moment: it begins anew; try again")
	}
	v := &viewer{chunks: make(chan *chunk, behindMost)}
	if h.file.Symphony != "" {
		if h.whole == nil { // what it says never changes
			first := h.file.Append([]byte(data))
			h.whole = ends(h.document(first, mono.Past), h.history.To())
		}
		return v, h.whole, nil
	}
	head := h.head()
	first := head.Append([]byte(data))
	h.viewers[v] = true
	return v, append(h.document(first, h.history.To().Add(-recent)), '\n'), nil
}

func (h *Hub) head() watch.Head {
	if h.file.Symphony != "" {
		return h.file
	}
	return h.source.WatchHead()
}

// leave takes a viewer out.
func (h *Hub) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut(v)
	h.linger()
}

// serveEvents is the stream.
func (h *Hub) serveEvents(w http.ResponseWriter, r *http.Request) {
	v, first, err := h.join()
	if err != nil {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	defer h.leave(v)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	w.Header().Set("Transfer-Encoding", "identity") // it ends with its connection: in HTTP's chunks each write would be three
	out := http.NewResponseController(w)
	send := func(chunk []byte) bool {
		_ = out.SetWriteDeadline(time.Now().Add(writeMost))
		_, err := w.Write(chunk)
		return err == nil && out.Flush() == nil
	}
	if !send(first) {
		return
	}
	if h.file.Symphony != "" { // nothing follows: the viewer must not come again for it
		send([]byte("event: end\ndata: {}\n\n"))
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case chunk, ok := <-v.chunks:
			if !ok || !send(chunk.text) {
				return
			}
			h.sent(chunk)
		}
	}
}

// refuse answers with an error as JSON.
func refuse(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

// lostMost bounds a list.
const lostMost = 200

func (h *Hub) serveLost(w http.ResponseWriter, r *http.Request) {
	most := 50
	if text := r.FormValue("most"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > lostMost {
			refuse(w, http.StatusBadRequest, fmt.Errorf("most: %q, must be 1 to %d", text, lostMost))
			return
		}
		most = n
	}
	answer(w, h.Lost(most))
}

// serveStory tells why a request was dropped or late.
func (h *Hub) serveStory(w http.ResponseWriter, r *http.Request) {
	key, err := watch.ParseKey(r.FormValue("request"))
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("request: %w", err))
		return
	}
	doc, text, err := h.Story(key)
	switch {
	case err != nil:
		refuse(w, http.StatusNotFound, err)
	case r.FormValue("format") == "text":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, line := range text {
			fmt.Fprintln(w, line)
		}
	default:
		answer(w, doc)
	}
}

func answer(w http.ResponseWriter, doc any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(doc) // an error is the client's that went
}
