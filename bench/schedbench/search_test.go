package schedbench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// A search that was interrupted does not claim the highest rate.
func TestSearchInterruptedSaysSo(t *testing.T) {
	f := Found{Loops: 1, GPUs: 64, Tried: []Tried{{Rate: 1e5, BadRate: 0.5}}}
	for interrupted, want := range map[bool]string{
		false: "Highest rate of 1 model loop(s) on 64 GPUs, tried:",
		true:  "Highest rate so far (the search was interrupted): 1 model loop(s) on 64 GPUs, tried:",
	} {
		var out bytes.Buffer
		f.Interrupted = interrupted
		if f.Print(&out); !strings.HasPrefix(out.String(), want) {
			t.Errorf("printed\n%swant %q", out.String(), want)
		}
	}
}

// Interrupted when it goes on to another rate, it keeps the first (which is tried twice if
// the machine pauses); before that there is nothing.
func TestSearchInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	plan := Plan{Search: true, Config: Config{Duration: 200 * mono.Millisecond, Warmup: 100 * mono.Millisecond}}
	first := ""
	plan.Tell = func(phase string, _ float64, _ string) {
		if first == "" {
			first = phase
		}
		if phase != first {
			cancel()
		}
	}
	r, err := Measure(ctx, plan)
	if err != nil || !r.Interrupted || len(r.Searches) != 1 || !r.Searches[0].Interrupted || len(r.Searches[0].Tried) == 0 || len(r.Searches[0].Tried) > 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := Measure(ctx, plan); !errors.Is(err, ErrNothing) || !strings.HasPrefix(err.Error(), "interrupted: ") {
		t.Errorf("interrupted before it began: %+v, %v", r, err)
	}
}
