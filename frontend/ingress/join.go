package ingress

import (
	"fmt"
	"sync"

	"github.com/symphony-serving/symphony/frontend"
)

// Join collects the items of a client's batch. The first failure is the batch's answer, at once; a
// Join is never reused, since the others may still come.
type Join struct {
	mu      sync.Mutex
	left    int
	failed  bool
	done    chan error
	answers []*frontend.Response
}

// NewJoin waits for n items, 1 or more.
func NewJoin(n int) *Join {
	return &Join{left: n, done: make(chan error, 1), answers: make([]*frontend.Response, n)}
}

// Take takes an item's answer; it does not block.
func (j *Join) Take(item int, answer *frontend.Response, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed {
		return
	}
	if err != nil {
		j.failed = true
		j.done <- fmt.Errorf("item %d of the batch: %w", item, err)
		return
	}
	j.answers[item] = answer
	if j.left--; j.left == 0 {
		j.done <- nil
	}
}

// Wait waits until all have come, or one has failed. Items that two models have answered, as its files were exchanged
// meanwhile, are no answer.
func (j *Join) Wait() ([]*frontend.Response, error) {
	err := <-j.done
	if err == nil {
		err = frontend.OfOneModel(j.answers)
	}
	return j.answers, err
}
