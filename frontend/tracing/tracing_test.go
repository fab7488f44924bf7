package tracing

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	parentTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentSpan  = "00f067aa0ba902b7"
	parent      = "00-" + parentTrace + "-" + parentSpan + "-01"
)

// served is a request that a backend answered: from 1 ms to 9 ms of a second ago.
func served(c Context, batch wire.BatchID) Record {
	base := mono.Now().Add(-mono.Second)
	at := func(ms int) mono.Time { return base.Add(mono.Dur(ms) * mono.Millisecond) }
	return Record{Context: c, Protocol: "http", Method: "POST", Route: "infer", Model: "m", Version: "2", Status: 200, Began: at(0), Ended: at(10),
		Request: 77, Items: 1, BatchSize: 3, GPU: 5, Epoch: 1 << 60, Batch: batch, Slack: time.Millisecond,
		Times: frontend.Times{Arrival: at(1), Submitted: at(2), Ordered: at(5), Ready: at(6), Start: at(7), End: at(8), Answered: at(9)}}
}

// TestTree: a request's spans are one tree below the caller's, each of its service, in their order, and
// its execution is linked to the batch, and the batch to it.
func TestTree(t *testing.T) {
	c := newCollector(t)
	tr := tracer(t, c, func(cfg *Config) { cfg.Headers = map[string]string{"Authorization": "Bearer x"} })
	ctx := tr.Begin([]byte(parent))
	r := served(ctx, 9)
	tr.End(&r)
	tr.Close()
	all := c.all()
	if len(all) != 7 || c.header.Get("Authorization") != "Bearer x" {
		t.Fatalf("%d spans, %v", len(all), c.header)
	}
	root := named(all, "POST infer")[0]
	if hex.EncodeToString(root.TraceId) != parentTrace || hex.EncodeToString(root.ParentSpanId) != parentSpan || !bytes.Equal(root.SpanId, ctx.Span[:]) || root.Kind.String() != "SPAN_KIND_SERVER" ||
		value(root.Attributes, "http.response.status_code").GetIntValue() != 200 || value(root.Attributes, "symphony.model").GetStringValue() != "m" || root.Status != nil {
		t.Errorf("%v", root)
	}
	last := root.StartTimeUnixNano
	for _, want := range []struct{ name, service string }{{"preprocess", "symphony-frontend"}, {"queue", "symphony-scheduler"}, {"fetch", "symphony-backend"}, {"execute", "symphony-backend"}, {"reply", "symphony-frontend"}} {
		s := named(all, want.name)[0]
		if s.service != want.service || !bytes.Equal(s.TraceId, root.TraceId) || !bytes.Equal(s.ParentSpanId, root.SpanId) || len(s.SpanId) != 8 {
			t.Errorf("%s: %s %v", want.name, s.service, s)
		}
		if s.StartTimeUnixNano < last || s.EndTimeUnixNano < s.StartTimeUnixNano || s.EndTimeUnixNano > root.EndTimeUnixNano {
			t.Errorf("%s: %d to %d, after %d", want.name, s.StartTimeUnixNano, s.EndTimeUnixNano, last)
		}
		last = s.EndTimeUnixNano
	}
	if took := root.EndTimeUnixNano - root.StartTimeUnixNano; took < uint64(9*time.Millisecond) || took > uint64(11*time.Millisecond) {
		t.Errorf("the root took %d ns", took)
	}
	if began, now := time.Unix(0, int64(root.StartTimeUnixNano)), time.Now(); now.Sub(began) < 900*time.Millisecond || now.Sub(began) > time.Minute {
		t.Errorf("it began at %v, now is %v", began, now)
	}
	run, batch := named(all, "execute")[0], named(all, "batch")[0]
	if len(run.Links) != 1 || !bytes.Equal(run.Links[0].TraceId, batch.TraceId) || !bytes.Equal(run.Links[0].SpanId, batch.SpanId) ||
		len(batch.Links) != 1 || !bytes.Equal(batch.Links[0].TraceId, run.TraceId) || !bytes.Equal(batch.Links[0].SpanId, run.SpanId) ||
		bytes.Equal(batch.TraceId, run.TraceId) || batch.service != "symphony-backend" || value(batch.Attributes, "symphony.batch").GetIntValue() != 9 {
		t.Errorf("%v\n%v", run, batch)
	}
}

