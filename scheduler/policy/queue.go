package policy

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Queue is the waiting requests of one model, by deadline and then by priority, first in first out
// among equals. The zero Queue is empty.
type Queue struct {
	order pq.Sorted // key: deadline, then priority; value: index in slots
	slots []batching.Request
	free  []uint32
}

// Len is the number of waiting requests.
func (q *Queue) Len() int { return q.order.Len() }

// At is request i from the front.
func (q *Queue) At(i int) *batching.Request { return &q.slots[q.order.At(i).Value] }

// Deadline is the deadline of request i from the front.
func (q *Queue) Deadline(i int) mono.Time { return mono.Time(q.order.At(i).Key) }

// Below counts the requests that are due before t.
func (q *Queue) Below(t mono.Time) int { return q.order.Below(int64(t)) }

// Push queues a request.
func (q *Queue) Push(r batching.Request) {
	if len(q.free) == 0 {
		q.free = append(q.free, uint32(len(q.slots)))
		q.slots = append(q.slots, batching.Request{})
	}
	i := q.free[len(q.free)-1]
	q.free = q.free[:len(q.free)-1]
	q.slots[i] = r
	q.order.Insert(pq.Entry{Key: int64(r.Deadline), Then: r.Priority.Order(), Value: i})
}

// Pop takes the first request out; it panics when there is none.
func (q *Queue) Pop() batching.Request {
	i := q.order.Pop().Value
	q.free = append(q.free, i)
	return q.slots[i]
}
