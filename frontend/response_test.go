package frontend

import (
	"context"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/frontend/arena"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// replier answers every request with the same bytes, and makes no garbage.
func replier() func(*cluster, transport.Link, transport.Link, wire.Submit) {
	var frame []byte
	payload := make([]byte, 16)
	return func(_ *cluster, _, data transport.Link, s wire.Submit) {
		m := wire.Output{Request: s.Request, BatchSize: 3, Start: mono.Now()}
		frame = m.Append(frame[:0], len(payload))
		_ = data.SendPayload(frame, payload, nil)
	}
}

// Promise 4: who releases its responses has inferences without garbage.
func TestInferenceDoesNotAllocate(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("instrumented builds allocate")
	}
	c := newCluster(t)
	c.onSubmit = replier()
	noGarbage(t, c.dial(nil), echo(1))
	a, b := twoSchedulers(t, []catalog.Entry{entryOf(0, "one", "1", 4)}, []catalog.Entry{entryOf(0, "two", "1", 4), entryOf(1, "one", "1", 4)})
	a.onSubmit, b.onSubmit = replier(), replier()
	both := dialBoth(a, b, nil)
	noGarbage(t, both, ask("one", "", 4, 1))
	noGarbage(t, both, ask("two", "1", 4, 1))
	group := groupOf(t, loopback.New(), "m", "a", "b")
	group[0].onSubmit = replier()
	noGarbage(t, dialGroups(t, nil, group), ask("m", "", 4, 1))
}

func noGarbage(t *testing.T, client *Client, q Request) {
	t.Helper()
	ctx := context.Background()
	infer := func() {
		r, err := client.Infer(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		r.Release()
	}
	for range 100 {
		infer()
	}
	if n := testing.AllocsPerRun(2000, infer); n != 0 {
		t.Errorf("an inference allocates %v times", n)
	}
}

// A response that is kept is not touched by later ones; one that is released is
// used again, and releasing it twice at once does no harm.
func TestRelease(t *testing.T) {
	c := newCluster(t)
	client := c.dial(nil)
	kept, err := client.Infer(context.Background(), echo(7))
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(kept.Outputs[0].Data)
	for i := range 100 {
		r, err := client.Infer(context.Background(), echo(byte(i)))
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(r.Outputs[0].Data, want) != (i == 7) {
			t.Fatalf("request %d has the outputs of another", i)
		}
		r.Release()
		r.Release()
		if r.Outputs != nil {
			t.Fatal("a released response still has outputs")
		}
	}
	if !slices.Equal(kept.Outputs[0].Data, want) {
		t.Error("a response that was not released has changed")
	}
}

// An output too large for a response to hold unasked finds its call, too, and
// one that nobody waits for harms nobody.
func TestLargeOutput(t *testing.T) {
	c := newCluster(t)
	large := c.doc.Entries[1]
	large.ID, large.Spec.Name, large.Spec.Outputs = 4, "large", vector(3*smallOutput/4)
	c.doc.Entries = append(c.doc.Entries, large)
	payload := make([]byte, 3*smallOutput)
	c.onSubmit = func(_ *cluster, _, data transport.Link, s wire.Submit) {
		output(data, s.Request^1<<30, payload)
		output(data, s.Request, payload)
	}
	client := c.dial(nil)
	q := echo(1)
	q.Model = "large"
	for range 3 {
		r, err := client.Infer(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Outputs[0].Data) != len(payload) {
			t.Errorf("%d bytes of output", len(r.Outputs[0].Data))
		}
		r.Release()
	}
	if n := client.arena.Used(); n != 0 {
		t.Errorf("%d slabs in use, of at most %d bytes", n, arena.Largest)
	}
}

// A response says that its batch waited for the model's weights; one that is used again does not.
func TestColdResponse(t *testing.T) {
	c := newCluster(t)
	cold := true
	c.onSubmit = func(_ *cluster, _, data transport.Link, s wire.Submit) {
		m := wire.Output{Request: s.Request, BatchSize: 1, Start: mono.Now()}
		if cold {
			m.Flags = wire.OutputCold
		}
		payload := make([]byte, 16)
		_ = data.SendPayload(m.Append(nil, len(payload)), payload, nil)
	}
	client := c.dial(nil)
	for range 4 {
		r, err := client.Infer(context.Background(), echo(1))
		if err != nil {
			t.Fatal(err)
		}
		if r.Cold != cold {
			t.Errorf("cold %v, want %v", r.Cold, cold)
		}
		cold = !cold
		r.Release()
	}
}
