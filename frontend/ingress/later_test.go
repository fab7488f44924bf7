package ingress

import (
	"testing"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// When to come back is what served requests of the model took lately, and where none was served its SLO; both in
// whole seconds and in milliseconds.
func TestRetryAfter(t *testing.T) {
	s := start(t, Config{})
	ask := func(want string) {
		t.Helper()
		a := s.do("POST", "/v2/models/flat/infer", `{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4]}]}`)
		s.want(a, 429, "Exceeds maximum queue size")
		if got := a.header.Get("Retry-After") + " " + a.header.Get("Retry-After-Ms"); got != want {
			t.Errorf("come back after %q, want %q", got, want)
		}
	}
	s.fake.failWith(reason(frontend.ErrDropped, wire.ReasonShed))
	ask("1 100") // the SLO
	s.fake.failWith(reason(frontend.ErrOverloaded, wire.ReasonFull))
	ask("1 100")
	flat, err := s.fake.Model("flat", "1")
	if err != nil {
		t.Fatal(err)
	}
	s.Record(&flat.Spec, []*frontend.Response{{Total: 2_300*time.Millisecond + 1}}, nil)
	ask("3 2301")
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
