package engine

import (
	"sync/atomic"

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
	words []uint64 // written by the loop, then read by the reader. As many as a power of two

	// Owned by the loop.
	at     uint64      // words written
	free   uint64      // tail, as last seen
	span   mono.Time   // until then what queued says was told holds
	queued []toldQueue // of 64 models each

	head   atomic.Uint64 // Shared: at, published
	missed atomic.Uint64 // Shared: events that did not fit
	tail   atomic.Uint64 // Shared: words that the reader has read
	every  atomic.Uint32 // Shared: a power of two; one batch and one drop in so many is told
}

// toldQueue is what was told of the candidates of models, a bit each. Candidates come and go with each request where
// batches are small, and nearly all of them are not told of: finding that out must not be a line of memory for each model.
type toldQueue struct {
	told  uint64 // one was, within the span
	shown uint64 // who reads believes that there is one
}

// queueEvery is how long a span is, in which a model's candidate is told of once at most: about as often as people see it
// drawn.
const queueEvery = 200 * mono.Millisecond

// put writes a word that room has been found for.
func (t *tap) put(v uint64) {
	t.words[t.at&uint64(len(t.words)-1)] = v
	t.at++
}

// room reports whether so many words fit; else an event is missed.
func (t *tap) room(n int) bool {
	if t.at+uint64(n)-t.free > uint64(len(t.words)) {
		if t.free = t.tail.Load(); t.at+uint64(n)-t.free > uint64(len(t.words)) {
			t.missed.Add(1)
			return false
		}
	}
	return true
}

// begin writes the first words of a record (package watch) of n, if they fit.
func (t *tap) begin(kind watch.Kind, now mono.Time, n int) bool {
	if !t.room(n) {
		return false
	}
	t.put(watch.RecordHead(kind, n))
	t.put(uint64(now))
	return true
}

// chosen reports whether a batch or request is one that is told of. Numbers of both are consecutive.
func (t *tap) chosen(number uint64) bool { return number&uint64(t.every.Load()-1) == 0 }

// serialOf is a batch's number without that of its record and its loop.
func serialOf(id wire.BatchID) uint64 { return uint64(id) >> 16 & (1<<40 - 1) }

// tellLoop tells of what the core has decided; before it is carried out, which changes l.out.
func (l *modelLoop) tellLoop(t *tap, now mono.Time) {
	before := t.at
	for i := range l.out.Drops {
		d := &l.out.Drops[i]
		r := &d.Request
		if !t.chosen(uint64(r.ID)) || !t.begin(watch.Drop, now, watch.DropWords) {
			continue
		}
		margin, _ := l.shard.Margin(r.Model)
		t.put(uint64(r.ID))
		t.put(uint64(r.Frontend))
		t.put(uint64(r.Model))
		t.put(uint64(d.Reason))
		t.put(uint64(r.Arrival))
		t.put(uint64(d.Came))
		t.put(uint64(r.Deadline))
		t.put(uint64(margin))
	}
	for i := range l.out.Dispatches {
		if d := &l.out.Dispatches[i]; t.chosen(serialOf(d.Batch)) {
			t.batch(now, d)
		}
	}
	for i := range l.out.Candidates {
		c := &l.out.Candidates[i]
		if waiting := c.Candidate.Size > 0; t.news(c.Model, waiting, now) && t.begin(watch.Queue, now, watch.QueueWords) {
			t.noteQueue(c.Model, waiting)
			l.tellQueueLoop(t, c)
		}
	}
	if t.at != before { // most turns tell nothing, and a store that others may see costs more than a look
		t.head.Store(t.at)
	}
}

func (t *tap) batch(now mono.Time, d *shard.Dispatch) {
	if !t.begin(watch.Batch, now, watch.BatchWords+watch.RequestWords*len(d.Requests)) {
		return
	}
	t.put(uint64(d.Batch))
	t.put(uint64(d.Model))
	t.put(uint64(d.GPU))
	t.put(uint64(d.Due))
	t.put(uint64(d.Exec))
	t.put(uint64(d.Until))
	t.put(uint64(len(d.Requests)))
	for i := range d.Requests {
		r := &d.Requests[i]
		t.put(uint64(r.ID))
		t.put(uint64(r.Frontend))
		t.put(uint64(r.Arrival))
		t.put(uint64(r.Deadline))
	}
}

// done tells of a report.
func (t *tap) done(now mono.Time, r *shard.Run, d *Done) {
	if !t.chosen(serialOf(d.Batch)) || !t.begin(watch.Done, now, watch.DoneWords) {
		return
	}
	t.put(uint64(d.Batch))
	t.put(uint64(r.Model))
	t.put(uint64(r.GPU))
	t.put(uint64(d.Start))
	t.put(uint64(d.End))
	t.put(uint64(d.Fetch))
	t.put(uint64(d.Ran))
	t.head.Store(t.at)
}

// news reports whether it is time to tell of a model's candidate. That there is none is told only where one was told of, and
// at once: a model whose requests leave one by one would have two events for each else.
func (t *tap) news(m wire.ModelID, waiting bool, now mono.Time) bool {
	if now >= t.span {
		t.span = now.Add(queueEvery)
		for i := range t.queued {
			t.queued[i].told = 0
		}
	}
	for int(m/64) >= len(t.queued) {
		t.queued = append(t.queued, toldQueue{})
	}
	q, bit := &t.queued[m/64], uint64(1)<<(m%64)
	return waiting && q.told&bit == 0 || !waiting && q.shown&bit != 0
}

// noteQueue notes what is told of a model's candidate.
func (t *tap) noteQueue(m wire.ModelID, waiting bool) {
	q, bit := &t.queued[m/64], uint64(1)<<(m%64)
	if waiting {
		q.told, q.shown = q.told|bit, q.shown|bit
	} else {
		q.shown &^= bit
	}
}

// tellQueueLoop writes a model's candidate behind the record's begin.
func (l *modelLoop) tellQueueLoop(t *tap, c *shard.Candidate) {
	t.put(uint64(c.Model))
	t.put(uint64(l.shard.Queued(c.Model)))
	t.put(uint64(c.Candidate.Size))
	t.put(uint64(c.Candidate.Exec))
	t.put(uint64(c.Candidate.Latest))
	t.put(uint64(c.Candidate.Deferred()))
}
