package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/api/fakecontrol"
)

// ask makes a call of a handler, and returns its answer and body.
func ask(h http.Handler, method, path, body string, headers ...string) (*http.Response, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	resp := w.Result()
	b, _ := io.ReadAll(resp.Body)
	return resp, string(b)
}

// filled is a handler with model "m" in versions 1 and 2.
func filled(t *testing.T) (*api.Handler, *fakecontrol.Control) {
	t.Helper()
	f := &fakecontrol.Control{}
	for _, v := range []string{"1", "2"} {
		if _, err := f.PutVersion(t.Context(), "m", v, api.VersionSpec{Source: "file:///models/m"}); err != nil {
			t.Fatal(err)
		}
	}
	return api.New(f, api.Options{}), f
}

// badCall is a call that is refused.
type badCall struct {
	call, body string
	status     int
	field      string
	text       string
}

func badPlans() []badCall {
	const put = "PUT /v1/plan"
	part := func(text string) string {
		return `{"sub_clusters":[{"name":"a","device_type":"t","models":["m/1"],"gpus":1},` + text + `]}`
	}
	return []badCall{
		{put, ``, 400, "", "send JSON with sub_clusters"},
		{put, `{}`, 400, "sub_clusters", "0 of them"},
		{put, part(`{"name":"a","device_type":"t"}`), 400, "sub_clusters[1].name", "twice"},
		{put, part(`{"name":"","device_type":"t"}`), 400, "sub_clusters[1].name", "without a slash"},
		{put, part(`{"name":"/u","device_type":"t"}`), 400, "sub_clusters[1].name", "/t is the one"},
		{put, part(`{"name":"b","device_type":"t/u"}`), 400, "sub_clusters[1].device_type", "no device type"},
		{put, part(`{"name":"b","device_type":"t","gpus":-1}`), 400, "sub_clusters[1].gpus", "0 to 65536"},
		{put, part(`{"name":"b","device_type":"t","gpus":65536}`), 400, "sub_clusters", "65537 GPUs in all"},
		{put, part(`{"name":"b","device_type":"t","need":-1}`), 400, "sub_clusters[1].need", "must be 0 to"},
		{put, part(`{"name":"b","device_type":"t","models":["m/1"]}`), 400, "sub_clusters[1].models[0]", "in a already"},
		{put, part(`{"name":"b","device_type":"t","gpus":"two"}`), 400, "sub_clusters[1].gpus", "a text, want a whole number"},
		{put, part(`{"name":"b","device_type":"t","models":"n/1"}`), 400, "sub_clusters[1].models", "a text, want a list"},
		{put, part(`{"name":"b","device_type":"t","models":["n/1", 2]}`), 400, "sub_clusters[1].models[1]", "a number, want a text"},
		{put, part(`{"name":"b","device_type":"t","models":["n"]}`), 400, "sub_clusters[1].models[0]", "write NAME/VERSION"},
		{put, part(`{"name":"b","device_type":"t","models":["n/x"]}`), 400, "sub_clusters[1].models[0]", "whole number"},
		{put, part(`{"name":"b","device_type":"t","models":["x/1"]}`), 400, "sub_clusters[1].models[0]", "not in the catalogue"},
		{put, part(`{"name":"b","device_type":"t","model":["m/1"]}`), 400, "sub_clusters[1].model", "the nearest is models"},
		{put, `{"x":"` + strings.Repeat("x", api.PlanBodyMax) + `"}`, 413, "", "more than 8388608 bytes"},
	}
}

