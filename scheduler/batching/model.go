package batching

import (
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Dropped is a slot that left the queue without a batch.
type Dropped struct {
	Slot   uint32
	Reason wire.Reason
}

// Model is one model's queue and candidate.
type Model struct {
	cfg       Config
	queue     pq.Sorted // key: deadline, value: slot
	candidate Candidate
	target    int
	supply    supply
}

// NewModel makes an empty queue.
func NewModel(cfg Config) *Model {
	m := &Model{cfg: cfg}
	m.retarget()
	return m
}

// Len is the number of waiting requests.
func (m *Model) Len() int { return m.queue.Len() }

// Candidate is the batch that the last Update formed.
func (m *Model) Candidate() Candidate { return m.candidate }

// Target is the batch size that the target policy holds under overload.
func (m *Model) Target() int { return m.target }

// Profile is the latency profile in force.
func (m *Model) Profile() *profile.Profile { return m.cfg.Profile }

// Delay is the network's delay bound in force.
func (m *Model) Delay() Delay { return m.cfg.Delay }

// SetProfile, SetDelay and SetGPUs change what Update reckons with; call
// Update afterwards.
func (m *Model) SetProfile(p *profile.Profile) { m.cfg.Profile = p; m.retarget() }

// SetDelay sets the network's delay bound.
func (m *Model) SetDelay(d Delay) { m.cfg.Delay = d; m.retarget() }

// SetWindow sets the rule for exec.
func (m *Model) SetWindow(w Window) { m.cfg.Window = w }

// SetConfig replaces the whole configuration and keeps the queue.
func (m *Model) SetConfig(cfg Config) { m.cfg = cfg; m.retarget() }

// SetGPUs sets how many GPUs the model can count on.
func (m *Model) SetGPUs(n int) { m.cfg.GPUs = n; m.retarget() }

// retarget: the staggered batch is what fits when arrivals are even; Poisson
// arrivals need room, or every second batch is just short of it. A fifth less
// was the best or near it in each workload of coretest.
func (m *Model) retarget() {
	slo := m.cfg.SLO - m.cfg.Delay.Ctrl
	staggered := m.cfg.Profile.Staggered(slo, max(1, m.cfg.GPUs))
	m.target = max(1, staggered-(staggered+2)/5)
}

// Push queues a request; false when the queue is full.
func (m *Model) Push(deadline mono.Time, slot uint32) bool {
	if m.queue.Len() >= m.cfg.QueueMax {
		return false
	}
	m.queue.Insert(pq.Entry{Key: int64(deadline), Value: slot})
	return true
}

// PopAny takes the first waiting request out, for a model that goes away.
func (m *Model) PopAny() (slot uint32, ok bool) {
	if m.queue.Len() == 0 {
		return 0, false
	}
	return m.queue.Pop().Value, true
}

// Update drops the heads that cannot make it any more and forms the candidate
// anew; call it after every change and at NextWake. (UPDATECANDIDATE)
func (m *Model) Update(now mono.Time, drops []Dropped) []Dropped {
	for m.queue.Len() > 0 {
		if b := m.fit(m.deadline(0), now, mono.Past); b > 0 {
			m.candidate = m.window(min(b, m.queue.Len()), now)
			invariants.Check(m.candidate.Exec <= m.candidate.Latest, "batching: a window that ends before it begins")
			invariants.Check(m.NextWake() > now, "batching: a candidate that has expired when it is formed")
			return drops
		}
		drops = append(drops, Dropped{m.queue.Pop().Value, wire.ReasonDeadline})
	}
	m.candidate = Candidate{}
	return drops
}

// window is the candidate of size b at the front of the queue.
func (m *Model) window(b int, now mono.Time) Candidate {
	d, p := m.deadline(0), m.cfg.Profile
	c := Candidate{Size: b, Latest: d.Add(-p.Latency(b)), Delay: m.cfg.Delay.Of(b)}
	c.Exec = now.Add(c.Delay)
	switch {
	case b >= p.MaxBatch():
	case m.cfg.Window == WindowDeferred:
		c.Exec = max(c.Exec, d.Add(-p.Latency(b+1)-m.cfg.Delay.lead(d.Sub(now))))
	case m.cfg.Window == WindowTimeout:
		c.Exec = max(c.Exec, min(c.Latest, d.Add(m.cfg.Timeout-m.cfg.SLO)))
	}
	return c
}

// NextWake is when the candidate stops being possible; Never without one.
func (m *Model) NextWake() mono.Time {
	if m.candidate.Size == 0 {
		return mono.Never
	}
	return m.candidate.Latest.Add(-m.candidate.Delay).Add(1)
}

// Take finalises the batch for a GPU that is free at gpuFree: it appends the
// slots to batch and what was dropped to drops, and says when the batch
// starts. The batch is empty when nothing waits that this GPU could still serve
// in time. Call Update afterwards. (The first half of DISPATCH)
func (m *Model) Take(now, gpuFree mono.Time, batch []uint32, drops []Dropped) ([]uint32, []Dropped, mono.Time) {
	drops = m.Update(now, drops)
	b := m.batchFor(now, gpuFree)
	if b == 0 {
		return batch, drops, 0
	}
	if skip := m.shed(b, now, gpuFree); skip > 0 {
		for range skip {
			drops = append(drops, Dropped{m.queue.Pop().Value, wire.ReasonShed})
		}
		b = m.batchFor(now, gpuFree)
	}
	start := max(now.Add(m.cfg.Delay.Of(b)), gpuFree) // a finished batch has nothing to wait for
	invariants.Check(start <= m.deadline(0).Add(-m.cfg.Profile.Latency(b)), "batching: a batch that starts after its latest")
	m.supply.add(start, m.cfg.Profile.Latency(b))
	for range b {
		batch = append(batch, m.queue.Pop().Value)
	}
	return batch, drops, start
}

func (m *Model) batchFor(now, gpuFree mono.Time) int {
	if m.queue.Len() == 0 {
		return 0
	}
	return min(m.fit(m.deadline(0), now, gpuFree), m.queue.Len())
}

// fit is the largest batch with earliest deadline d that can start now, or
// when the GPU is free. The queue's length does not bound it.
func (m *Model) fit(d, now, gpuFree mono.Time) int {
	p, delay := m.cfg.Profile, m.cfg.Delay
	b := p.Largest(d.Sub(now)-delay.Ctrl, delay.Data)
	if gpuFree > now {
		b = min(b, p.Largest(d.Sub(gpuFree), 0))
	}
	return b
}

func (m *Model) deadline(i int) mono.Time { return mono.Time(m.queue.At(i).Key) }
