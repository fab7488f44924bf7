package watch

import (
	"cmp"
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A record is a frequent event (Batch to Evict) as words: what a model loop writes, what is packed
// (packing) and what is made an Event of for those who ask. Its words, signed ones in two's complement:
//
//	head     its kind; from bit 8 on how many words it has, with this one; from bit 32 on the pool
//	Batch    at, batch, model, GPU, due, exec, until, size; and of each request id, frontend, arrival, deadline
//	Done     at, batch, model, GPU, exec, until, fetch, size
//	Drop     at, id, frontend, model, reason, arrival, came, deadline, margin
//	Queue    at, model, queued, size, exec, until, due
//	Load     at, number, model, GPU, why, size, exec, until
//	Loaded   at, number, model, GPU, why, exec, until
//	Evict    at, model, GPU, why, for, until
//
// Here is how many words each has.
const (
	BatchWords   = 9 // and RequestWords for each request
	RequestWords = 4
	DoneWords    = 9
	DropWords    = 10
	QueueWords   = 8
	LoadWords    = 9
	LoadedWords  = 8
	EvictWords   = 7
)

const (
	wordsBit = 8
	poolBit  = 32
	wordsMax = 1<<(poolBit-wordsBit) - 1
)

// RecordHead is a record's first word, of pool 0.
func RecordHead(k Kind, words int) uint64 { return uint64(k) | uint64(words)<<wordsBit }

// RecordKind is the kind of a record.
func RecordKind(record []uint64) Kind { return Kind(record[0]) }

func recordPool(record []uint64) int32 { return int32(record[0] >> poolBit) }

func recordAt(record []uint64) mono.Time { return mono.Time(record[1]) }

// Records goes through the records of a list.
func Records(words []uint64) func(yield func(record []uint64) bool) {
	return func(yield func([]uint64) bool) {
		for len(words) > 0 {
			n := int(words[0] >> wordsBit & wordsMax)
			if !yield(words[:n:n]) {
				return
			}
			words = words[n:]
		}
	}
}

// SetPool says of a record which pool it is of.
func SetPool(record []uint64, pool int32) {
	record[0] = record[0]&(1<<poolBit-1) | uint64(uint32(pool))<<poolBit
}

// frequent reports whether events of a kind are records, rather than lines.
func (k Kind) frequent() bool { return k >= Batch && k <= Evict }

// appendRecord appends a frequent event's record.
func (e *Event) appendRecord(to []uint64) []uint64 {
	from := len(to)
	to = append(to, 0, uint64(e.At))
	switch e.Kind {
	case Batch:
		to = append(to, uint64(e.Batch), uint64(e.Model), uint64(e.GPU), uint64(e.Due), uint64(e.Exec), uint64(e.Until), uint64(e.Size))
		for i := range e.Requests {
			r := &e.Requests[i]
			to = append(to, uint64(r.Key.ID), uint64(r.Key.Frontend), uint64(r.Arrival), uint64(r.Deadline))
		}
	case Done:
		to = append(to, uint64(e.Batch), uint64(e.Model), uint64(e.GPU), uint64(e.Exec), uint64(e.Until), uint64(e.Fetch), uint64(e.Size))
	case Drop:
		r := &e.Request
		to = append(to, uint64(r.Key.ID), uint64(r.Key.Frontend), uint64(e.Model), uint64(e.Reason), uint64(r.Arrival), uint64(r.Came), uint64(r.Deadline), uint64(e.Margin))
	case Queue:
		to = append(to, uint64(e.Model), uint64(e.Queued), uint64(e.Size), uint64(e.Exec), uint64(e.Until), uint64(e.Due))
	case Load:
		to = append(to, uint64(e.Batch), uint64(e.Model), uint64(e.GPU), uint64(e.Why), uint64(e.Size), uint64(e.Exec), uint64(e.Until))
	case Loaded:
		to = append(to, uint64(e.Batch), uint64(e.Model), uint64(e.GPU), uint64(e.Why), uint64(e.Exec), uint64(e.Until))
	case Evict:
		to = append(to, uint64(e.Model), uint64(e.GPU), uint64(e.Why), uint64(e.For), uint64(e.Until))
	}
	to[from] = RecordHead(e.Kind, len(to)-from) | uint64(uint32(e.Pool))<<poolBit
	return to
}

// eventOf is the event of a record. The requests of a batch are appended to list, which is returned.
func eventOf(w []uint64, list []Request) (Event, []Request) {
	e := Event{Kind: RecordKind(w), Pool: recordPool(w), At: recordAt(w)}
	switch e.Kind {
	case Batch:
		e.Batch, e.Model, e.GPU = wire.BatchID(w[2]), wire.ModelID(w[3]), wire.GPUID(w[4])
		e.Due, e.Exec, e.Until, e.Size = mono.Time(w[5]), mono.Time(w[6]), mono.Time(w[7]), int32(w[8])
		from := len(list)
		for w = w[BatchWords:]; len(w) >= RequestWords; w = w[RequestWords:] {
			list = append(list, Request{Key: Key{ID: wire.RequestID(w[0]), Frontend: wire.FrontendID(w[1])}, Arrival: mono.Time(w[2]), Deadline: mono.Time(w[3])})
		}
		if len(list) > from {
			e.Requests = list[from:len(list):len(list)]
		}
	case Done:
		e.Batch, e.Model, e.GPU = wire.BatchID(w[2]), wire.ModelID(w[3]), wire.GPUID(w[4])
		e.Exec, e.Until, e.Fetch, e.Size = mono.Time(w[5]), mono.Time(w[6]), mono.Dur(w[7]), int32(w[8])
	case Drop:
		e.Request = Request{Key: Key{ID: wire.RequestID(w[2]), Frontend: wire.FrontendID(w[3])}, Arrival: mono.Time(w[6]), Came: mono.Time(w[7]), Deadline: mono.Time(w[8])}
		e.Model, e.Reason, e.Margin = wire.ModelID(w[4]), wire.Reason(w[5]), mono.Dur(w[9])
	case Queue:
		e.Model, e.Queued, e.Size = wire.ModelID(w[2]), int32(w[3]), int32(w[4])
		e.Exec, e.Until, e.Due = mono.Time(w[5]), mono.Time(w[6]), mono.Time(w[7])
	case Load:
		e.Batch, e.Model, e.GPU, e.Why = wire.BatchID(w[2]), wire.ModelID(w[3]), wire.GPUID(w[4]), Why(w[5])
		e.Size, e.Exec, e.Until = int32(w[6]), mono.Time(w[7]), mono.Time(w[8])
	case Loaded:
		e.Batch, e.Model, e.GPU, e.Why = wire.BatchID(w[2]), wire.ModelID(w[3]), wire.GPUID(w[4]), Why(w[5])
		e.Exec, e.Until = mono.Time(w[6]), mono.Time(w[7])
	case Evict:
		e.Model, e.GPU, e.Why, e.For, e.Until = wire.ModelID(w[2]), wire.GPUID(w[3]), Why(w[4]), wire.ModelID(w[5]), mono.Time(w[6])
	}
	return e, list
}

// Told is what somebody tells at a time: events of the surroundings first, which the others name, and those
// as records, about in order. An event's Info is whose who tells it: it holds until he is asked again.
type Told struct {
	Events []Event
	Words  []uint64

	order  []placed // scratch of Sort
	sorted []uint64
}

// placed is where a record is.
type placed struct {
	at       mono.Time
	from, to int
}

// Add takes an event.
func (t *Told) Add(e *Event) {
	if e.Kind.frequent() {
		t.Words = e.appendRecord(t.Words)
	} else {
		t.Events = append(t.Events, *e)
	}
}

// Len is how many events there are.
func (t *Told) Len() int {
	n := len(t.Events)
	for range Records(t.Words) {
		n++
	}
	return n
}

// All goes through the events; they are valid until it goes on.
func (t *Told) All(yield func(*Event) bool) {
	for i := range t.Events {
		if !yield(&t.Events[i]) {
			return
		}
	}
	var list []Request
	for record := range Records(t.Words) {
		var e Event
		if e, list = eventOf(record, list[:0]); !yield(&e) {
			return
		}
	}
}

// Reset empties it, and keeps its memory.
func (t *Told) Reset() {
	clear(t.Events)
	t.Events, t.Words = t.Events[:0], t.Words[:0]
}

// Sort orders the records from a word on by their instants: several loops told them.
func (t *Told) Sort(from int) {
	t.order = t.order[:0]
	at := from
	for record := range Records(t.Words[from:]) {
		t.order = append(t.order, placed{recordAt(record), at, at + len(record)})
		at += len(record)
	}
	slices.SortStableFunc(t.order, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	t.sorted = t.sorted[:0]
	for _, r := range t.order {
		t.sorted = append(t.sorted, t.Words[r.from:r.to]...)
	}
	copy(t.Words[from:], t.sorted)
}