// TestClocksThatDiffer: times of a backend whose clock is known badly are put in order, within the request.
func TestClocksThatDiffer(t *testing.T) {
	for _, off := range []mono.Dur{-mono.Second, -4 * mono.Millisecond, 0, 4 * mono.Millisecond, mono.Second} {
		r := served(Context{}, 1)
		for _, at := range []*mono.Time{&r.Times.Ordered, &r.Times.Ready, &r.Times.Start, &r.Times.End} {
			*at = at.Add(off)
		}
		got := r.inOrder()
		last := r.Began
		for i, at := range []mono.Time{got.Arrival, got.Submitted, got.Ordered, got.Ready, got.Start, got.End, got.Answered, r.Ended} {
			if at < last {
				t.Errorf("off by %v: %d is at %v, before %v", off, i, at, last)
			}
			last = at
		}
		if off == 0 && got != r.Times {
			t.Errorf("%+v became %+v", r.Times, got)
		}
	}
}

// TestRefusedHasAReason: what has no output is one span, an error that says why.
func TestRefusedHasAReason(t *testing.T) {
	c := newCollector(t)
	tr := tracer(t, c, nil)
	ctx := tr.Begin(nil)
	tr.End(&Record{Context: ctx, Protocol: "grpc", Method: "ModelInfer", Route: "infer", Model: "bad\xff\xfename", Status: 8, Reason: "shed", Refused: true, Began: 1, Ended: 2})
	tr.Close()
	all := c.all()
	if len(all) != 1 || all[0].Status.GetMessage() != "shed" || all[0].Status.GetCode().String() != "STATUS_CODE_ERROR" || all[0].ParentSpanId != nil ||
		value(all[0].Attributes, "rpc.system").GetStringValue() != "grpc" || value(all[0].Attributes, "symphony.model").GetStringValue() != "bad\uFFFDname" {
		t.Errorf("%v", all)
	}
}

// TestBatchesAreToldOnce: one span a batch, with links to all of its requests that come together; later ones
// link to it still. Another frontend's view of it is in the same trace.
func TestBatchesAreToldOnce(t *testing.T) {
	c := newCollector(t)
	tr, err := prepare(Config{Endpoint: c.server.URL, Share: 1}) // not running: what comes together is said here
	if err != nil {
		t.Fatal(err)
	}
	defer tr.http.CloseIdleConnections()
	export := func(batches ...wire.BatchID) {
		var records []Record
		for _, batch := range batches {
			records = append(records, served(tr.Begin(nil), batch))
		}
		tr.export(records)
	}
	export(1, 1, 1, 2)
	export(1)
	all := c.all()
	links := map[int64]int{}
	for _, b := range named(all, "batch") {
		links[value(b.Attributes, "symphony.batch").GetIntValue()] += len(b.Links)
	}
	if len(named(all, "batch")) != 2 || links[1] != 3 || links[2] != 1 || len(named(all, "execute")) != 5 {
		t.Errorf("%d batches, links %v", len(named(all, "batch")), links)
	}
	for _, run := range named(all, "execute") {
		if len(run.Links) != 1 {
			t.Errorf("%v", run)
		}
	}
	key := batchKey{5, 6}
	trace1, span1 := key.ids(1)
	trace2, span2 := key.ids(2)
	other, _ := batchKey{5, 7}.ids(1)
	if !bytes.Equal(trace1, trace2) || bytes.Equal(span1, span2) || bytes.Equal(trace1, other) {
		t.Error("batches' ids")
	}
	old := served(Context{Trace: [16]byte{1}, Span: [8]byte{1}}, 0)
	old.Epoch = 0 // of a backend that does not tell of batches
	if got := tr.request([]Record{old}, 0, 0); strings.Contains(got.String(), "batch\" ") || len(got.ResourceSpans) != 3 {
		t.Errorf("%v", got)
	}
}

// TestRecentBatchesAreBounded.
func TestRecentBatchesAreBounded(t *testing.T) {
	var r recentBatches
	for i := range 3 * recentMax {
		if !r.add(batchKey{1, wire.BatchID(i)}) || r.add(batchKey{1, wire.BatchID(i)}) {
			t.Fatal(i)
		}
	}
	if len(r.there) != recentMax || len(r.ring) != recentMax {
		t.Errorf("%d, %d", len(r.there), len(r.ring))
	}
}

