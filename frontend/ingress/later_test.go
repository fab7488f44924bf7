package ingress

import (
	"strconv"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// full demands an answer of what is full, and returns when to come back: from so many milliseconds on to twice that, the
// same in whole seconds, rounded up.
func (s *server) full(a answer, least int) int {
	s.t.Helper()
	ms, err := strconv.Atoi(a.header.Get("Retry-After-Ms"))
	if seconds := strconv.Itoa((ms + 999) / 1000); a.status != 429 || err != nil || ms < least || ms > 2*least || a.header.Get("Retry-After") != seconds {
		s.t.Errorf("%d, headers %v, want 429, and %d to %d ms", a.status, a.header, least, 2*least)
	}
	return ms
}

// When to come back is once to twice what served requests of the model took lately, and where none was served its
// SLO, but never at once; both in whole seconds and in milliseconds. Not all are told the same.
func TestRetryAfter(t *testing.T) {
	s := start(t, Config{})
	ask := func(least int) {
		t.Helper()
		told := map[int]bool{}
		for range 32 {
			a := s.do("POST", "/v2/models/flat/infer", flatJSON)
			s.want(a, 429, "Exceeds maximum queue size")
			told[s.full(a, least)] = true
		}
		if len(told) == 1 {
			t.Errorf("all come back after %v ms", told)
		}
	}
	s.fake.failWith(reason(frontend.ErrDropped, wire.ReasonShed))
	ask(250) // the SLO is less
	s.fake.failWith(reason(frontend.ErrOverloaded, wire.ReasonFull))
	ask(250)
	flat, err := s.fake.Model("flat", "1")
	if err != nil {
		t.Fatal(err)
	}
	s.Record(&flat.Spec, []*frontend.Response{{Total: 2_300*time.Millisecond + 1}})
	ask(2301)
	for _, c := range []struct {
		model, version string
		want           time.Duration
	}{
		{"flat", "1", 2_300*time.Millisecond + 1}, {"flat", "", 2_300*time.Millisecond + 1}, {"", "", 2_300*time.Millisecond + 1},
		{"two", "1", 100 * time.Millisecond}, {"nobody", "", pause},
	} {
		if got := s.after(c.model, c.version); got != c.want {
			t.Errorf("%q %q: after %v, want %v", c.model, c.version, got, c.want)
		}
	}
}

// The mean follows what comes last, begins anew after a silence, and says nothing where nothing came.
func TestTook(t *testing.T) {
	var k took
	if k.now() != 0 {
		t.Errorf("%v of nothing", k.now())
	}
	k.add(16 * time.Millisecond)
	k.add(32 * time.Millisecond)
	if k.now() != 17*time.Millisecond {
		t.Errorf("%v after 16 and 32 ms, want 17", k.now())
	}
	k.last.Store(int64(mono.Now().Add(-tookKept - mono.Second)))
	if k.now() != 0 {
		t.Errorf("%v after a silence", k.now())
	}
	k.add(time.Millisecond)
	if k.now() != time.Millisecond {
		t.Errorf("%v, want the first one after a silence", k.now())
	}
}
