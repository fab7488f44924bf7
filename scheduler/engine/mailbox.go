package engine

import (
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
)

// mail is what a model has to tell the rank: the answer to the last grant, and
// its latest candidate.
type mail struct {
	answer    rank.Answer
	candidate batching.Candidate
	answers   uint32 // numbers answer; 0: none was given yet
	answered  bool   // answer is news; set by take
}

// mailbox holds one model's mail: written by the model's loop, emptied by the rank
// loop, neither ever waits for the other. It is a triple buffer: each side has a
// slot of its own, and the third one, in the middle, is swapped against it.
// The rank so finds the latest mail, whole, and none before it.
//
// Invariant: what a later mail replaces is not lost. A candidate is void with the
// next one; an answer goes with every mail until the next grant, and the rank
// tells by its number whether it has had it.
type mailbox struct {
	slots  [3]mail
	wants  *[3]wants     // beside them, in paged engines; else nil
	middle atomic.Uint32 // a slot's index, and fresh
	told   atomic.Bool   // the rank's ring has this model's number
	// Of paged engines, from the rank to the model's loop: no start before it; and that the loop's ring has word of it.
	floor     atomic.Int64
	floorTold atomic.Bool
	_         [64]byte

	// Owned by the model's loop.
	back uint32
	last uint32 // slot that was written last
	_    [64]byte

	// Owned by the rank loop.
	front uint32
	taken uint32 // number of the last answer taken
	had   wants  // taken last
	_     [64]byte
}

// fresh in middle: the rank has not taken that slot yet.
const fresh = 1 << 7

func newMailbox(paged bool) *mailbox {
	b := &mailbox{front: 2, last: 2} // back is 0
	if paged {
		b.wants = new([3]wants)
	}
	b.floor.Store(int64(mono.Past))
	b.middle.Store(1)
	return b
}

// put leaves a candidate and, where it is not nil, the answer that goes before it.
// The model's loop only.
func (b *mailbox) put(answer *rank.Answer, candidate *batching.Candidate) {
	m, before := &b.slots[b.back], &b.slots[b.last]
	if answer != nil {
		m.answer, m.answers = *answer, before.answers+1
	} else if m.answers != before.answers {
		m.answer, m.answers = before.answer, before.answers
	}
	m.candidate = *candidate
	b.last = b.back
	b.back = b.middle.Swap(b.back|fresh) &^ fresh
}

// putWants is put where pools are paged; a candidate of nil is the one before.
func (b *mailbox) putWants(answer *rank.Answer, candidate *batching.Candidate, w *wants) {
	if candidate == nil {
		candidate = &b.slots[b.last].candidate
	}
	b.wants[b.back] = *w
	b.put(answer, candidate)
}

// takeWants is what the mail that was just taken says of the model's requests that none before did.
// The rank loop only.
func (b *mailbox) takeWants() wants {
	w := b.wants[b.front]
	fresh := w
	fresh.came, fresh.left = w.came-b.had.came, w.left-b.had.left
	b.had = w
	return fresh
}

// take is the latest mail; nil when it was taken before. It is valid until the next take.
// The rank loop only.
func (b *mailbox) take() *mail {
	if b.middle.Load()&fresh == 0 {
		return nil
	}
	b.front = b.middle.Swap(b.front) &^ fresh
	m := &b.slots[b.front]
	m.answered = m.answers != b.taken
	b.taken = m.answers
	return m
}
