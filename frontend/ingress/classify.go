package ingress

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/ingress/oip"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// class is one entry of a ranking.
type class struct {
	Label       string  `json:"label"`
	Index       int     `json:"index"`
	Probability float64 `json:"probability"`
}

// verdict is the reply of the people's route.
type verdict struct {
	Model       string  `json:"model"`
	Version     string  `json:"version"`
	Label       string  `json:"label"`
	Probability float64 `json:"probability"`
	Top         []class `json:"top"`
	LatencyMS   float64 `json:"latency_ms"`
	QueueMS     float64 `json:"queue_ms"`
	ExecuteMS   float64 `json:"execute_ms"`
	SlackMS     float64 `json:"slack_ms"` // left until the deadline; negative: late
	BatchSize   int     `json:"batch_size"`
	GPU         int     `json:"gpu"`
}

// classify serves POST /v1/classify/M: an image to labels.
func (s *Server) classify(x *exchange) (err error) {
	if err := s.Enter(); err != nil {
		return err
	}
	defer s.Leave()
	s.sample(x)
	entry, err := s.chosen(x)
	if err != nil {
		return err
	}
	spec, counted := &entry.Spec, false
	defer func() { s.Failed(spec, err, x.began, counted) }()
	k, timeout, err := x.options(spec)
	switch {
	case err != nil:
		return err
	case len(x.ctx.Request.Header.MultipartFormBoundary()) > 0:
		return &refusal{status: 415, reason: "bad_request", msg: "Content-Type multipart/form-data is not supported: send the image alone, for example with curl --data-binary @image.png"}
	case len(spec.Outputs) == 0:
		return badRequest("model %s has no output to rank", spec.Name)
	}
	labels, err := s.Labels(spec)
	if err != nil {
		return err
	}
	labelled := spec.Version
	body, err := s.body(x)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return badRequest("the body is empty: send a PNG or JPEG, for example with curl --data-binary @image.png")
	}
	if _, err := s.Settle(x.model, x.version, spec); err != nil {
		return err
	}
	r := frontend.Request{Model: spec.Name, Version: spec.Version, Any: x.version == "", Image: body, Timeout: timeout, Trace: x.trace.Trace, Source: x.ctx.ConnID()}
	if cap(x.buffer) > keepMax { // would not be kept: the client need not copy it
		r.ImageGiven, x.buffer = true, nil
	}
	s.Asked(spec, x.version, timeout.Microseconds(), 1)
	r.ID = &s.await(x, x.began, 1)[0]
	defer x.over()
	answer, err := s.cfg.Client.Infer(context.Background(), r)
	x.answers = append(x.answers[:0], answer)
	if err != nil {
		return err
	}
	spec.Version = answer.Version
	counted = s.Record(spec, x.answers)
	x.outcome.Take(x.answers)
	if x.ctx.QueryArgs().GetBool("details") {
		x.ctx.Response.Header.Set(requestHeader, IDs(x.answers))
	}
	if spec.Version != labelled { // another one answered
		if labels, err = s.Labels(spec); err != nil {
			return err
		}
	}
	if len(answer.Outputs) == 0 {
		return &refusal{status: 500, reason: "execution", msg: "the backend sent no output"}
	}
	top := rank(&answer.Outputs[0], k, labels)
	if len(top) == 0 {
		return &refusal{status: 500, reason: "execution", msg: "the backend sent an empty output"}
	}
	return x.json(200, verdict{Model: spec.Name, Version: spec.Version, Label: top[0].Label, Probability: top[0].Probability, Top: top,
		LatencyMS: ms(answer.Total), QueueMS: ms(answer.Queue), ExecuteMS: ms(answer.Execute), SlackMS: ms(answer.Slack),
		BatchSize: answer.BatchSize, GPU: answer.GPU})
}

