package catalog

import (
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

func TestInfeasible(t *testing.T) {
	m := ModelSpec{SLO: 20 * mono.Millisecond, Profile: Profile{Alpha: mono.Millisecond, Beta: 19 * mono.Millisecond}}
	if why := m.Infeasible(); why != "" {
		t.Errorf("20 ms of 20: %s", why)
	}
	m.Profile.Table = []mono.Dur{51234567, 60 * mono.Millisecond}
	if why := m.Infeasible(); !strings.Contains(why, "51.2ms") || !strings.Contains(why, "20ms") {
		t.Errorf("51 ms of 20: %q", why)
	}
	for b, want := range map[int]mono.Dur{1: 51234567, 2: 60 * mono.Millisecond, 9: 60 * mono.Millisecond} {
		if got := m.Profile.Of(b); got != want {
			t.Errorf("a batch of %d takes %v, want %v", b, got, want)
		}
	}
	for d, want := range map[mono.Dur]string{0: "0s", 7: "7ns", 1234: "1.23µs", 51234567: "51.2ms", 20 * mono.Millisecond: "20ms", 1500 * mono.Millisecond: "1.5s"} {
		if got := Span(d); got != want {
			t.Errorf("%d ns is written %s, want %s", d, got, want)
		}
	}
}
