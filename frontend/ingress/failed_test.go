package ingress

import (
	"errors"
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
