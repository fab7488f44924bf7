package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// campaign runs one in the background.
func campaign(t *testing.T, s *Store, name string) <-chan *Lead {
	t.Helper()
	won := make(chan *Lead, 1)
	ctx := limited(t)
	go func() {
		lead, err := s.Campaign(ctx, schema.Leader{Name: name, Address: name + ":1"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		won <- lead
	}()
	return won
}

// One leads at a time. Who resigns is followed at once; what it writes afterwards is refused.
func TestLead(t *testing.T) {
	near, far, _, _, _ := pair(t)
	ctx := limited(t)
	if _, err := near.Leader(ctx); !errors.Is(err, ErrNotFound) {
		t.Errorf("nobody leads: %v", err)
	}
	first := <-campaign(t, near, "near")
	second := campaign(t, far, "far")
	select {
	case <-second:
		t.Fatal("two lead")
	case <-time.After(200 * time.Millisecond):
	}
	if who, err := far.Leader(ctx); err != nil || who.Name != "near" || who.Address != "near:1" {
		t.Errorf("%+v, %v", who, err)
	}
	o := schema.Observation{Model: "m", Version: "1", State: schema.Idle}
	if err := near.Observed.Write(ctx, []schema.Observation{o}, nil, first.Guard()); err != nil {
		t.Error(err)
	}
	first.Resign()
	lead := <-second
	if cause := context.Cause(first.Context()); !errors.Is(cause, ErrNotLeading) {
		t.Error(cause)
	}
	if err := near.Observed.Write(ctx, []schema.Observation{o}, nil, first.Guard()); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a deposed leader wrote: %v", err)
	}
	if _, err := near.Models.Create(ctx, model("m"), first.Guard()); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a deposed leader created: %v", err)
	}
	w := near.Observed.Writer(t.Context(), first.Guard())
	if err := w.Put(o); err != nil {
		t.Error(err)
	}
	if err := w.Flush(ctx); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a deposed leader's writer: %v", err)
	}
	if _, err := near.Models.Create(ctx, model("m"), lead.Guard()); err != nil {
		t.Errorf("a guard may be another process's: %v", err)
	}
	// Somebody takes the key away by hand.
	if _, err := near.client.Delete(ctx, near.leaderKey()); err != nil {
		t.Fatal(err)
	}
	<-lead.Context().Done()
	if cause := context.Cause(lead.Context()); !errors.Is(cause, ErrNotLeading) || !strings.Contains(cause.Error(), "deleted") {
		t.Error(cause)
	}
}

// A leader that etcd does not hear from knows that it does not lead before another one does.
func TestLeadIsLostInTime(t *testing.T) {
	t.Parallel()
	near, far, net, _, _ := pair(t)
	lead := <-campaign(t, far, "far")
	next := campaign(t, near, "near")
	net.set(true, false)
	select {
	case <-lead.Context().Done():
	case <-next:
		t.Fatal("two lead")
	case <-time.After(patience):
		t.Fatal("nobody noticed")
	}
	if cause := context.Cause(lead.Context()); !errors.Is(cause, ErrNotLeading) {
		t.Error(cause)
	}
	if l := <-next; l == nil {
		t.Fatal("nobody follows")
	}
	net.set(false, false)
	if err := far.Await(limited(t)); err != nil {
		t.Error(err)
	}
	if _, err := far.Models.Create(limited(t), model("m"), lead.Guard()); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a deposed leader wrote: %v", err)
	}
}

// A leader that is killed is replaced when its lease has ended; a campaign ends with its
// context.
func TestKilledLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	near, _ := open(t, Config{Ephemeral: true, Listen: "127.0.0.1:0"})
	ctx := limited(t)
	kill := child(t, childLeader+"="+near.Endpoint())
	until(t, "the child leads", func() bool { who, err := near.Leader(ctx); return err == nil && who.Name == "child" })
	brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := near.Campaign(brief, schema.Leader{Name: "near"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beside a leader: %v", err)
	}
	next := campaign(t, near, "near")
	kill()
	if lead := <-next; lead == nil {
		t.Fatal("nobody follows")
	}
	if who, err := near.Leader(ctx); err != nil || who.Name != "near" {
		t.Errorf("%+v, %v", who, err)
	}
}
