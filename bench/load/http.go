package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/symphony-serving/symphony/transport/mono"
)

// HTTPTarget sends binary tensors through the Open Inference Protocol. Each of
// its senders has one request open at a time, on a connection of its own; when
// all are busy a request waits for one, and its lateness counts.
type HTTPTarget struct {
	client fasthttp.Client
	url    string
	models []httpModel
	jobs   chan httpJob
	wait   sync.WaitGroup
}

type httpModel struct {
	path  string
	heads [2][]byte // the JSON before and after the timeout
	body  []byte    // tensors
}

type httpJob struct {
	model  int
	leave  mono.Time // when its budget ends
	answer func(Answer)
}

// NewHTTPTarget starts the senders. url is like "http://127.0.0.1:8000".
func NewHTTPTarget(url string, models []ModelInput, senders int) (*HTTPTarget, error) {
	t := &HTTPTarget{url: url, jobs: make(chan httpJob, 4*senders), client: fasthttp.Client{MaxConnsPerHost: senders + 1, MaxIdleConnDuration: time.Minute}}
	for _, m := range models {
		h, err := newHTTPModel(m)
		if err != nil {
			return nil, err
		}
		t.models = append(t.models, h)
	}
	t.wait.Add(senders)
	for range senders {
		go t.send()
	}
	return t, nil
}

func newHTTPModel(m ModelInput) (httpModel, error) {
	type input struct {
		Name       string         `json:"name"`
		Datatype   string         `json:"datatype"`
		Shape      []int64        `json:"shape"`
		Parameters map[string]int `json:"parameters"`
	}
	h := httpModel{path: "/v2/models/" + m.Name + "/infer"}
	var inputs []input
	for _, t := range m.Inputs {
		inputs = append(inputs, input{t.Name, string(t.Type), t.Shape, map[string]int{"binary_data_size": len(t.Data)}})
		h.body = append(h.body, t.Data...)
	}
	text, err := json.Marshal(inputs)
	if err != nil {
		return h, err
	}
	h.heads[0] = []byte(`{"parameters":{"binary_data_output":true,"timeout":`)
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
		req.Header.Set("Content-Type", "application/octet-stream")
		req.Header.Set("Inference-Header-Content-Length", strconv.Itoa(head))
		req.SetBodyRaw(body)
		err := t.client.DoTimeout(req, resp, (budget + 2*mono.Second).Std())
		j.answer(t.read(resp, err))
	}
}

// read tells what the reply says.
func (t *HTTPTarget) read(resp *fasthttp.Response, err error) Answer {
	if err != nil {
		if errors.Is(err, fasthttp.ErrTimeout) {
			return Answer{Reason: "no_answer"}
		}
		return Answer{Reason: "connection"}
	}
	if resp.StatusCode() == 200 {
		return Answer{BatchSize: batchSize(resp)}
	}
	if why := resp.Header.Peek("X-Symphony-Reason"); len(why) > 0 {
		return Answer{Reason: string(why)}
	}
	return Answer{Reason: fmt.Sprintf("http_%d", resp.StatusCode())}
}

// batchSize finds the batch size in the reply's JSON without parsing it.
func batchSize(resp *fasthttp.Response) int {
	const key = `"batch_size":`
	body := resp.Body()
	at := bytes.Index(body, []byte(key))
	if at < 0 {
		return 0
	}
	n := 0
	for _, c := range body[at+len(key):] {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}
