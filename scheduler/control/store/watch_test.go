package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// A watch begins with all there is, tells what is there last however often it changed, and
// goes on from a revision; one that etcd has forgotten gives all again.
func TestWatch(t *testing.T) {
	s, _ := open(t, Config{Ephemeral: true})
	ctx := limited(t)
	empty := s.Models.Watch(t.Context(), 0)
	if c, err := empty.Next(ctx); err != nil || !c.Whole || len(c.Changes) != 0 {
		t.Errorf("of nothing: %+v, %v", c, err)
	}
	for _, n := range []string{"b", "a"} {
		if _, err := s.Models.Create(ctx, model(n)); err != nil {
			t.Fatal(err)
		}
	}
	w := s.Models.Watch(t.Context(), 0)
	c, err := w.Next(ctx)
	if err != nil || !c.Whole || len(c.Changes) != 2 || c.Changes[0].ID != "a" || c.Changes[1].Value.Name != "b" {
		t.Fatalf("%+v, %v", c, err)
	}
	from := c.Revision
	for i := range 20 {
		if _, err := s.Models.Change(ctx, "a", func(m *schema.Model) error { m.Settings.MaxBatch = i + 1; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Models.Delete(ctx, "b", 0); err != nil {
		t.Fatal(err)
	}
	last := map[string]Change[schema.Model]{}
	told := 0
	for !last["b"].Gone || last["a"].Value.Settings.MaxBatch != 20 {
		if c, err = w.Next(ctx); err != nil || c.Whole {
			t.Fatalf("%+v, %v", c, err)
		}
		for _, one := range c.Changes {
			last[one.ID] = one
			told++
		}
	}
	if told > 21 {
		t.Errorf("21 changes were told as %d", told)
	}
	later := s.Models.Watch(t.Context(), from)
	if c, err := later.Next(ctx); err != nil || c.Whole || len(c.Changes) == 0 {
		t.Errorf("from a revision: %+v, %v", c, err)
	}
	if _, err := s.client.Compact(ctx, c.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	forgotten := s.Models.Watch(t.Context(), from)
	if c, err := forgotten.Next(ctx); err != nil || !c.Whole || len(c.Changes) != 1 || c.Changes[0].Value.Settings.MaxBatch != 20 {
		t.Errorf("from a forgotten revision: %+v, %v", c, err)
	}
}

// A taker that does not take makes nothing grow, and misses nothing that lasts.
func TestSlowTaker(t *testing.T) {
	s, _ := open(t, Config{Ephemeral: true})
	ctx := limited(t)
	w := s.Observed.Watch(t.Context(), 0)
	if _, err := w.Next(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		o := schema.Observation{Model: "m", Version: fmt.Sprint(i % 5), State: schema.Fetching, Done: int64(i)}
		if err := s.Observed.Write(ctx, []schema.Observation{o}, nil); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all has come", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.pending) > 5 {
			t.Fatalf("%d wait", len(w.pending))
		}
		return w.pending[schema.ID("m", "4")].Value.Done == 49
	})
	<-w.Ready()
	if c := w.Take(); len(c.Changes) != 5 || c.Changes[0].Value.Done != 45 {
		t.Errorf("%+v", c)
	}
}

// A watch ends with its context, or with the store.
func TestWatchEnds(t *testing.T) {
	s, err := Open(limited(t), Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	one, other := s.Models.Watch(ctx, 0), s.Models.Watch(t.Context(), 0)
	for _, w := range []*Watch[schema.Model]{one, other} {
		if _, err := w.Next(limited(t)); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if _, err := one.Next(limited(t)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := other.Next(limited(t)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// What somebody else wrote by hand and nobody can read does not hide the rest.
func TestUnreadable(t *testing.T) {
	s, log := open(t, Config{Ephemeral: true})
	ctx := limited(t)
	if _, err := s.Models.Create(ctx, model("good")); err != nil {
		t.Fatal(err)
	}
	w := s.Models.Watch(t.Context(), 0)
	if _, err := w.Next(ctx); err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"bad": "{", "other": `{"name":"else"}`, "a/b": `{}`} {
		if _, err := s.client.Put(ctx, s.Models.key(key), value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Models.Get(ctx, "bad"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
	if all, _, err := s.Models.All(ctx); err != nil || len(all) != 1 || all[0].ID != "good" {
		t.Errorf("%+v, %v", all, err)
	}
	gone := map[string]bool{}
	for len(gone) < 3 {
		c, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range c.Changes {
			if gone[one.ID] = true; !one.Gone {
				t.Errorf("%+v", one)
			}
		}
	}
	if log.count("cannot be read") < 3 {
		t.Error("not said")
	}
}

// A thousand documents that change are written in few transactions, each in its last state.
func TestWriter(t *testing.T) {
	s, _ := open(t, Config{Ephemeral: true})
	ctx := limited(t)
	before, err := s.client.Get(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	w := s.Observed.Writer(t.Context())
	for round := range 5 {
		for i := range 1000 {
			o := schema.Observation{Model: fmt.Sprint("m", i), Version: "1", State: schema.Fetching, Done: int64(round)}
			if err := w.Put(o); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Delete(schema.ID("m0", "1")); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	all, revision, err := s.Observed.All(ctx)
	if err != nil || len(all) != 999 || w.Waiting() != 0 {
		t.Errorf("%d documents, %v; %d wait", len(all), err, w.Waiting())
	}
	for _, e := range all {
		if e.Value.Done != 4 {
			t.Fatalf("%+v", e)
		}
	}
	if n := revision - before.Header.Revision; n > 60 {
		t.Errorf("5,000 changes took %d transactions", n)
	}
	if err := w.Put(schema.Observation{Model: "m", Version: "1"}); err == nil {
		t.Error("one without a state was taken")
	}
	w.Close()
	if err := w.Put(schema.Observation{Model: "m", Version: "1", State: schema.Idle}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// Ten thousand models, which is the limit, are written, listed and watched; one more is
// refused. How long that takes is printed.
func TestTenThousandModels(t *testing.T) {
	s, _ := open(t, Config{Ephemeral: true})
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	w := s.Models.Watch(t.Context(), 0)
	if _, err := w.Next(ctx); err != nil {
		t.Fatal(err)
	}
	all := make([]schema.Model, schema.ModelsMax)
	for i := range all {
		all[i] = model(fmt.Sprintf("model-%05d", i))
	}
	began := time.Now()
	if err := s.Models.Write(ctx, all, nil); err != nil {
		t.Fatal(err)
	}
	wrote := time.Since(began)
	seen := map[string]bool{}
	for len(seen) < len(all) {
		c, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range c.Changes {
			seen[one.ID] = true
		}
	}
	watched := time.Since(began)
	began = time.Now()
	listed, _, err := s.Models.All(ctx)
	if err != nil || len(listed) != len(all) {
		t.Fatalf("%d, %v", len(listed), err)
	}
	t.Logf("%d models: written in %v, all watched after %v, listed in %v", len(all), wrote, watched, time.Since(began))
	var full *FullError
	if _, err := s.Models.Create(ctx, model("one more")); !errors.As(err, &full) {
		t.Errorf("%v", err)
	}
}
