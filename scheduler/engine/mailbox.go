package engine

import (
	"sync"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/rank"
)

// mail is what a model has to tell the rank: the answer to the grant under
// way, if there is one, and then its latest candidate.
type mail struct {
	answer    rank.Answer
	candidate batching.Candidate
	answered  bool
	informed  bool
}

// mailbox holds one model's mail. Written by the model's loop, emptied by the
// rank loop; the lock is held for a copy.
type mailbox struct {
	mu      sync.Mutex
	mail    mail // guarded by mu
	waiting bool // guarded by mu: the rank's ring has this model's number
}

// put merges the news into the mail; true when the ring must be told.
func (b *mailbox) put(answer *rank.Answer, candidate *batching.Candidate) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answer != nil {
		// What was informed before the answer is void: the rank would ignore it.
		b.mail = mail{answer: *answer, answered: true}
	}
	if candidate != nil {
		b.mail.candidate, b.mail.informed = *candidate, true
	}
	tell := !b.waiting
	b.waiting = true
	return tell
}

// take empties the mailbox.
func (b *mailbox) take() mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.mail
	b.mail, b.waiting = mail{}, false
	return m
}