func TestTraceparent(t *testing.T) {
	for text, want := range map[string]string{
		parent: "sampled", parent[:53] + "00": "not", parent[:53] + "03": "sampled", "cc" + parent[2:] + "-what": "sampled", "cc" + parent[2:]: "sampled",
		"": "", "00": "", "ff" + parent[2:]: "", parent + "-more": "", "cc" + parent[2:] + "x": "", strings.ToUpper(parent): "", parent[:53] + "0g": "",
		"00-00000000000000000000000000000000-" + parentSpan + "-01": "", "00-" + parentTrace + "-0000000000000000-01": "", strings.Replace(parent, "-", "_", 1): "",
	} {
		c, sampled, ok := parse([]byte(text))
		got := map[bool]string{true: map[bool]string{true: "sampled", false: "not"}[sampled]}[ok]
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if ok && (hex.EncodeToString(c.Trace[:]) != parentTrace || hex.EncodeToString(c.Parent[:]) != parentSpan) {
			t.Errorf("%q: %+v", text, c)
		}
	}
	c, _, _ := parse([]byte(parent))
	c.Span = [8]byte{0xab, 7: 0x01}
	if got := string(c.AppendTraceparent(nil)); got != "00-"+parentTrace+"-ab00000000000001-01" {
		t.Error(got)
	}
}

func FuzzTraceparent(f *testing.F) {
	f.Add([]byte(parent))
	f.Add([]byte("cc" + parent[2:] + "-x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, _, ok := parse(text)
		if ok != c.Sampled() {
			t.Errorf("%q: %v, %+v", text, ok, c)
		}
		if c.Span = c.Parent; ok && !bytes.Equal(c.AppendTraceparent(nil)[2:52], text[2:52]) {
			t.Errorf("%q becomes %q", text, c.AppendTraceparent(nil))
		}
	})
}

// TestSampling: exactly the share, evenly; callers decide for themselves, up to the rate.
func TestSampling(t *testing.T) {
	c := newCollector(t)
	count := func(tr *Tracer, header string, n int) (sampled int) {
		seen := map[Context]bool{}
		for range n {
			if ctx := tr.Begin([]byte(header)); ctx.Sampled() {
				sampled++
				seen[ctx] = true
			}
		}
		if len(seen) != sampled {
			t.Errorf("%d of %d ids are alike", sampled-len(seen), sampled)
		}
		return sampled
	}
	for share, want := range map[float64]int{0: 0, 0.01: 10, 0.5: 500, 1: 1000} {
		tr := tracer(t, c, func(cfg *Config) { cfg.Share = share })
		if n := count(tr, "", 1000); n != want {
			t.Errorf("share %g: %d of 1000", share, n)
		}
		if n := count(tr, "no traceparent", 1000); n != want {
			t.Errorf("share %g: %d of 1000 with a wrong header", share, n)
		}
		if n := count(tr, parent, 100); n != 100 {
			t.Errorf("share %g: %d of 100 that callers sampled", share, n)
		}
		if n := count(tr, parent[:53]+"00", 100); n != 0 {
			t.Errorf("share %g: %d of 100 that callers did not sample", share, n)
		}
	}
	limited := tracer(t, c, func(cfg *Config) { cfg.Rate = 5 })
	if n := count(limited, parent, 1000); n < 5 || n+int(limited.overRate.Load()) != 1000 {
		t.Errorf("%d of 1000, %d over the rate", n, limited.overRate.Load())
	}
}

