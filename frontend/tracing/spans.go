package tracing

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Whose spans there are.
const (
	ofFrontend = iota
	ofScheduler
	ofBackend
	services
)

// request makes the spans of a batch of records. (TracesData has the fields of OTLP's
// ExportTraceServiceRequest.) wall and now are the same instant, on both clocks.
func (t *Tracer) request(batch []Record, wall int64, now mono.Time) *trace.TracesData {
	m := &maker{t: t, wall: wall, now: now}
	for i := range batch {
		m.tree(&batch[i])
	}
	m.told()
	var out trace.TracesData
	for who, name := range [services]string{"symphony-frontend", "symphony-scheduler", "symphony-backend"} {
		if len(m.spans[who]) == 0 {
			continue
		}
		about := []*common.KeyValue{text("service.name", name), text("service.version", t.cfg.Version)}
		if who == ofFrontend {
			about = append(about, text("service.instance.id", t.cfg.Name))
		} else {
			about = append(about, text("symphony.told_by", t.cfg.Name)) // it does not trace itself
		}
		out.ResourceSpans = append(out.ResourceSpans, &trace.ResourceSpans{Resource: &resource.Resource{Attributes: about},
			ScopeSpans: []*trace.ScopeSpans{{Scope: &common.InstrumentationScope{Name: "symphony", Version: t.cfg.Version}, Spans: m.spans[who]}}})
	}
	return &out
}

// maker turns records into spans.
type maker struct {
	t     *Tracer
	wall  int64
	now   mono.Time
	spans [services][]*trace.Span
	order []*batchSpan
	named map[batchKey]*batchSpan
}

type batchKey struct {
	epoch wire.Epoch
	batch wire.BatchID
}

// batchSpan is a batch that is told of for the first time, and the requests that were in it.
type batchSpan struct {
	key   batchKey
	of    *Record
	links []*trace.Span_Link
}

// unix is an instant as OTLP has it.
func (m *maker) unix(at mono.Time) uint64 { return uint64(m.wall - int64(m.now.Sub(at))) }

func (m *maker) span(who int, c *Context, id, parent []byte, name string, from, to mono.Time, more ...*common.KeyValue) *trace.Span {
	s := &trace.Span{TraceId: c.Trace[:], SpanId: id, ParentSpanId: parent, Name: name, Kind: trace.Span_SPAN_KIND_INTERNAL, Flags: 1,
		StartTimeUnixNano: m.unix(from), EndTimeUnixNano: m.unix(max(from, to)), Attributes: more}
	m.spans[who] = append(m.spans[who], s)
	return s
}

// tree makes a request's spans.
func (m *maker) tree(r *Record) {
	var parent []byte
	if r.Parent != [8]byte{} {
		parent = r.Parent[:]
	}
	root := m.span(ofFrontend, &r.Context, r.Span[:], parent, strings.ToValidUTF8(r.Method+" "+r.Route, "\uFFFD"), r.Began, r.Ended, r.attributes()...)
	root.Kind = trace.Span_SPAN_KIND_SERVER
	if r.Refused {
		root.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR, Message: r.Reason}
	}
	if r.BatchSize == 0 {
		return
	}
	at := r.inOrder()
	child := func(who int, name string, from, to mono.Time, more ...*common.KeyValue) *trace.Span {
		return m.span(who, &r.Context, randomID(), r.Span[:], name, from, to, more...)
	}
	child(ofFrontend, "preprocess", r.Began, at.Submitted)
	child(ofScheduler, "queue", at.Submitted, at.Ordered)
	child(ofBackend, "fetch", at.Ordered, at.Ready)
	run := child(ofBackend, "execute", at.Start, at.End, number("symphony.batch_size", int64(r.BatchSize)), number("symphony.gpu", int64(r.GPU)))
	child(ofFrontend, "reply", at.End, r.Ended)
	if r.Epoch != 0 {
		m.link(r, run)
	}
}

// inOrder are the record's times, each not before the one before it, and none beyond the request: what the
// backend read on its own clock came over a link that knows that clock's offset only so well.
func (r *Record) inOrder() frontend.Times {
	t, last := r.Times, r.Began
	for _, at := range []*mono.Time{&t.Arrival, &t.Submitted, &t.Ordered, &t.Ready, &t.Start, &t.End, &t.Answered} {
		*at = max(last, min(*at, r.Ended))
		last = *at
	}
	return t
}

