package engine

import (
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Watch has each loop tell what it decides, by a ring of so many bytes at least; of 0 it ends that. Not
// concurrently with itself or Watched.
func (e *Engine) Watch(bytes int) {
	for _, l := range e.loops {
		setTap(&l.tap, bytes)
	}
	if p := e.rank.paging; p != nil {
		setTap(&p.tap, bytes)
	}
}

func setTap(at *atomic.Pointer[tap], bytes int) {
	switch {
	case bytes <= 0:
		at.Store(nil)
	case at.Load() == nil:
		at.Store(newTap(bytes))
	}
}

// tapLeast holds two batches of the largest size.
const tapLeast = 1 << 14

func newTap(bytes int) *tap {
	n := tapLeast
	for n*8 < bytes {
		n *= 2
	}
	t := &tap{words: make([]uint64, n+recordMost)}
	for i := 0; i < n; i += pageWords { // a page of memory that nobody wrote to yet is no work for the loop
		t.words[i] = 0
	}
	t.every.Store(1)
	return t
}

// pageWords are a page's.
const pageWords = 4096 / 8

// everyMost is the least share of the batches that is told.
const everyMost = 1 << 12

// Watched adds what the loops told since the last call, and says whether a batch in so many was
// told: 1 is all. Of each loop it takes about most events a call: of more that come, the
// loops tell a smaller part from then on. What they could not tell is an event, too.
func (e *Engine) Watched(pool int32, most int, to *watch.Told) int {
	every := 1
	if p := e.rank.paging; p != nil { // of loads all are told: they are few beside batches
		if t := p.tap.Load(); t != nil {
			t.tell(pool, to)
			t.tellMissed(pool, to)
		}
	}
	for _, l := range e.loops {
		if t := l.tap.Load(); t != nil {
			every = max(every, t.adapt(t.tell(pool, to), most))
			t.tellMissed(pool, to)
		}
	}
	return every
}

// tell adds what the loop told since, and says how much that is: events, and requests of batches as a part of one.
func (t *tap) tell(pool int32, to *watch.Told) (weight int) {
	from := len(to.Words)
	to.Words = t.read(to.Words)
	for record := range watch.Records(to.Words[from:]) {
		watch.SetPool(record, pool)
		weight += weightOf(record)
	}
	return weight
}

func (t *tap) tellMissed(pool int32, to *watch.Told) {
	if n := t.missed.Swap(0); n > 0 {
		to.Add(&watch.Event{Kind: watch.Missed, At: mono.Now(), Pool: pool, Size: int32(min(n, 1<<30))})
	}
}

func weightOf(record []uint64) int {
	if watch.RecordKind(record) != watch.Batch {
		return 1
	}
	return 1 + (len(record)-watch.BatchWords)/watch.RequestWords/8
}

// adapt has the loop tell less after a call with too much, more after one with little.
func (t *tap) adapt(n, most int) (every int) {
	was := t.every.Load()
	switch {
	case (n > most || t.missed.Load() > 0) && was < everyMost:
		t.every.Store(2 * was)
	case n < most/4 && was > 1:
		t.every.Store(was / 2)
	}
	return int(was)
}

// read appends the records in the ring, which are whole: the loop tells of them when it has written them.
func (t *tap) read(to []uint64) []uint64 {
	from, until := t.tail.Load(), t.head.Load()
	size := t.size()
	at, end := from&(size-1), until&(size-1)
	switch {
	case from == until:
	case at < end:
		to = append(to, t.words[at:end]...)
	default:
		to = append(append(to, t.words[at:size]...), t.words[:end]...)
	}
	t.tail.Store(until)
	return to
}
