package ingress

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// countingInferrer is a client that counts what protocols refuse.
type countingInferrer struct {
	Inferrer
	bad []string
}

func (c *countingInferrer) CountBadInput(model, version string) {
	c.bad = append(c.bad, model+"/"+version)
}

// A request that fails is counted once, with its time; what the protocol refused by itself is counted as
// bad_input, and what the client has refused is the client's to count.
func TestFailedRequestsAreCounted(t *testing.T) {
	c := &countingInferrer{}
	s := &Server{stats: newStatistics(c)}
	s.cfg.Client = c
	spec := &catalog.ModelSpec{Name: "m", Version: "1"}
	began := mono.Now().Add(-mono.Dur(time.Second))
	s.Failed(spec, nil, began, false)
	s.Failed(spec, badRequest("no JSON"), began, true)
	if m := s.stats.of(spec); m.fail.count != 0 || len(c.bad) != 0 {
		t.Fatalf("%d failed, %v bad, want none", m.fail.count, c.bad)
	}
	s.Failed(spec, badRequest("no JSON"), began, false)
	s.Failed(spec, &frontend.Error{Kind: frontend.ErrBadInput}, began, false)
	s.Failed(spec, errors.New("internal"), began, false)
	m := s.stats.of(spec)
	if m.fail.count != 3 || m.fail.total < 3*time.Second {
		t.Errorf("%d failed in %v, want 3 in 3 s or more", m.fail.count, m.fail.total)
	}
	if len(c.bad) != 1 || c.bad[0] != "m/1" {
		t.Errorf("bad inputs of %v, want m/1 once", c.bad)
	}
}

// A body that is refused is a failed request of its model, with its time.
func TestRefusedBodiesAreInTheStatistics(t *testing.T) {
	s := start(t, Config{})
	for _, body := range []string{"", "{", `{"inputs":[{"name":"y","shape":[2,3],"datatype":"UINT8","data":[1,2,3,4,5,6]}]}`} {
		s.want(s.do("POST", "/v2/models/echo-UINT8/infer", body), 400, "")
	}
	got := s.do("GET", "/v2/models/echo-UINT8/stats", "")
	s.want(got, 200, `"fail":{"count":3,"ns":`)
	if strings.Contains(string(got.body), `"fail":{"count":3,"ns":0}`) {
		t.Errorf("three failed requests took no time: %s", got.body)
	}
}

// leaving is a client whose model is refused only from the fifth look on, and a repository that takes orders.
type leaving struct {
	Inferrer
	Repository
	looks int
}

func (l *leaving) Unload(context.Context, string) error { return nil }

func (l *leaving) Model(name, _ string) (catalog.Entry, error) {
	if l.looks++; l.looks >= 5 {
		return catalog.Entry{}, errors.New("not found")
	}
	return catalog.Entry{Spec: catalog.ModelSpec{Name: name}, Ready: true}, nil
}

// An unload is answered when requests are refused.
func TestUnloadWaitsUntilRequestsAreRefused(t *testing.T) {
	l := &leaving{}
	s := &Server{ending: t.Context()}
	s.cfg.Client, s.cfg.Repository, s.cfg.IndexTimeout = l, l, time.Minute
	if err := s.unloadModel("m"); err != nil {
		t.Fatal(err)
	}
	if l.looks != 5 {
		t.Errorf("answered after %d looks, want 5", l.looks)
	}
}

// Chunk sizes that others may read otherwise end the connection: nothing that follows is answered.
func TestNothingFollowsDoubtfulChunks(t *testing.T) {
	s := start(t, Config{})
	for name, chunks := range map[string]string{
		"a space before an extension": "2 ;a=b\r\n{}\r\n0\r\n\r\n",
		"0x":                          "0x2\r\n{}\r\n0\r\n\r\n",
		"a sign":                      "+2\r\n{}\r\n0\r\n\r\n",
		"a line feed alone":           "2\n{}\r\n0\r\n\r\n",
		"a line feed in an extension": "2;a\nb\r\n{}\r\n0\r\n\r\n",
		"a size beyond 64 bits":       "10000000000000002\r\n{}\r\n0\r\n\r\n",
		"a space after a size":        "2 \r\n{}\r\n0\r\n\r\n",
		"a tab after a size":          "2\t\r\n{}\r\n0\r\n\r\n",
		"an extension of 1 MiB":       "2;" + strings.Repeat("a", 1<<20) + "\r\n{}\r\n0\r\n\r\n",
		"nothing doubtful":            "2\r\n{}\r\n0\r\n\r\n",
	} {
		got := exchangeRaw(t, s.address, "POST /v2/models/echo-UINT8/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks+
			"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if n := strings.Count(got, "HTTP/1.1 "); n != 1 {
			t.Errorf("%s: %d answers, want 1: %.400q", name, n, got)
		}
	}
}
