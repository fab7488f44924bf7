package transport

import (
	"sync"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// AwaitFirst calls then once: with the link, at once or when the Keeper's first one
// comes up, or with nil when it does not within d and KeepConfig.Patience,
// or a link was up before and is not now. It does not wait itself, and then must
// not either, nor close the Keeper, on whose goroutine it may run.
func (k *Keeper) AwaitFirst(d mono.Dur, then func(Link)) {
	d = min(d, k.born.Add(k.c.Patience).Sub(mono.Now()))
	if !k.first.add(&waiter{then: then}, d) {
		then(k.Link())
	}
}

// waiters wait for a Keeper's first link.
type waiters struct {
	mu   sync.Mutex
	all  map[*waiter]struct{}
	over bool // it was up, or never will be
}

type waiter struct {
	then  func(Link)
	timer *time.Timer
}

// add is false when there is nothing to wait for.
func (s *waiters) add(w *waiter, d mono.Dur) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || d <= 0 {
		return false
	}
	if s.all == nil {
		s.all = map[*waiter]struct{}{}
	}
	s.all[w] = struct{}{}
	w.timer = time.AfterFunc(d.Std(), func() { s.expire(w) })
	return true
}

func (s *waiters) expire(w *waiter) {
	s.mu.Lock()
	_, waits := s.all[w]
	delete(s.all, w)
	s.mu.Unlock()
	if waits {
		w.then(nil)
	}
}

// tell hands the first link, or nil when there will be none, to all who wait.
func (s *waiters) tell(l Link) {
	s.mu.Lock()
	all := s.all
	s.all, s.over = nil, true
	s.mu.Unlock()
	for w := range all {
		w.timer.Stop()
		w.then(l)
	}
}