// attributes are those of the request.
func (r *Record) attributes() []*common.KeyValue {
	out := []*common.KeyValue{text("symphony.model", r.Model), text("symphony.version", r.Version)}
	if r.Protocol == "http" {
		out = append(out, text("http.request.method", r.Method), text("http.route", r.Route), number("http.response.status_code", int64(r.Status)))
	} else {
		out = append(out, text("rpc.system", r.Protocol), text("rpc.method", r.Method), number("rpc.grpc.status_code", int64(r.Status)))
	}
	if r.Reason != "" {
		out = append(out, text("symphony.reason", r.Reason))
	}
	if r.BatchSize > 0 {
		out = append(out, number("symphony.request", int64(r.Request)), number("symphony.slack_us", r.Slack.Microseconds()))
	}
	if r.Items > 1 {
		out = append(out, number("symphony.items", int64(r.Items)))
	}
	return out
}

// link ties an execution to its batch, and the batch to it where that is not told of yet.
func (m *maker) link(r *Record, run *trace.Span) {
	key := batchKey{r.Epoch, r.Batch}
	traceID, spanID := key.ids(m.t.instance)
	run.Links = append(run.Links, &trace.Span_Link{TraceId: traceID, SpanId: spanID, Flags: 1, Attributes: []*common.KeyValue{text("symphony.link", "batch")}})
	b := m.named[key]
	if b == nil {
		if !m.t.batches.add(key) {
			return // an earlier request to the collector had it
		}
		if m.named == nil {
			m.named = map[batchKey]*batchSpan{}
		}
		b = &batchSpan{key: key, of: r}
		m.named[key], m.order = b, append(m.order, b)
	}
	b.links = append(b.links, &trace.Span_Link{TraceId: run.TraceId, SpanId: run.SpanId, Flags: 1, Attributes: []*common.KeyValue{text("symphony.link", "request")}})
}

// told makes the spans of the batches.
func (m *maker) told() {
	for _, b := range m.order {
		traceID, spanID := b.key.ids(m.t.instance)
		var c Context
		copy(c.Trace[:], traceID)
		r := b.of
		s := m.span(ofBackend, &c, spanID, nil, "batch", r.Times.Ordered, r.Times.End, text("symphony.model", r.Model), text("symphony.version", r.Version),
			number("symphony.batch_size", int64(r.BatchSize)), number("symphony.gpu", int64(r.GPU)), number("symphony.epoch", int64(b.key.epoch)), number("symphony.batch", int64(b.key.batch)))
		s.Links = b.links
	}
}

// ids of a batch's trace and of the span of it that a frontend tells: the trace's are the same
// at all frontends.
func (k batchKey) ids(instance uint64) (traceID, spanID []byte) {
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], uint64(k.epoch))
	binary.LittleEndian.PutUint64(b[8:], uint64(k.batch))
	h := fnv.New128a()
	h.Write(b[:16])
	traceID = h.Sum(nil)
	binary.LittleEndian.PutUint64(b[16:], instance)
	h64 := fnv.New64a()
	h64.Write(b[:])
	return traceID, h64.Sum(nil)
}

// recentBatches remembers which batches were told of lately: requests of one batch may come to the
// collector one after the other.
type recentBatches struct {
	there map[batchKey]bool
	ring  []batchKey
	next  int
}

// recentMax is how many are remembered.
const recentMax = 1024

// add reports whether the batch is new.
func (r *recentBatches) add(k batchKey) bool {
	if r.there[k] {
		return false
	}
	if r.there == nil {
		r.there = map[batchKey]bool{}
	}
	if len(r.ring) < recentMax {
		r.ring = append(r.ring, k)
	} else {
		delete(r.there, r.ring[r.next])
		r.ring[r.next] = k
		r.next = (r.next + 1) % recentMax
	}
	r.there[k] = true
	return true
}

func randomID() []byte { return binary.LittleEndian.AppendUint64(nil, rand.Uint64()|1) }

// text is an attribute. Strangers' texts (a model's name in a path) may be no UTF-8, which a string
// of protobuf must be.
func text(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(value, "\uFFFD")}}}
}

func number(key string, value int64) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: value}}}
}
