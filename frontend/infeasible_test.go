package frontend

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// The refusal of a request that can never be in time has both numbers; that of one that might have been in time has not.
func TestInfeasibleIsSaid(t *testing.T) {
	models := testModels()
	for i := range models.Entries {
		s := &models.Entries[i].Spec
		s.SLO, s.Profile = 2*mono.Second, catalog.Profile{Alpha: 100 * mono.Millisecond, Beta: 2900 * mono.Millisecond}
	}
	c := newClusterAt(t, loopback.New(), "inproc:scheduler", models)
	c.onSubmit = func(_ *cluster, control, _ transport.Link, m wire.Submit) {
		answer(control, m.Request, wire.ReasonDeadline)
	}
	client := c.dial(nil)
	for timeout, want := range map[time.Duration][]string{
		0:               {"one item takes 3s", "SLO of 2s", "raise slo", "longer timeout"},
		time.Second:     {"one item takes 3s", "it had 1s", "longer timeout"},
		4 * time.Second: {"it could no longer make its deadline"},
	} {
		q := echo(1)
		q.Timeout = timeout
		_, err := client.Infer(context.Background(), q)
		for _, text := range want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("timeout %v: %q is missing in %v", timeout, text, err)
			}
		}
		if !errors.Is(err, ErrDropped) || !errors.Is(err, ErrDeadlineExceeded) {
			t.Errorf("timeout %v: %v is of another kind", timeout, err)
		}
	}
}

// Likewise of items that are asked for together.
func TestInfeasibleTogether(t *testing.T) {
	spec := &catalog.ModelSpec{SLO: 100 * mono.Millisecond, MaxBatch: 8, Profile: catalog.Profile{Alpha: 20 * mono.Millisecond, Beta: 10 * mono.Millisecond}}
	dropped := reasonError("m", wire.ReasonDeadline)
	for _, c := range []struct {
		err     error
		items   int
		timeout time.Duration
		want    string
	}{
		{dropped, 4, 0, "could no longer"},
		{dropped, 6, 0, "a batch of 6 items takes 130ms, more than its SLO of 100ms: ask for fewer items"},
		{dropped, 100, 0, "a batch of 8 items takes 170ms"},
		{dropped, 4, 50 * time.Millisecond, "a batch of 4 items takes 90ms, and it had 50ms"},
		{reasonError("m", wire.ReasonFull), 100, 0, "queue is full"},
	} {
		if err := Together(c.err, spec, c.items, c.timeout); !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d items in %v: %v, want %q", c.items, c.timeout, err, c.want)
		}
	}
	if strings.Contains(dropped.Msg, "items") {
		t.Error("the error of others was changed")
	}
	if Together(nil, spec, 100, 0) != nil {
		t.Error("an error where there is none")
	}
}