func badVersions() []badCall {
	const put = "PUT /v1/models/a/versions/1"
	long := strings.Repeat("x", 300)
	return []badCall{
		{put, ``, 400, "", "the body is empty: send JSON with source, digest"},
		{put, `{`, 400, "", "no JSON"},
		{put, `[]`, 400, "", "no JSON object"},
		{put, `{"source":"file:///m"} x`, 400, "", "no JSON"},
		{put, `{}`, 400, "source", "file:///models/resnet50"},
		{put, `{"source":7}`, 400, "source", "want a text"},
		{put, `{"source":"/models/m"}`, 400, "source", "write file:///models/m"},
		{put, `{"source":"http://h/m"}`, 400, "source", `scheme "http" is none of file, s3, gs, azblob`},
		{put, `{"source":"s3://user:secret@h/m"}`, 400, "source", "by their environment"},
		{put, `{"source":"file:///` + strings.Repeat("x", 2000) + `"}`, 400, "source", "at most 1024"},
		{put, `{"sorce":"file:///m"}`, 400, "sorce", "the nearest is source"},
		{put, `{"source":"file:///m","settings":{"slow":"5ms"}}`, 400, "settings.slow", "the nearest is slo"},
		{put, `{"source":"file:///m","settings":{"slo":"5"}}`, 400, "settings.slo", `like "50ms"`},
		{put, `{"source":"file:///m","settings":{"slo":50}}`, 400, "settings.slo", `a text like "50ms"`},
		{put, `{"source":"file:///m","settings":{"slo":"-5ms"}}`, 400, "settings.slo", "at most 1h"},
		{put, `{"source":"file:///m","settings":{"slo":"2h"}}`, 400, "settings.slo", "at most 1h"},
		{put, `{"source":"file:///m","settings":{"max_batch":2000}}`, 400, "settings.max_batch", "1 to 1024"},
		{put, `{"source":"file:///m","settings":{"max_batch":1.5}}`, 400, "settings.max_batch", "whole number"},
		{put, `{"source":"file:///m","settings":{"drop_policy":"tail"}}`, 400, "settings.drop_policy", "none of target, head"},
		{put, `{"source":"file:///m","settings":{"device_types":["a","a"]}}`, 400, "settings.device_types[1]", "twice"},
		{put, `{"source":"file:///m","settings":{"device_types":["a/b"]}}`, 400, "settings.device_types[0]", "no device type"},
		{put, `{"source":"file:///m","digest":"XYZ"}`, 400, "digest", "hexadecimal"},
		{put, `{"source":"file:///m","bytes":-1}`, 400, "bytes", "negative"},
		{put, `{"source":"` + strings.Repeat("x", api.BodyMax) + `"}`, 413, "", "more than 65536 bytes"},
		{"PUT /v1/models/a/versions/x", `{"source":"file:///m"}`, 400, "version", "whole number"},
		{"PUT /v1/models/a/versions/01", `{"source":"file:///m"}`, 400, "version", "zeros"},
		{"PUT /v1/models/a/versions/9223372036854775808", `{"source":"file:///m"}`, 400, "version", "9223372036854775807"},
		{"PUT /v1/models/.a/versions/1", `{"source":"file:///m"}`, 400, "name", "dot"},
		{"PUT /v1/models/a%2Fb/versions/1", `{"source":"file:///m"}`, 400, "name", "slash"},
		{"PUT /v1/models/a%00b/versions/1", `{"source":"file:///m"}`, 400, "name", "printed"},
		{"PUT /v1/models/%FF/versions/1", `{"source":"file:///m"}`, 400, "name", "printed"},
		{"PUT /v1/models/" + long + "/versions/1", `{"source":"file:///m"}`, 400, "name", "at most 256"},
	}
}

