package engine

import (
	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Watch has each loop tell what it decides, by a ring of so many bytes at least; of 0 it ends that. Not
// concurrently with itself or Watched.
func (e *Engine) Watch(bytes int) {
	for _, l := range e.loops {
		switch {
		case bytes <= 0:
			l.tap.Store(nil)
		case l.tap.Load() == nil:
			l.tap.Store(newTap(bytes))
		}
	}
}

// tapLeast holds two batches of the largest size.
const tapLeast = 1 << 14

func newTap(bytes int) *tap {
	n := tapLeast
	for n*8 < bytes {
		n *= 2
	}
	t := &tap{words: make([]uint64, n)}
	t.every.Store(1)
	return t
}

// everyMost is the least share of the batches that is told.
const everyMost = 1 << 12

// Watched appends what the loops told since the last call, and says whether a batch in so many was
// told: 1 is all. Of each loop it takes about most events a call: of more that come, the
// loops tell a smaller part from then on. What they could not tell is an event, too.
func (e *Engine) Watched(pool int32, most int, to []watch.Event) ([]watch.Event, int) {
	every := 1
	for _, l := range e.loops {
		t := l.tap.Load()
		if t == nil {
			continue
		}
		from := len(to)
		to = t.read(pool, to)
		every = max(every, t.adapt(weight(to[from:]), most))
		if n := t.missed.Swap(0); n > 0 {
			to = append(to, watch.Event{Kind: watch.Missed, At: mono.Now(), Pool: pool, Size: int32(min(n, 1<<30))})
		}
	}
	return to, every
}

// weight counts events, and requests of batches as a part of one.
func weight(all []watch.Event) int {
	n := len(all)
	for i := range all {
		n += len(all[i].Requests) / 8
	}
	return n
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

// read appends the events in the ring.
func (t *tap) read(pool int32, to []watch.Event) []watch.Event {
	r := tapReader{tap: t, at: t.tail.Load()}
	head := t.head.Load()
	for r.at < head {
		first := r.next()
		n := int(first >> 8)
		to = append(to, watch.Event{Kind: watch.Kind(first & 0xff), Pool: pool, At: mono.Time(r.next())})
		r.event(&to[len(to)-1], n)
	}
	t.tail.Store(r.at)
	return to
}

// tapReader reads words from the tail on.
type tapReader struct {
	tap      *tap
	at       uint64
	requests []watch.Request // memory for the requests of many batches
}

func (r *tapReader) next() uint64 {
	v := r.tap.words[r.at&uint64(len(r.tap.words)-1)]
	r.at++
	return v
}

func (r *tapReader) instant() mono.Time { return mono.Time(r.next()) }

// event reads the n words that an event of its kind has.
func (r *tapReader) event(e *watch.Event, n int) {
	switch e.Kind {
	case watch.Drop:
		e.Request.Key = watch.Key{ID: wire.RequestID(r.next()), Frontend: wire.FrontendID(r.next())}
		e.Model, e.Reason = wire.ModelID(r.next()), wire.Reason(r.next())
		e.Request.Arrival, e.Request.Came, e.Request.Deadline = r.instant(), r.instant(), r.instant()
		e.Margin = mono.Dur(r.next())
	case watch.Batch:
		e.Batch, e.Model, e.GPU = wire.BatchID(r.next()), wire.ModelID(r.next()), wire.GPUID(r.next())
		e.Due, e.Exec, e.Until = r.instant(), r.instant(), r.instant()
		e.Requests = r.list((n - batchWords) / requestWords)
		e.Size = int32(len(e.Requests))
	case watch.Done:
		e.Batch, e.Model, e.GPU = wire.BatchID(r.next()), wire.ModelID(r.next()), wire.GPUID(r.next())
		e.Exec, e.Until = r.instant(), r.instant()
		e.Fetch, e.Size = mono.Dur(r.next()), int32(r.next())
	case watch.Queue:
		e.Model, e.Queued, e.Size = wire.ModelID(r.next()), int32(r.next()), int32(r.next())
		e.Exec, e.Until, e.Due = r.instant(), r.instant(), r.instant()
	}
}

// list reads a batch's requests. Their memory is taken for many at a time.
func (r *tapReader) list(n int) []watch.Request {
	if cap(r.requests)-len(r.requests) < n {
		r.requests = make([]watch.Request, 0, max(256, n))
	}
	from := len(r.requests)
	for range n {
		r.requests = append(r.requests, watch.Request{
			Key: watch.Key{ID: wire.RequestID(r.next()), Frontend: wire.FrontendID(r.next())}, Arrival: r.instant(), Deadline: r.instant()})
	}
	return r.requests[from:len(r.requests):len(r.requests)]
}