// TestNoGarbage: a request that is not sampled costs no memory, nor does one that is, where it is asked for.
func TestNoGarbage(t *testing.T) {
	none := &Tracer{cfg: Config{Share: 0, Rate: 100}}
	few := &Tracer{cfg: Config{Share: 1e-9, Rate: 100}}
	all := &Tracer{cfg: Config{Share: 1}, records: make(chan Record, 1)}
	header, unsampled := []byte(parent), []byte(parent[:53]+"00")
	r := served(Context{Trace: [16]byte{1}}, 1)
	for name, f := range map[string]func(){
		"share 0": func() { none.Begin(nil) }, "not this one": func() { few.Begin(nil) }, "the caller does not want it": func() { none.Begin(unsampled) },
		"sampled": func() { all.Begin(nil) }, "the caller wants it": func() { all.Begin(header) }, "told": func() { all.End(&r) },
	} {
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if all.lost.Load() == 0 {
		t.Error("a full queue was not counted")
	}
}

// TestCollectorThatFails: what it refuses for a while is sent again; what it refuses for good is lost, counted,
// and said once, and once that it is taken again.
func TestCollectorThatFails(t *testing.T) {
	c := newCollector(t)
	partial := protowire.AppendTag(nil, 1, protowire.VarintType)
	partial = protowire.AppendString(protowire.AppendTag(protowire.AppendVarint(partial, 3), 2, protowire.BytesType), "too old")
	answers := []struct {
		status int
		body   []byte
	}{{503, nil}, {200, nil}, {400, []byte("no")}, {200, protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)}, {200, nil}}
	c.answer = func(post int) (int, []byte) {
		a := answers[min(post, len(answers))-1]
		return a.status, a.body
	}
	said := make(chan error, 9)
	registry := prometheus.NewRegistry()
	tr := tracer(t, c, func(cfg *Config) { cfg.Failed, cfg.Metrics = func(err error) { said <- err }, registry })
	send := func(posts int) {
		r := served(tr.Begin(nil), 1)
		tr.End(&r)
		wait(t, func() bool { return c.count() == posts })
	}
	send(2) // 503, then taken
	wait(t, func() bool { return tr.exported.Load() == 1 })
	send(3)
	if err := <-said; err == nil || !strings.Contains(err.Error(), "400") {
		t.Error(err)
	}
	send(4)
	send(5)
	if err := <-said; err != nil {
		t.Error(err)
	}
	tr.Close()
	if tr.exported.Load() != 2 || tr.lost.Load() != 2 || len(said) != 0 {
		t.Errorf("%d exported, %d lost", tr.exported.Load(), tr.lost.Load())
	}
	if err := rejected(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)); err == nil || !strings.Contains(err.Error(), "3 spans: too old") {
		t.Error(err)
	}
	for _, odd := range [][]byte{nil, {}, {0xff}, {0x0a}, {0x0a, 0x05, 1}, []byte("text")} {
		if err := rejected(odd); err != nil {
			t.Errorf("%x: %v", odd, err)
		}
	}
}

// TestNobodyCollects: requests do not wait, the queue is bounded, and Close ends.
func TestNobodyCollects(t *testing.T) {
	c := newCollector(t)
	c.server.Close()
	tr := tracer(t, c, nil)
	const n = 3 * recordsMax
	for range n {
		r := served(tr.Begin(nil), 1)
		tr.End(&r)
	}
	tr.Close()
	tr.Close()
	if tr.exported.Load() != 0 || tr.lost.Load() != n {
		t.Errorf("%d exported, %d lost of %d", tr.exported.Load(), tr.lost.Load(), n)
	}
}

// TestSilentCollector: Close ends the attempt under way, and begins no other once its time is over; all that
// was not taken is counted as lost, and it is said why.
func TestSilentCollector(t *testing.T) {
	var posts atomic.Int64
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		posts.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // only then a client that goes is seen
		<-r.Context().Done()
	}))
	defer silent.Close()
	said := make(chan error, 9)
	tr, err := Open(Config{Endpoint: silent.URL, Share: 1, Failed: func(err error) { said <- err }})
	if err != nil {
		t.Fatal(err)
	}
	const n = 6 * batchMax
	for range n {
		r := served(tr.Begin(nil), 1)
		tr.End(&r)
	}
	wait(t, func() bool { return posts.Load() == 1 })
	tr.Close()
	if posts.Load() != 1 || tr.exported.Load() != 0 || tr.lost.Load() != n {
		t.Errorf("%d posts, %d exported, %d lost of %d", posts.Load(), tr.exported.Load(), tr.lost.Load(), n)
	}
	if err := <-said; !errors.Is(err, errEnd) || len(said) != 0 {
		t.Errorf("said %v, and %d more", err, len(said))
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, cfg := range []Config{{Endpoint: "collector:4318"}, {Endpoint: "grpc://x:4317"}, {Endpoint: "http://"}, {Endpoint: "http://x\x7f"}, {Endpoint: "http://x:1", Share: 2}, {Endpoint: "http://x:1", Rate: -1}} {
		if tr, err := Open(cfg); err == nil {
			tr.Close()
			t.Errorf("%+v was taken", cfg)
		}
	}
	registry := prometheus.NewRegistry()
	tr, err := Open(Config{Endpoint: "http://127.0.0.1:1/some/path", Metrics: registry})
	if err != nil || tr.url != "http://127.0.0.1:1/some/path" {
		t.Fatal(tr, err)
	}
	defer tr.Close()
	var already prometheus.AlreadyRegisteredError
	if _, err := Open(Config{Endpoint: "http://127.0.0.1:1", Metrics: registry}); !errors.As(err, &already) {
		t.Error(err)
	}
}
