package frontend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A reservation serves one inference after the other, and what is given up is free.
func TestReserve(t *testing.T) {
	client := newCluster(t).dial(nil)
	var r Reservation
	for i := range 3 {
		if err := client.Reserve(&r, "echo", ""); err != nil {
			t.Fatal(err)
		}
		want := bytes.Repeat([]byte{byte(i)}, 16)
		if n := copy(r.Input, want); n != 16 || len(r.Input) != 16 {
			t.Fatalf("room for %d bytes", len(r.Input))
		}
		got, err := client.InferReserved(context.Background(), &r, 0)
		if err != nil || !bytes.Equal(got.Outputs[0].Data, want) || got.BatchSize != 3 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if _, err := client.InferReserved(context.Background(), &r, 0); !errors.Is(err, ErrBadInput) {
		t.Errorf("used up: %v", err)
	}
	if err := client.Reserve(&r, "echo", "1"); err != nil {
		t.Fatal(err)
	}
	client.Release(&r)
	client.Release(&r)
	allFree(t, client)
}

// What cannot be taken is refused at once: by Reserve where the model or the arena says
// so, by InferReserved where the table, the scheduler or the deadline does. No slab stays.
func TestReserveRefused(t *testing.T) {
	c := newCluster(t)
	texts := c.doc.Entries[1]
	texts.ID, texts.Spec.Name, texts.Spec.Inputs = 4, "texts", []catalog.TensorSpec{{Name: "x", Type: catalog.Bytes, Shape: []int64{1}}}
	large := c.doc.Entries[1]
	large.ID, large.Spec.Name, large.Spec.Inputs = 5, "large", vector(1<<18)
	c.doc.Entries = append(c.doc.Entries, texts, large)
	client := c.dial(func(o *Options) { o.ArenaBytes = 1 << 20 })
	var r Reservation
	for name, want := range map[string]error{"nobody": ErrUnknownModel, "away": ErrUnavailable, "texts": ErrBadInput} {
		if err := client.Reserve(&r, name, ""); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if err := client.Reserve(&r, "texts", ""); !strings.Contains(fmt.Sprint(err), `its input "x" is BYTES, which is not served`) {
		t.Errorf("a model of text: %v", err)
	}
	if err := client.Reserve(&r, "large", ""); err != nil {
		t.Fatal(err)
	}
	if err := client.Reserve(new(Reservation), "large", ""); !errors.Is(err, ErrOverloaded) {
		t.Errorf("full arena: %v", err)
	}
	client.Release(&r)
	allFree(t, client)
}

// The table, the scheduler's ring and the deadline.
func TestInferReservedRefused(t *testing.T) {
	c := newCluster(t)
	c.onSubmit = func(_ *cluster, control, _ transport.Link, m wire.Submit) {
		answer(control, m.Request, wire.ReasonFull)
	}
	client := c.dial(func(o *Options) { o.MaxInFlight = 1 })
	ask := func(ctx context.Context, timeout time.Duration) error {
		t.Helper()
		var r Reservation
		if err := client.Reserve(&r, "echo", ""); err != nil {
			t.Fatal(err)
		}
		_, err := client.InferReserved(ctx, &r, timeout)
		return err
	}
	var e *Error
	if err := ask(t.Context(), 0); !errors.Is(err, ErrOverloaded) || !errors.As(err, &e) || e.Reason != wire.ReasonFull {
		t.Errorf("full ring: %v", err)
	}
	if err := ask(t.Context(), 2*time.Hour); !errors.Is(err, ErrBadInput) {
		t.Errorf("long timeout: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ask(ctx, 0); !errors.Is(err, ErrCancelled) {
		t.Errorf("cancelled: %v", err)
	}
	client.mu.Lock()
	id, _, _ := client.table.Add(mono.Never)
	client.mu.Unlock()
	if err := ask(t.Context(), 0); !errors.Is(err, ErrOverloaded) {
		t.Errorf("full table: %v", err)
	}
	client.mu.Lock()
	client.table.Take(id)
	client.mu.Unlock()
	client.draining.Store(true)
	if err := client.Reserve(new(Reservation), "echo", ""); !errors.Is(err, ErrUnavailable) {
		t.Errorf("draining: %v", err)
	}
	allFree(t, client)
}
