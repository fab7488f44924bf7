package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/symphony-serving/symphony/transport/mono"
)

// HTTPTarget sends inferences to any server of the Open Inference Protocol. Each of
// its senders has one request open at a time, on a connection of its own; when
// all are busy a request waits for one, and its lateness counts.
//
// A request says how long its answer is of use (timeout, in microseconds). A server
// that does not look at it answers late, which is counted where the answer comes.
type HTTPTarget struct {
	client fasthttp.Client
	url    string
	binary bool
	models []httpModel
	jobs   chan httpJob
	wait   sync.WaitGroup

	mu         sync.Mutex // Guards what follows.
	complaints map[string]string
}

// HTTPOptions say where and how to send.
type HTTPOptions struct {
	URL     string // like "http://127.0.0.1:8000"; a path before /v2 is kept
	Senders int
	Binary  bool // the server has the protocol's extension for binary tensors; else they are JSON
}

// idleMax is how long a connection rests before it is closed. Servers of plain JSON
// are often written in Python, whose HTTP servers close after 5 s: a request that meets
// the close is lost, and it cannot be sent twice.
const (
	idleMaxBinary = time.Minute
	idleMaxJSON   = 2 * time.Second
)

type httpModel struct {
	path  string
	heads [2][]byte // the JSON before and after the timeout
	body  []byte    // binary tensors
}

type httpJob struct {
	model  int
	leave  mono.Time // when its budget ends
	answer func(Answer)
}

// NewHTTPTarget starts the senders.
func NewHTTPTarget(o HTTPOptions, models []ModelInput) (*HTTPTarget, error) {
	idle := idleMaxJSON
	if o.Binary {
		idle = idleMaxBinary
	}
	t := &HTTPTarget{url: strings.TrimRight(o.URL, "/"), binary: o.Binary, jobs: make(chan httpJob, 4*o.Senders), complaints: map[string]string{},
		client: fasthttp.Client{MaxConnsPerHost: o.Senders + 1, MaxIdleConnDuration: idle}}
	for _, m := range models {
		h, err := newHTTPModel(m, o.Binary)
		if err != nil {
			return nil, err
		}
		t.models = append(t.models, h)
	}
	t.wait.Add(o.Senders)
	for range o.Senders {
		go t.send()
	}
	return t, nil
}

func newHTTPModel(m ModelInput, asBinary bool) (httpModel, error) {
	type input struct {
		Name       string          `json:"name"`
		Datatype   string          `json:"datatype"`
		Shape      []int64         `json:"shape"`
		Parameters map[string]int  `json:"parameters,omitempty"`
		Data       json.RawMessage `json:"data,omitempty"`
	}
	h := httpModel{path: "/v2/models/" + url.PathEscape(m.Name) + "/infer"}
	var inputs []input
	for _, t := range m.Inputs {
		in := input{Name: t.Name, Datatype: string(t.Type), Shape: t.Shape}
		if asBinary {
			in.Parameters = map[string]int{"binary_data_size": len(t.Data)}
			h.body = append(h.body, t.Data...)
		} else {
			data, err := jsonData(t)
			if err != nil {
				return h, err
			}
			in.Data = data
		}
		inputs = append(inputs, in)
	}
	text, err := json.Marshal(inputs)
	if err != nil {
		return h, err
	}
	h.heads[0] = []byte(`{"parameters":{"timeout":`)
	if asBinary {
		h.heads[0] = []byte(`{"parameters":{"binary_data_output":true,"timeout":`)
	}
	h.heads[1] = append(append([]byte(`},"inputs":`), text...), '}')
	return h, nil
}

// Send implements Target.
func (t *HTTPTarget) Send(model int, budget mono.Dur, done func(Answer)) {
	select {
	case t.jobs <- httpJob{model, mono.Now().Add(budget), done}:
	default:
		done(Answer{Reason: "generator_full"})
	}
}

// Close ends the senders when the last answer is there.
func (t *HTTPTarget) Close() {
	close(t.jobs)
	t.wait.Wait()
}

