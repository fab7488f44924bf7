package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// Whoever changes a model sees the change, also where what became of the model, which is newer, is
// heard of first.
func TestWrittenIsSeen(t *testing.T) {
	c := &Controller{ctx: t.Context(), view: newView(t.Context(), nil)}
	model := func(revision int64, desired schema.Desired) store.Change[schema.Model] {
		return store.Change[schema.Model]{ID: schema.ID("m"), Revision: revision, Value: schema.Model{Name: "m", Desired: desired}}
	}
	c.view.setModel(model(5, schema.Served))
	c.view.setObserved(store.Change[schema.Observation]{ID: schema.ID("m", "1"), Revision: 9, Value: schema.Observation{Model: "m", Version: "1"}})
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if m, err := c.written(soon, "m", 7); !errors.Is(err, &api.Error{Kind: api.KindAway}) {
		t.Errorf("before it is seen: %+v, %v", m, err)
	}
	c.view.setModel(model(7, schema.Stopped))
	if m, err := c.written(t.Context(), "m", 7); err != nil || m.Desired != api.Stopped {
		t.Errorf("%+v, %v", m, err)
	}
}
