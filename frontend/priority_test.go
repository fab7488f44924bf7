package frontend

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// submitsOf has each request served, and hands on what its frontend submitted.
func submitsOf(c *cluster) <-chan wire.Submit {
	submits := make(chan wire.Submit, 1)
	c.onSubmit = func(c *cluster, _, data transport.Link, m wire.Submit) {
		submits <- m
		c.serve(data, m)
	}
	return submits
}

// A request's class goes to the scheduler with it, whichever way it is asked for; without a timeout best effort waits for an hour, and another class is refused.
func TestClass(t *testing.T) {
	c := newCluster(t)
	submits := submitsOf(c)
	client := c.dial(nil)
	for i, ask := range []func(wire.Class) error{
		func(k wire.Class) error {
			r := patient()
			r.Class, r.Timeout = k, 0
			_, err := client.Infer(context.Background(), r)
			return err
		},
		func(k wire.Class) error {
			var r Reservation
			if err := client.Reserve(&r, "echo", ""); err != nil {
				return err
			}
			r.Class = k
			_, err := client.InferReserved(context.Background(), &r, 0)
			return err
		},
	} {
		if err := ask(wire.ClassBestEffort); err != nil {
			t.Fatal(err)
		}
		if m := <-submits; m.Class != wire.ClassBestEffort || m.Deadline.Sub(m.Arrival) < mono.Dur(timeoutMax)-mono.Second {
			t.Errorf("way %d: class %d, due after %v", i, m.Class, m.Deadline.Sub(m.Arrival))
		}
		if err := ask(2); !errors.Is(err, ErrBadInput) {
			t.Errorf("way %d: class 2: %v", i, err)
		}
	}
}

// Whichever way a request is asked for, its priority goes to the scheduler with it.
func TestPriority(t *testing.T) {
	c := newCluster(t)
	submits := submitsOf(c)
	client := c.dial(nil)
	for i, ask := range []func(wire.Priority) error{
		func(p wire.Priority) error {
			r := patient()
			r.Priority = p
			_, err := client.Infer(context.Background(), r)
			return err
		},
		func(p wire.Priority) error {
			var r Reservation
			if err := client.Reserve(&r, "echo", ""); err != nil {
				return err
			}
			r.Priority = p
			_, err := client.InferReserved(context.Background(), &r, time.Minute)
			return err
		},
		func(p wire.Priority) error {
			_, err := client.Infer(context.Background(), Request{Model: "image", Image: grey(t, 2), Timeout: time.Minute, Priority: p})
			return err
		},
	} {
		for _, p := range []wire.Priority{1, 0, 255} {
			if err := ask(p); err != nil {
				t.Fatal(err)
			}
			if m := <-submits; m.Priority != p {
				t.Errorf("way %d: priority %d, want %d", i, m.Priority, p)
			}
		}
	}
}