func badCalls() []badCall {
	const set = "PATCH /v1/models/m/settings"
	return []badCall{
		{set, `{}`, 400, "", "changes no setting"},
		{set, `{"slo":null}`, 400, "", "changes no setting"},
		{set, `{"maxbatch":1}`, 400, "maxbatch", "the nearest is max_batch"},
		{"PUT /v1/models/m/policy", `{"kind":"newest"}`, 400, "kind", "none of latest, all, listed"},
		{"PUT /v1/models/m/policy", `{"kind":"listed"}`, 400, "listed", "unload the model"},
		{"PUT /v1/models/m/policy", `{"kind":"all","listed":["1"]}`, 400, "listed", "of kind listed"},
		{"PUT /v1/models/m/policy", `{"kind":"listed","listed":["1","9"]}`, 400, "listed[1]", "it has 1, 2"},
		{"PUT /v1/models/m/policy", `{"kind":"listed","listed":["1","1"]}`, 400, "listed[1]", "twice"},
		{"PUT /v1/models/m/policy", `{"kind":"latest","latest":33}`, 400, "latest", "1 to 32"},
		{"PUT /v1/models/m/shares", `{"shares":[{"version":"1","weight":-1}]}`, 400, "shares[0].weight", "0 to 10000"},
		{"PUT /v1/models/m/shares", `{"shares":[{"version":"1","weight":9999},{"version":"2","weight":9999}]}`, 400, "shares", "sum is 19998"},
		{"PUT /v1/models/m/shares", `{"shares":[{"version":"1","weight":0}]}`, 400, "shares", "all weights are 0"},
		{"PUT /v1/models/m/shares", `{"shares":[{"version":"1","weight":1},{"version":"1","weight":1}]}`, 400, "shares[1].version", "twice"},
		{"PUT /v1/models/m/shares", `{"shares":[{"version":"1","wait":1}]}`, 400, "shares[0].wait", "there is no such field"},
		{"PUT /v1/models/m/shares", `{"shares":7}`, 400, "shares", "want a list"},
		{"PUT /v1/models/m/shares", `{"shares":[{"version":"7","weight":1}]}`, 400, "shares[0].version", "no version 7"},
		{"POST /v1/models/m/rollback", ``, 409, "", "nothing to roll back"},
		{"POST /v1/models/m/load", `{"policy":{"kind":"x"}}`, 400, "policy.kind", "none of"},
		{"GET /v1/models?limit=many", ``, 400, "limit", "whole number"},
		{"GET /v1/models?limit=1001", ``, 400, "limit", "at most 1000"},
		{"GET /v1/models?state=bad", ``, 400, "state", "none of"},
		{"GET /v1/models?stat=failed", ``, 400, "stat", "the nearest is state"},
		{"GET /v1/models?limit=1&limit=2", ``, 400, "limit", "twice"},
		{"GET /v1/models?%zz", ``, 400, "", "cannot be read"},
		{"GET /v1/models/m?wait=soon", ``, 400, "wait", "like 30s"},
		{"GET /v1/models/m?wait=1s&since=x", ``, 400, "since", "whole number"},
		{"GET /v1/models/m?since=1", ``, 400, "since", "goes with wait"},
		{"GET /v1/models/nobody", ``, 404, "", "nobody"},
		{"GET /v1/nothing", ``, 404, "", "no such path"},
		{"POST /v1/models/m", ``, 405, "", "only GET, DELETE"},
		{"POST /v1/plan/pause", `{"why":"` + strings.Repeat("x", 2000) + `"}`, 400, "why", "at most"},
	}
}

// What is wrong is refused with the field, and what to do; nothing of it reaches the Control.
func TestBadCalls(t *testing.T) {
	h, f := filled(t)
	for _, c := range slices.Concat(badVersions(), badPlans(), badCalls()) {
		before := f.Calls()["add"]
		method, path, _ := strings.Cut(c.call, " ")
		resp, body := ask(h, method, path, c.body)
		var e api.Error
		if err := json.Unmarshal([]byte(body), &e); err != nil || e.Kind == "" {
			t.Errorf("%s %.60s: %d %s: no error as JSON", c.call, c.body, resp.StatusCode, body)
		}
		if resp.StatusCode != c.status || e.Field != c.field || !strings.Contains(e.Msg, c.text) || e.Field != "" && !strings.HasPrefix(e.Msg, e.Field) {
			t.Errorf("%s %.60s: %d, field %q: %s; want %d, field %q, %q", c.call, c.body, resp.StatusCode, e.Field, e.Msg, c.status, c.field, c.text)
		}
		if f.Calls()["add"] != before {
			t.Errorf("%s %.60s: it reached the control plane", c.call, c.body)
		}
	}
}

