package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/transport/nearest"
)

// Options of a Handler. Zero values mean the defaults in brackets.
type Options struct {
	Token    string                        // that calls must bring [none]
	Absent   func() error                  // why there is no Control yet (see Set) [KindAway, without a reason]
	CallTime time.Duration                 // of a call that does not wait [15 s]
	Waiting  int                           // calls that wait at a time [1024]
	Fault    func(call string, err error)  // told of errors that are faults of the control plane [nobody]
	Done     func(call string, status int) // told of each call [nobody]
}

// Handler serves the API.
type Handler struct {
	o       Options // Immutable after New, and so are the next ones.
	mux     *http.ServeMux
	token   [sha256.Size]byte
	waiting chan struct{} // holds a token for each call that waits

	control atomic.Pointer[Control] // nil: there is none yet

	ending   chan struct{} // closed by EndWaits
	endWaits sync.Once
}

// New makes a handler. It has no state but the calls that wait: it needs no Close. Where control is
// nil calls are refused until Set brings one.
func New(control Control, o Options) *Handler {
	if o.CallTime == 0 {
		o.CallTime = 15 * time.Second
	}
	if o.Waiting == 0 {
		o.Waiting = 1024
	}
	h := &Handler{o: o, mux: http.NewServeMux(), token: sha256.Sum256([]byte(o.Token)), waiting: make(chan struct{}, o.Waiting),
		ending: make(chan struct{})}
	if control != nil {
		h.Set(control)
	}
	for _, r := range routes() {
		h.mux.HandleFunc(r.method+" "+r.pattern, func(w http.ResponseWriter, q *http.Request) { h.serve(w, q, &r) })
	}
	h.mux.HandleFunc("/", h.nowhere)
	return h
}

// Set is where calls go from now on.
func (h *Handler) Set(control Control) { h.control.Store(&control) }

// absent is why there is no Control.
func (h *Handler) absent() error {
	if h.o.Absent != nil {
		return h.o.Absent()
	}
	return Away(time.Second, false, "the control plane is about to start: try again")
}

// EndWaits answers calls that wait with what there is, now and from now on: a server that ends
// need not wait for them.
func (h *Handler) EndWaits() { h.endWaits.Do(func() { close(h.ending) }) }

// Server is an HTTP server for the handler, with the limits that strangers need. Its Shutdown
// ends waits.
func (h *Handler) Server() *http.Server {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: WaitMax + h.o.CallTime + 30*time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	s.RegisterOnShutdown(h.EndWaits)
	return s
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(r.TransferEncoding) > 0 {
		// net/http takes chunks beside a Content-Length, and hides the length: what follows on the
		// connection may be another's for a proxy before it.
		w.Header().Set("Connection", "close")
	}
	switch {
	case r.Header.Get("Origin") != "":
		h.refuse(w, "origin", &Error{Kind: KindForbidden, Msg: "web pages may not call the control plane: use symphony model, symphony plan, or a program"})
	case !h.admitted(r):
		w.Header().Set("WWW-Authenticate", "Bearer")
		h.refuse(w, "token", &Error{Kind: KindUnauthorized, Msg: "the control plane's token is missing or wrong: send Authorization: Bearer TOKEN (symphony: --token, or SYMPHONY_TOKEN)"})
	default:
		h.mux.ServeHTTP(w, r)
	}
}

// admitted compares in a time that tells nothing of the token.
func (h *Handler) admitted(r *http.Request) bool {
	if h.o.Token == "" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], h.token[:]) == 1
}

// call is one request of the API.
type call struct {
	*http.Request
	control Control
	h       *Handler
}

// serve runs a route.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, route *route) {
	ctx, cancel := context.WithTimeout(r.Context(), h.o.CallTime+WaitMax)
	defer cancel()
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			h.refuse(w, route.name, fmt.Errorf("%v\n%s", p, debug.Stack()))
		}
	}()
	control := h.control.Load()
	if control == nil {
		h.refuse(w, route.name, h.absent())
		return
	}
	c := &call{r.WithContext(ctx), *control, h}
	out, err := any(nil), c.parameters(route.parameters)
	if err == nil {
		err = c.names()
	}
	if err == nil {
		out, err = route.serve(c)
	}
	if err != nil {
		h.refuse(w, route.name, err)
		return
	}
	h.reply(w, route.name, http.StatusOK, out)
}

// names checks what stands in the path.
func (c *call) names() error {
	if name := c.PathValue("name"); strings.Contains(c.Pattern, "{name}") {
		if err := CheckName("name", name); err != nil {
			return err
		}
	}
	if strings.Contains(c.Pattern, "{version}") {
		return CheckVersion("version", c.PathValue("version"))
	}
	return nil
}

// parameters refuses unknown ones, and those that are there twice.
func (c *call) parameters(known []string) error {
	values, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return &Error{Kind: KindInvalid, Msg: "the parameters cannot be read: " + err.Error()}
	}
	for name, all := range values {
		if !slices.Contains(known, name) {
			return Invalid(name, "there is no such parameter%s", nearest.Text(name, known))
		}
		if len(all) > 1 {
			return Invalid(name, "is given twice")
		}
	}
	return nil
}

// number reads a parameter; def where it is not there.
func (c *call) number(name string, def, most uint64) (uint64, error) {
	text := c.URL.Query().Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > most {
		return 0, Invalid(name, "%.40q must be a whole number, at most %d", text, most)
	}
	return n, nil
}

// nowhere answers calls that no route takes.
func (h *Handler) nowhere(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{"GET", "PUT", "PATCH", "POST", "DELETE"} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := h.mux.Handler(other); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		h.write(w, "none", http.StatusMethodNotAllowed, &Error{Kind: KindInvalid, Msg: fmt.Sprintf("%s is not allowed here, only %s", r.Method, strings.Join(allowed, ", "))})
		return
	}
	h.refuse(w, "none", NotFound("no such path: %.200s", r.URL.Path))
}

// refuse answers with an error.
func (h *Handler) refuse(w http.ResponseWriter, name string, err error) {
	var e *Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.DeadlineExceeded):
		e = Away(time.Second, true, "it took too long: %v", err)
	case errors.Is(err, context.Canceled):
		e = Away(time.Second, true, "the call was given up")
	default:
		line, _, _ := strings.Cut(err.Error(), "\n") // a stack is for the log
		e = &Error{Kind: KindInternal, Msg: "a fault of the control plane: " + line}
		if h.o.Fault != nil {
			h.o.Fault(name, err)
		}
	}
	if e.Kind == KindAway {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int((e.RetryAfter+time.Second-1)/time.Second))))
	}
	h.write(w, name, e.Kind.status(), e)
}

func (h *Handler) reply(w http.ResponseWriter, name string, status int, out any) {
	if out == nil {
		out = struct{}{}
	}
	h.write(w, name, status, out)
}

func (h *Handler) write(w http.ResponseWriter, name string, status int, out any) {
	body, err := json.Marshal(out)
	if err != nil { // a number that JSON has not
		status, body = http.StatusInternalServerError, []byte(`{"kind":"internal","error":"the answer cannot be written as JSON"}`)
		if h.o.Fault != nil {
			h.o.Fault(name, err)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // who has gone needs no answer
	if h.o.Done != nil {
		h.o.Done(name, status)
	}
}
