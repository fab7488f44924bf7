package shard

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// none ends a list of slots.
const none = ^uint32(0)

// slots is the fixed memory of requests; free ones form a list.
type slots struct {
	requests []batching.Request
	came     []mono.Time // when they were handed in
	next     []uint32    // the free list, or the list of a batch
	free     uint32
	used     int
}

func newSlots(n int) slots {
	s := slots{requests: make([]batching.Request, n), came: make([]mono.Time, n), next: make([]uint32, n), free: none}
	for i := n - 1; i >= 0; i-- {
		s.next[i], s.free = s.free, uint32(i)
	}
	return s
}

func (s *slots) take(r *batching.Request, came mono.Time) (uint32, bool) {
	i := s.free
	if i == none {
		return 0, false
	}
	s.free = s.next[i]
	s.requests[i], s.came[i] = *r, came
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

// batches is the fixed memory of running batches. A BatchID is the shard in
// bits 56-63, a serial in 16-55 and the record's index in 0-15, so that an id
// finds its record and a late report does not find another batch.
type batches struct {
	records []batch
	free    []uint16
	serial  uint64
	shard   uint64
}

func newBatches(shard, n int) batches {
	n = min(n, 1<<16)
	b := batches{records: make([]batch, n), free: make([]uint16, 0, n), shard: uint64(shard) << 56}
	for i := n - 1; i >= 0; i-- {
		b.free = append(b.free, uint16(i))
	}
	return b
}

// take returns a record with its new id; nil when all are in use.
func (b *batches) take() *batch {
	if len(b.free) == 0 {
		return nil
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