func (t *HTTPTarget) send() {
	defer t.wait.Done()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	var body []byte
	for j := range t.jobs {
		budget := j.leave.Sub(mono.Now())
		if budget < mono.Microsecond {
			j.answer(Answer{Reason: "generator_late"})
			continue
		}
		m := &t.models[j.model]
		body = append(body[:0], m.heads[0]...)
		body = strconv.AppendInt(body, int64(budget/mono.Microsecond), 10)
		body = append(body, m.heads[1]...)
		head := len(body)
		body = append(body, m.body...)
		req.Reset()
		req.Header.SetMethod("POST")
		req.SetRequestURI(t.url + m.path)
		if t.binary {
			req.Header.Set("Content-Type", "application/octet-stream")
			req.Header.Set("Inference-Header-Content-Length", strconv.Itoa(head))
		} else {
			req.Header.Set("Content-Type", "application/json")
		}
		req.SetBodyRaw(body)
		err := t.client.DoTimeout(req, resp, (budget + 2*mono.Second).Std())
		j.answer(t.read(m, resp, err))
	}
}

// read tells what the reply says.
func (t *HTTPTarget) read(m *httpModel, resp *fasthttp.Response, err error) Answer {
	if err != nil {
		if errors.Is(err, fasthttp.ErrTimeout) {
			return Answer{Reason: "no_answer"}
		}
		return t.complaint(m, "connection", err.Error())
	}
	head := jsonOf(resp)
	switch why := resp.Header.Peek("X-Symphony-Reason"); {
	case resp.StatusCode() == fasthttp.StatusOK && bytes.Contains(head, []byte(`"outputs"`)):
		return Answer{BatchSize: batchSize(head)}
	case resp.StatusCode() == fasthttp.StatusOK: // an error that is called none, or no V2 at all
		return t.complaint(m, "no_outputs", "200 OK: "+said(head))
	case len(why) > 0 && !wrongRequest(resp.StatusCode()): // overload and deadlines speak for themselves
		return Answer{Reason: string(why)}
	default:
		reason := string(why)
		if reason == "" {
			reason = fmt.Sprintf("http_%d", resp.StatusCode())
		}
		return t.complaint(m, reason, fmt.Sprintf("%d %s: %s", resp.StatusCode(), fasthttp.StatusMessage(resp.StatusCode()), said(head)))
	}
}

// wrongRequest tells a status that means ourselves; 429 means that we are too many.
func wrongRequest(status int) bool {
	return status >= 400 && status < 500 && status != fasthttp.StatusTooManyRequests
}

// complaint keeps the words of the first one for each reason.
func (t *HTTPTarget) complaint(m *httpModel, reason, text string) Answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.complaints[reason]; !ok {
		t.complaints[reason] = "POST " + t.url + m.path + ": " + text
	}
	return Answer{Reason: reason}
}

// Complaints are the words of the first failure of each reason that does not
// explain itself: bad_request, http_503, no_outputs, connection.
func (t *HTTPTarget) Complaints() map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.complaints)
}

// jsonOf is the reply's JSON, without the binary tensors behind it.
func jsonOf(resp *fasthttp.Response) []byte {
	body := resp.Body()
	if n, err := strconv.Atoi(string(resp.Header.Peek("Inference-Header-Content-Length"))); err == nil && n >= 0 && n < len(body) {
		return body[:n]
	}
	return body
}

// said is what a reply without outputs says: its error, or its beginning.
func said(body []byte) string {
	const most = 300
	var reply struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &reply) == nil && len(reply.Error) > 0 {
		body = reply.Error
	}
	var text string
	if json.Unmarshal(body, &text) != nil {
		text = string(body)
	}
	if text = strings.Join(strings.Fields(text), " "); len(text) > most {
		text = text[:most] + " ..."
	}
	return text
}

// batchSize finds the batch size in the reply's JSON without parsing it; 0: it names
// none.
func batchSize(head []byte) int {
	const key = `"batch_size":`
	at := bytes.Index(head, []byte(key))
	if at < 0 {
		return 0
	}
	n := 0
	for _, c := range bytes.TrimLeft(head[at+len(key):], " ") {
		if c < '0' || c > '9' || n > 1<<20 {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}
