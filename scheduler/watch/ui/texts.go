package ui

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/scheduler/watch"
)

// asker asks for texts beside the loop that drains the taps: who answers may take seconds, and the
// rings fill meanwhile.
type asker struct {
	ctx     context.Context
	cancel  context.CancelFunc
	place   chan struct{}     // held by the one that asks
	answers chan []watch.Info // what it was told; it keeps the place until run takes it
	running sync.WaitGroup
}

func newAsker() asker {
	ctx, cancel := context.WithCancel(context.Background())
	return asker{ctx: ctx, cancel: cancel, place: make(chan struct{}, 1), answers: make(chan []watch.Info)}
}

// ask begins to ask; false: it is still at it.
func (a *asker) ask(texts func(context.Context) []watch.Info) bool {
	select {
	case a.place <- struct{}{}:
	default:
		return false
	}
	a.running.Go(func() {
		defer func() { <-a.place }()
		got := texts(a.ctx)
		select {
		case a.answers <- got:
		case <-a.ctx.Done():
		case <-time.After(textsEvery): // nobody looks any more
		}
	})
	return true
}

func find(all []watch.Info, name string) int {
	return slices.IndexFunc(all, func(i watch.Info) bool { return i.Name == name })
}

func sameLines(a, b []string) bool { return slices.Equal(a, b) }
