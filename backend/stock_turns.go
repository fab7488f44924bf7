package backend

import (
	"context"
	"sync"
	"time"
)

// turns let one model be measured at a time: devices of a host share it. A measurement that
// takes long, as one of a run that hangs, makes room for the next one and goes on beside it, as
// long as few do.
type turns struct {
	now  chan struct{} // full: one is measured
	long chan struct{} // those that go on beside it
}

const (
	// turnMost is how long a measurement keeps the others waiting.
	turnMost = 5 * time.Second
	// longMost is how many go on beside others.
	longMost = 3
)

func newTurns() *turns {
	return &turns{now: make(chan struct{}, 1), long: make(chan struct{}, longMost)}
}

// take waits for a turn, which leave ends.
func (t *turns) take(ctx context.Context, most time.Duration) (leave func(), err error) {
	select {
	case t.now <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var mu sync.Mutex // Guards what follows.
	held, over := t.now, false
	makeRoom := time.AfterFunc(most, func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		select {
		case t.long <- struct{}{}:
			held = t.long
			<-t.now
		default: // the others wait
		}
	})
	return func() {
		makeRoom.Stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
		<-held
	}, nil
}