// Strangers and web pages get nothing, whatever they ask.
func TestTokenAndOrigin(t *testing.T) {
	f := &fakecontrol.Control{}
	h := api.New(f, api.Options{Token: "secret"})
	for _, c := range []struct {
		headers []string
		status  int
	}{
		{nil, 401}, {[]string{"Authorization", "secret"}, 401}, {[]string{"Authorization", "Bearer guess"}, 401}, {[]string{"Authorization", "Basic secret"}, 401},
		{[]string{"Authorization", "Bearer secret"}, 200}, {[]string{"Authorization", "bearer secret"}, 200},
		{[]string{"Authorization", "Bearer secret", "Origin", "http://evil.example"}, 403},
	} {
		for _, path := range []string{"/v1/state", "/v1/models", "/v1/nothing"} {
			before := fmt.Sprint(f.Calls())
			resp, body := ask(h, "GET", path, "", c.headers...)
			if want := c.status; resp.StatusCode != want && (want != 200 || resp.StatusCode != 404) {
				t.Errorf("%v %s: %d %s, want %d", c.headers, path, resp.StatusCode, body, want)
			}
			if resp.StatusCode >= 401 && resp.StatusCode < 404 && fmt.Sprint(f.Calls()) != before {
				t.Errorf("%v %s reached the control plane", c.headers, path)
			}
			if resp.StatusCode == 401 && resp.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%v: no WWW-Authenticate", c.headers)
			}
		}
	}
	if resp, _ := ask(api.New(f, api.Options{}), "POST", "/v1/plan/apply", "", "Origin", "null"); resp.StatusCode != 403 {
		t.Errorf("a page's call without a token: %d", resp.StatusCode)
	}
}

// faulty is a Control with a bug.
type faulty struct{ api.Control }

func (faulty) Plan(context.Context) (api.Plan, error) { return api.Plan{}, errors.New("out of order") }

func (faulty) Diff(context.Context) (api.Diff, error) { panic("a bug") }

// What is a fault says so, is told of, and is not the caller's; what is away says when to try
// again.
func TestFaults(t *testing.T) {
	f := &fakecontrol.Control{}
	told := 0
	h := api.New(f, api.Options{Fault: func(string, error) { told++ }})
	f.SetAway(api.Away(2500*time.Millisecond, true, "etcd does not answer"))
	resp, body := ask(h, "GET", "/v1/plan", "")
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "3" || !strings.Contains(body, `"unknown":true`) || told != 0 {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
	if resp, body := ask(h, "GET", "/v1/state", ""); resp.StatusCode != 200 || !strings.Contains(body, `"away":true`) {
		t.Errorf("the state does without the store: %d %s", resp.StatusCode, body)
	}
	h = api.New(faulty{f}, api.Options{Fault: func(string, error) { told++ }})
	resp, body = ask(h, "GET", "/v1/plan", "")
	if resp.StatusCode != 500 || !strings.Contains(body, "out of order") || told != 1 {
		t.Errorf("%d %s, told %d times", resp.StatusCode, body, told)
	}
	resp, body = ask(h, "GET", "/v1/plan/diff", "")
	if resp.StatusCode != 500 || !strings.Contains(body, "a bug") || strings.Contains(body, "goroutine") || told != 2 {
		t.Errorf("a panic: %d %s, told %d times", resp.StatusCode, body, told)
	}
}

// What is taken can be sent on: it is taken again, and says the same.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"source":"file:///m"}`, `{"source":"s3://b/m","settings":{"slo":"50ms","max_batch":8,"device_types":["a"]},"digest":"0f000000000000000000000000000000"}`,
		`{"shares":[{"version":"1","weight":9}]}`, `{"kind":"listed","listed":["1"]}`, `{"slo":null}`, `{"settings":{"slo":{}}}`, `[]`, `{"source":"x`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		again[api.VersionSpec](t, body)
		again[api.Shares](t, body)
		again[api.Policy](t, body)
		again[api.Patch](t, body)
		again[api.LoadOrder](t, body)
	})
}

