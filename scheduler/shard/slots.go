package shard

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// none ends a list of slots.
const none = ^uint32(0)

// slotChunk is a row of slots.
type slotChunk struct {
	requests [chunkSlots]batching.Request
	came     [chunkSlots]mono.Time // when they were handed in
}

const chunkSlots = 1 << 9

// slots is the memory of requests, up to most; free ones form a list. It grows by chunks,
// which are never moved: what a backlog took once stays.
type slots struct {
	chunks []*slotChunk
	next   []uint32 // in the free list, or the list of a batch; apart, for lists are walked without the requests
	free   uint32
	used   int
	most   int
}

func newSlots(most int) slots { return slots{free: none, most: most} }

func (s *slots) request(i uint32) *batching.Request {
	return &s.chunks[i/chunkSlots].requests[i%chunkSlots]
}

func (s *slots) came(i uint32) *mono.Time { return &s.chunks[i/chunkSlots].came[i%chunkSlots] }

// grow adds a chunk to the free list, or what is left up to most.
func (s *slots) grow() {
	from := len(s.chunks) * chunkSlots
	s.chunks = append(s.chunks, new(slotChunk))
	s.next = append(s.next, make([]uint32, chunkSlots)...)
	for i := min(s.most, from+chunkSlots) - 1; i >= from; i-- {
		s.next[i], s.free = s.free, uint32(i)
	}
}

func (s *slots) take(r *batching.Request, came mono.Time) (uint32, bool) {
	if s.free == none {
		if len(s.chunks)*chunkSlots >= s.most {
			return 0, false
		}
		s.grow()
	}
	i := s.free
	k, at := s.chunks[i/chunkSlots], i%chunkSlots
	s.free = s.next[i]
	k.requests[at], k.came[at] = *r, came
	s.used++
	return i, true
}

func (s *slots) give(i uint32) {
	s.next[i], s.free = s.free, i
	s.used--
}

// batch is one that runs on a GPU.
type batch struct {
	id    wire.BatchID // 0: this record is free
	model wire.ModelID
	gpu   wire.GPUID
	life  rank.Life
	first uint32 // list of slots
	exec  mono.Time
	until mono.Time
	size  int
}

// batches is the memory of running batches, up to most: it grows with those that run. A BatchID is the shard in
// bits 56-63, a serial in 16-55 and the record's index in 0-15, so that an id
// finds its record and a late report does not find another batch.
type batches struct {
	records []batch
	free    []uint16
	most    int
	serial  uint64
	shard   uint64
}

func newBatches(shard, most int, serial uint64) batches {
	return batches{shard: uint64(shard) << 56, serial: serial, most: min(most, 1<<16)}
}

// room tells whether take has a record.
func (b *batches) room() bool { return len(b.free) > 0 || len(b.records) < b.most }

// take returns a record with its new id, until the next take; room must be there.
func (b *batches) take() *batch {
	if len(b.free) == 0 {
		b.free = append(b.free, uint16(len(b.records)))
		b.records = append(b.records, batch{})
	}
	i := b.free[len(b.free)-1]
	b.free = b.free[:len(b.free)-1]
	b.serial = (b.serial + 1) & (1<<40 - 1)
	if b.serial == 0 {
		b.serial = 1
	}
	r := &b.records[i]
	r.id = wire.BatchID(b.shard | b.serial<<16 | uint64(i))
	return r
}

func (b *batches) find(id wire.BatchID) *batch {
	i := int(id & 0xffff)
	if id == 0 || i >= len(b.records) || b.records[i].id != id {
		return nil
	}
	return &b.records[i]
}

func (b *batches) give(r *batch) {
	b.free = append(b.free, uint16(r.id&0xffff))
	*r = batch{}
}

// ShardOf is the Index of the shard that made the id.
func ShardOf(id wire.BatchID) int { return int(id >> 56) }
