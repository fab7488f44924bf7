package frontend

import (
	"context"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport/wire"
)

// A client whose done blocks keeps its own answers waiting, and nobody else's: what
// is full is bounded, and another client of the same scheduler is served meanwhile.
func TestSlowClientDelaysNobodyElse(t *testing.T) {
	c, other := newCluster(t), newCluster(t)
	slow, fast := c.dial(nil), other.dial(nil)
	block, blocked := make(chan struct{}), make(chan struct{}, 1)
	answers := make(chan error, 100)
	slow.InferAsync(context.Background(), echo(1), func(_ *Response, err error) {
		blocked <- struct{}{}
		<-block
		answers <- err
	})
	<-blocked
	for range 50 {
		slow.InferAsync(context.Background(), echo(1), func(_ *Response, err error) { answers <- err })
	}
	for range 50 {
		r, err := fast.Infer(context.Background(), echo(2))
		if err != nil {
			t.Fatalf("the other client: %v", err)
		}
		r.Release()
	}
	// Its own requests still end by their deadline: the expiry has its own goroutine.
	q := echo(3)
	q.Timeout = 20 * time.Millisecond
	if _, err := slow.Infer(context.Background(), q); err == nil {
		t.Error("an answer came past a blocked done")
	} else if e, ok := err.(*Error); !ok || e.Reason != wire.ReasonExpired {
		t.Errorf("%v", err)
	}
	close(block)
	for range 51 {
		<-answers
	}
}