func again[T any, P interface {
	*T
	Check() error
}](t *testing.T, body []byte) {
	var first, second T
	if api.Decode(body, &first) != nil || P(&first).Check() != nil {
		return
	}
	b, err := json.Marshal(first)
	if err == nil {
		err = errors.Join(api.Decode(b, &second), P(&second).Check())
	}
	if err != nil {
		t.Fatalf("%s becomes %s: %v", body, b, err)
	}
	if c, _ := json.Marshal(second); string(b) != string(c) {
		t.Fatalf("%s becomes %s, and that %s", body, b, c)
	}
}

// A server that ends answers calls that wait: their minute is not waited for.
func TestShutdownEndsWaits(t *testing.T) {
	h, f := filled(t)
	f.SetHeld(true)
	m, err := f.Model(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := h.Server()
	go s.Serve(ln) //nolint:errcheck // it ends with Shutdown
	answered := make(chan error, 1)
	go func() {
		resp, err := http.Get(fmt.Sprintf("http://%s/v1/models/m?wait=60s&since=%d", ln.Addr(), m.Revision))
		if err == nil {
			err = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
		}
		answered <- err
	}()
	for end := time.Now().Add(20 * time.Second); f.Calls()["await"] == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("the server waits for calls that wait: %v", err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// Only so many calls wait at a time.
func TestWaitingIsBounded(t *testing.T) {
	_, f := filled(t)
	h := api.New(f, api.Options{Waiting: 1})
	f.Settle()
	m, err := f.Model(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/v1/models/m?wait=30s&since=%d", m.Revision)
	first := make(chan int, 1)
	go func() {
		resp, _ := ask(h, "GET", path, "")
		first <- resp.StatusCode
	}()
	for end := time.Now().Add(20 * time.Second); f.Calls()["await"] == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if resp, body := ask(h, "GET", path, ""); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("the second one: %d %s", resp.StatusCode, body)
	}
	if resp, _ := ask(h, "PUT", "/v1/models/m/policy", `{"kind":"all"}`); resp.StatusCode != 200 {
		t.Errorf("a call that does not wait: %d", resp.StatusCode)
	}
	if status := <-first; status != 200 {
		t.Errorf("the first one: %d", status)
	}
	if resp, _ := ask(h, "GET", "/v1/models/m?wait=1ms&since=0", ""); resp.StatusCode != 200 {
		t.Errorf("once there is room: %d", resp.StatusCode)
	}
}

func TestSpan(t *testing.T) {
	s := api.Settings{SLO: api.Span(50 * time.Millisecond)}
	b, err := json.Marshal(s)
	if err != nil || string(b) != `{"slo":"50ms"}` {
		t.Errorf("%s, %v", b, err)
	}
	var back api.Settings
	if err := api.Decode(b, &back); err != nil || back.SLO != s.SLO {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestErrorsAreKinds(t *testing.T) {
	err := fmt.Errorf("x: %w", api.Invalid("slo", "%d", 7))
	if !errors.Is(err, &api.Error{Kind: api.KindInvalid}) || errors.Is(err, &api.Error{Kind: api.KindConflict}) || err.Error() != "x: slo: 7" {
		t.Error(err)
	}
}

// A version is wanted by the policy, or by its share; nothing is of a model that is stopped.
func TestWanted(t *testing.T) {
	m := api.Model{Desired: api.Served, Policy: api.Policy{Kind: api.PolicyLatest}, Versions: []api.Version{{Version: "1"}, {Version: "2"}, {Version: "3"}}}
	wanted := func(want string) {
		t.Helper()
		got := ""
		for _, v := range []string{"1", "2", "3", "4"} {
			if m.Wanted(v) {
				got += v
			}
		}
		if got != want {
			t.Errorf("%+v: wanted are %q, want %q", m, got, want)
		}
	}
	wanted("3")
	m.Shares = []api.Share{{Version: "1", Weight: 9}, {Version: "2"}, {Version: "3", Weight: 1}}
	wanted("13")
	m.Policy = api.Policy{Kind: api.PolicyListed, Listed: []string{"2"}}
	wanted("123")
	m.Desired = api.Stopped
	wanted("")
}
