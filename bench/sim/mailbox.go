package sim

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// message is on its way to the scheduler.
type message struct {
	at      mono.Time
	kind    messageKind
	model   wire.ModelID // submitted
	request batching.Request
	gpu     wire.GPUID   // reported, failed, loaded
	batch   wire.BatchID // reported
	took    mono.Dur     // reported
	end     mono.Time
	life    uint32            // failed, loaded: of the GPU
	load    policy.LoadReport // loaded
}

type messageKind uint8

const (
	submitted messageKind = iota
	reported
	failed
	loaded
)

// mailbox is the messages under way, by the instant of their arrival and then
// by the order in which they were sent. (Not so by slot: the heap breaks ties
// by id, and ids are reused.)
type mailbox struct {
	order pq.Sorted // key: instant, value: slot
	slots []message
	free  []uint32
}

func (m *mailbox) next() mono.Time {
	if m.order.Len() == 0 {
		return mono.Never
	}
	return mono.Time(m.order.At(0).Key)
}

func (m *mailbox) send(k message) {
	if len(m.free) == 0 {
		m.free = append(m.free, uint32(len(m.slots)))
		m.slots = append(m.slots, message{})
	}
	i := m.free[len(m.free)-1]
	m.free = m.free[:len(m.free)-1]
	m.slots[i] = k
	m.order.Insert(pq.Entry{Key: int64(k.at), Value: i})
}

func (m *mailbox) pop() message {
	i := m.order.Pop().Value
	m.free = append(m.free, i)
	return m.slots[i]
}
