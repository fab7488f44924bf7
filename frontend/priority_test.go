package frontend

import (
	"context"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Whichever way a request is asked for, its priority goes to the scheduler with it.
func TestPriority(t *testing.T) {
	c := newCluster(t)
	submits := make(chan wire.Submit, 1)
	c.onSubmit = func(c *cluster, _, data transport.Link, m wire.Submit) {
		submits <- m
		c.serve(data, m)
	}
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
