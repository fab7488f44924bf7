package ingress

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/accesslog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// TestAccessLog: each request has its line, with what it asked for and what became of it; a line has
// nothing of the request before on the same connection.
func TestAccessLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l, err := accesslog.Open(accesslog.Config{Path: path, Share: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{AccessLog: l})
	const body = `{"id":"mine","inputs":[{"name":"x","datatype":"INT32","shape":[2,3],"data":[1,2,3,4,5,6]}]}`
	s.want(s.do("POST", "/v2/models/echo-INT32/infer", body), 200, `"mine"`)
	s.want(s.do("GET", "/v2/health/live", ""), 200, "live")
	s.want(s.do("GET", "/v2", ""), 200, "symphony")
	s.want(s.do("GET", "/v2/models/digits/nothing", ""), 404, "no such path")
	s.want(s.do("POST", "/v2/models/nope/infer", body), 404, "unknown model")
	s.want(s.do("POST", "/v2/models/echo-INT32/versions/1/infer", "{"), 400, "error")
	s.fake.failWith(reason(frontend.ErrDropped, wire.ReasonShed))
	s.want(s.do("POST", "/v2/models/echo-INT32/infer", body), 429, "dropped")
	s.fake.failWith(nil)
	s.want(s.do("POST", "/v1/classify/digits?k=1", "\x89PNG"), 200, "one")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	for line := range strings.Lines(string(text)) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if !strings.HasPrefix(m["client"].(string), "127.0.0.1:") || m["total_us"].(float64) < 0 || m["protocol"] != "http" {
			t.Errorf("%v", m)
		}
		got = append(got, m)
	}
	want := []map[string]any{
		{"method": "POST", "route": "infer", "model": "echo-INT32", "version": "1", "id": "mine", "status": 200.0, "batch_size": 4.0, "gpu": 2.0, "queue_us": 3000.0,
			"slack_us": -2000.0, "received": float64(len(body)), "reason": nil},
		{"method": "GET", "route": "server_metadata", "model": nil, "id": nil, "status": 200.0, "batch_size": nil},
		{"method": "GET", "route": "none", "model": nil, "status": 404.0, "reason": "not_found"},
		{"route": "infer", "model": "nope", "id": nil, "status": 404.0, "reason": "unknown_model"},
		{"route": "infer", "model": "echo-INT32", "version": "1", "id": nil, "status": 400.0, "reason": "bad_request"},
		{"route": "infer", "model": "echo-INT32", "version": nil, "id": "mine", "status": 429.0, "reason": "shed", "batch_size": nil},
		{"route": "classify", "model": "digits", "version": "1", "id": nil, "status": 200.0, "execute_us": 5000.0},
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines:\n%s", len(got), text)
	}
	for i := range want {
		for key, value := range want[i] {
			if got[i][key] != value {
				t.Errorf("line %d, %s: %v, want %v", i, key, got[i][key], value)
			}
		}
	}
}
