package engine

import (
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// tap is where a model loop tells what it decides while somebody watches (Watch): a ring of words
// that the loop writes and one reader reads (untap.go).
//
//	loop:   room?, words, head.Store     reader: head.Load, words, tail.Store
//
// The loop never waits: what does not fit is counted (missed), and of many batches one in so many
// is told (every), as the reader asks. While nobody watches the loop's pointer to it is nil, and a look
// at that is all that it costs.
//
// Rejected: a callback for each event, as Watch of the server's has for benchmarks: it would
// run on the loop, and what it does there nobody bounds. A ring of events of one size: a batch has up to a
// thousand requests.
type tap struct {
	// Owned by the loop. What a turn needs that tells nothing, as nearly all do, is in one line of memory (of 64 bytes) with what it needs to
	// tell: between two turns others had the processor, and each line costs as much as telling does.
	span  mono.Time // until then what first and more say was told holds
	first toldQueue // of the 64 models with the smallest ids
	at    uint64    // words written
	free  uint64    // tail, as last seen
	words []uint64  // written by the loop, then read by the reader. As many as a power of two (size), and recordMost

	more   []toldQueue   // of the other models, 64 each
	_      [40]byte      // what others write is in another line
	head   atomic.Uint64 // Shared: at, published
	missed atomic.Uint64 // Shared: events that did not fit
	tail   atomic.Uint64 // Shared: words that the reader has read
	every  atomic.Uint32 // Shared: a power of two; one batch and one drop in so many is told
	_      [36]byte      // 192 bytes in all, whole lines: of 160, which is a size of Go's heap, each second tap would begin within one
}

// recordMost is how many words a record may have. There is room for as many behind the ring, so that a record is written
// in one piece and what is beyond the ring's end then moved to its begin: to ask of each word where it goes costs more.
const recordMost = tapLeast / 2

func (t *tap) size() uint64 { return uint64(len(t.words)) - recordMost }

// toldQueue is what was told of the candidates of models, a bit each. Candidates come and go with each request where
// batches are small, and nearly all of them are not told of: finding that out must not be a line of memory for each model.
type toldQueue struct {
	told  uint64 // one was, within the span
	shown uint64 // who reads believes that there is one
}

// queueEvery is how long a span is, in which a model's candidate is told of once at most: about as often as people see it
// drawn.
const queueEvery = 200 * mono.Millisecond

// room reports whether so many words fit; else an event is missed.
func (t *tap) room(n int) bool {
	if n > recordMost {
		t.missed.Add(1)
		return false
	}
	if t.at+uint64(n)-t.free > t.size() {
		if t.free = t.tail.Load(); t.at+uint64(n)-t.free > t.size() {
			t.missed.Add(1)
			return false
		}
	}
	return true
}

// begin is the memory of a record (package watch) of n words, the first two of which are written; nil: it does not fit.
func (t *tap) begin(kind watch.Kind, now mono.Time, n int) []uint64 {
	if !t.room(n) {
		return nil
	}
	w := t.words[t.at&(t.size()-1):][:n:n]
	w[0], w[1] = watch.RecordHead(kind, n), uint64(now)
	return w
}

// end takes a record that begin gave the memory of.
func (t *tap) end(n int) {
	if from, size := t.at&(t.size()-1), t.size(); from+uint64(n) > size {
		copy(t.words, t.words[size:from+uint64(n)])
	}
	t.at += uint64(n)
}

// chosen reports whether a batch or request is one that is told of. Numbers of both are consecutive.
func (t *tap) chosen(number uint64) bool { return number&uint64(t.every.Load()-1) == 0 }

// serialOf is a batch's number without that of its record and its loop.
func serialOf(id wire.BatchID) uint64 { return uint64(id) >> 16 & (1<<40 - 1) }

// tellLoop tells of what the core has decided; before it is carried out, which changes l.out.
func (l *modelLoop) tellLoop(t *tap, now mono.Time) {
	before := t.at
	if len(l.out.Drops)+len(l.out.Dispatches) > 0 {
		l.tellDecidedLoop(t, now)
	}
	if len(l.out.Candidates) > 0 {
		if now >= t.span {
			t.begins(now)
		}
		for i := range l.out.Candidates {
			c := &l.out.Candidates[i]
			if t.news(c.Model, c.Candidate.Size > 0) {
				l.tellQueueLoop(t, now, c)
			}
		}
	}
	if t.at != before { // most turns tell nothing, and a store that others may see costs more than a look
		t.head.Store(t.at)
	}
}

// tellDecidedLoop tells of batches and drops.
func (l *modelLoop) tellDecidedLoop(t *tap, now mono.Time) {
	for i := range l.out.Drops {
		if d := &l.out.Drops[i]; t.chosen(uint64(d.Request.ID)) {
			margin, _ := l.shard.Margin(d.Request.Model)
			t.drop(now, d, margin)
		}
	}
	for i := range l.out.Dispatches {
		if d := &l.out.Dispatches[i]; t.chosen(serialOf(d.Batch)) {
			t.batch(now, d)
		}
	}
}

func (t *tap) drop(now mono.Time, d *batching.Drop, margin mono.Dur) {
	w, r := t.begin(watch.Drop, now, watch.DropWords), &d.Request
	if w == nil {
		return
	}
	_ = w[watch.DropWords-1]
	w[2], w[3], w[4], w[5] = uint64(r.ID), uint64(r.Frontend), uint64(r.Model), uint64(d.Reason)
	w[6], w[7], w[8], w[9] = uint64(r.Arrival), uint64(d.Came), uint64(r.Deadline), uint64(margin)
	t.end(len(w))
}

func (t *tap) batch(now mono.Time, d *shard.Dispatch) {
	w := t.begin(watch.Batch, now, watch.BatchWords+watch.RequestWords*len(d.Requests))
	if w == nil {
		return
	}
	_ = w[watch.BatchWords-1]
	w[2], w[3], w[4] = uint64(d.Batch), uint64(d.Model), uint64(d.GPU)
	w[5], w[6], w[7], w[8] = uint64(d.Due), uint64(d.Exec), uint64(d.Until), uint64(len(d.Requests))
	for i, to := 0, w[watch.BatchWords:]; i < len(d.Requests) && len(to) >= watch.RequestWords; i, to = i+1, to[watch.RequestWords:] {
		r := &d.Requests[i]
		to[0], to[1], to[2], to[3] = uint64(r.ID), uint64(r.Frontend), uint64(r.Arrival), uint64(r.Deadline)
	}
	t.end(len(w))
}

// done tells of a report.
func (t *tap) done(now mono.Time, r *shard.Run, d *Done) {
	if !t.chosen(serialOf(d.Batch)) {
		return
	}
	w := t.begin(watch.Done, now, watch.DoneWords)
	if w == nil {
		return
	}
	_ = w[watch.DoneWords-1]
	w[2], w[3], w[4] = uint64(d.Batch), uint64(r.Model), uint64(r.GPU)
	w[5], w[6], w[7], w[8] = uint64(d.Start), uint64(d.End), uint64(d.Fetch), uint64(d.Ran)
	t.end(len(w))
	t.head.Store(t.at)
}

// begins begins a span.
func (t *tap) begins(now mono.Time) {
	t.span = now.Add(queueEvery)
	t.first.told = 0
	for i := range t.more {
		t.more[i].told = 0
	}
}

// news reports whether it is time to tell of a model's candidate. That there is none is told only where one was told of, and
// at once: a model whose requests leave one by one would have two events for each else.
func (t *tap) news(m wire.ModelID, waiting bool) bool {
	q, bit := t.first, uint64(1)<<(m%64)
	if m >= 64 {
		q = toldQueue{}
		if i := int(m/64) - 1; i < len(t.more) {
			q = t.more[i]
		}
	}
	if waiting {
		return q.told&bit == 0
	}
	return q.shown&bit != 0
}

// noteQueue notes what is told of a model's candidate.
func (t *tap) noteQueue(m wire.ModelID, waiting bool) {
	q, bit := &t.first, uint64(1)<<(m%64)
	if m >= 64 {
		for int(m/64) > len(t.more) {
			t.more = append(t.more, toldQueue{})
		}
		q = &t.more[m/64-1]
	}
	if waiting {
		q.told, q.shown = q.told|bit, q.shown|bit
	} else {
		q.shown &^= bit
	}
}

// tellQueueLoop tells of a model's candidate.
func (l *modelLoop) tellQueueLoop(t *tap, now mono.Time, c *shard.Candidate) {
	w := t.begin(watch.Queue, now, watch.QueueWords)
	if w == nil {
		return
	}
	t.noteQueue(c.Model, c.Candidate.Size > 0)
	_ = w[watch.QueueWords-1]
	w[2], w[3], w[4] = uint64(c.Model), uint64(l.shard.Queued(c.Model)), uint64(c.Candidate.Size)
	w[5], w[6], w[7] = uint64(c.Candidate.Exec), uint64(c.Candidate.Latest), uint64(c.Candidate.Deferred())
	t.end(len(w))
}
