package controller

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/api/fakecontrol"
	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/transport/loopback"
)

// Every call of the API, on a real store, with no scheduler.
func TestSuite(t *testing.T) {
	fakecontrol.Suite(t, func(t *testing.T) api.Control { return newController(t) })
}

// newController is one on a store of its own, with no scheduler.
func newController(t *testing.T) *Controller {
	s, err := store.Open(t.Context(), store.Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Name: "c", Store: s, Network: loopback.New(), Schedulers: []string{"inproc:nobody"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