// options reads ?k= and ?timeout_ms=.
func (x *exchange) options(spec *catalog.ModelSpec) (k int, timeout time.Duration, err error) {
	k = 3
	if text := x.ctx.QueryArgs().Peek("k"); text != nil {
		if k, err = strconv.Atoi(string(text)); err != nil || k < 1 {
			return 0, 0, badRequest("k: %q must be a number of 1 or more", text)
		}
	}
	if text := x.ctx.QueryArgs().Peek("timeout_ms"); text != nil {
		v, err := strconv.ParseFloat(string(text), 64)
		if err != nil || !(v > 0 && v <= float64(time.Hour/time.Millisecond)) {
			return 0, 0, badRequest("timeout_ms: %q must be above 0 and at most %d", text, time.Hour/time.Millisecond)
		}
		timeout = time.Duration(v * float64(time.Millisecond))
	}
	return k, timeout, nil
}

func ms(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }

// values reads a tensor of numbers.
func values(t *frontend.Tensor) []float64 {
	size := t.Type.Size()
	if size <= 0 {
		return nil
	}
	out := make([]float64, 0, len(t.Data)/size)
	for b := t.Data; len(b) >= size; b = b[size:] {
		out = append(out, oip.Value(t.Type, b))
	}
	return out
}

// best is the indices of the k highest values, the highest first; of equal
// ones the first. NaN comes last.
func best(v []float64, k int) []int {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(v[b], v[a]) })
	return order[:min(k, len(order))]
}

// rank makes the ranking of an output: what does not look like probabilities
// is taken for logits.
func rank(t *frontend.Tensor, k int, labels []string) []class {
	v := values(t)
	p := probabilities(v)
	top := make([]class, 0, k%1024)
	for _, i := range best(v, k) {
		top = append(top, class{Label: label(labels, i), Index: i, Probability: p[i]})
	}
	return top
}

func label(labels []string, i int) string {
	if i < len(labels) {
		return labels[i]
	}
	return strconv.Itoa(i)
}

// probabilities leaves values that are none below 0 and sum to 1 as they are,
// and applies the softmax to all else.
func probabilities(v []float64) []float64 {
	sum, highest, negative := 0.0, math.Inf(-1), false
	for _, x := range v {
		sum += x
		highest = max(highest, x)
		negative = negative || x < 0
	}
	if !negative && math.Abs(sum-1) < 1e-3 {
		return v
	}
	p := make([]float64, len(v))
	sum = 0
	for i, x := range v {
		p[i] = math.Exp(x - highest)
		sum += p[i]
	}
	for i := range p {
		if p[i] /= sum; math.IsNaN(p[i]) {
			p[i] = 0 // JSON has no NaN
		}
	}
	return p
}

// labelsTime is how long a model's labels may take to come, the first time.
const labelsTime = time.Second

// Labels are the names of the model's classes; nil where it has none.
func (s *Server) Labels(spec *catalog.ModelSpec) ([]string, error) {
	if spec.LabelsID == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), labelsTime)
	defer cancel()
	all, err := s.cfg.Client.Labels(ctx, spec.Name, spec.Version)
	if errors.Is(err, frontend.ErrUnknownModel) { // it has gone since it was chosen: its answers have indices
		return nil, nil
	}
	return all, err
}

// label has the model's labels at hand where an output is asked for as classes.
func (s *Server) label(x *exchange, spec *catalog.ModelSpec) (err error) {
	x.labels = nil
	for i := range x.wanted {
		if x.wanted[i].classes > 0 {
			x.labels, err = s.Labels(spec)
			return err
		}
	}
	return nil
}

// Classes is the classification extension: the k highest as BYTES elements
// "value:index" or "value:index:label".
func Classes(t *frontend.Tensor, k int, labels []string) []byte {
	var out []byte
	v := values(t)
	for _, i := range best(v, k) {
		from := len(out)
		out = strconv.AppendFloat(append(out, 0, 0, 0, 0), v[i], 'f', 6, 64)
		out = strconv.AppendInt(append(out, ':'), int64(i), 10)
		if i < len(labels) {
			out = append(append(out, ':'), labels[i]...)
		}
		binary.LittleEndian.PutUint32(out[from:], uint32(len(out)-from-4))
	}
	return out
}

// json answers with a document.
func (x *exchange) json(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	x.ctx.SetStatusCode(status)
	x.ctx.SetContentType("application/json")
	x.ctx.SetBody(b)
	return nil
}
