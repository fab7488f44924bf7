package nexus

import (
	"sort"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// undoneMax is how many batches a GPU is given at a time: one that runs, one
// that is on its way.
const undoneMax = 2

// gpu is a GPU with the queues of the sessions that it runs.
type gpu struct {
	alive       bool
	free        mono.Time // when the last batch ends, as far as is known
	undone      []wire.BatchID
	slots       []slot
	first, last int32 // turn: slots that wait, linked by next; none when first is none
}

// slot is a session on a GPU.
//
// Invariant: it is in the GPU's turn exactly when its queue is not empty.
type slot struct {
	model wire.ModelID
	batch int // planned size
	queue policy.Queue
	next  int32
}

const none = int32(-1)

// push queues a request in a slot.
func (g *gpu) push(i int32, r batching.Request) {
	if g.slots[i].queue.Len() == 0 {
		g.enqueue(i)
	}
	g.slots[i].queue.Push(r)
}

// enqueue puts a slot at the end of the turn.
func (g *gpu) enqueue(i int32) {
	g.slots[i].next = none
	if g.first == none {
		g.first = i
	} else {
		g.slots[g.last].next = i
	}
	g.last = i
}

// arm sets the timer at which the GPU's next batch is ordered: so early that
// it arrives when the GPU is free.
func (s *Scheduler) arm(id wire.GPUID) {
	g := &s.gpus[id]
	if g.first == none || len(g.undone) == undoneMax {
		s.timers.Remove(uint32(id))
		return
	}
	s.timers.Set(uint32(id), int64(g.free.Add(-s.cfg.Delay.Of(g.slots[g.first].batch))))
}

// serve gives the slot whose turn it is a batch, after the early drop. Each
// call takes at least one request out of its queue.
func (s *Scheduler) serve(now mono.Time, id wire.GPUID, out *policy.Out) {
	g := &s.gpus[id]
	i := g.first
	k := &g.slots[i]
	g.first = k.next
	s.earlyDrop(now, g, k, out)
	if b := min(k.batch, k.queue.Len()); b > 0 {
		first, length := k.queue.Deadline(0), s.models[k.model].profile.Latency(b)
		exec := s.start(now, g, b)
		s.batch = s.batch[:0]
		for range b {
			s.batch = append(s.batch, k.queue.Pop())
		}
		g.free = exec.Add(length)
		invariants.Check(g.free <= first, "nexus: a batch that ends after its deadline")
		run := s.ledger.Start(policy.Running{Model: k.model, GPU: id, Exec: exec, Until: g.free, Requests: s.batch}, out)
		g.undone = append(g.undone, run.ID)
	}
	if k.queue.Len() > 0 {
		g.enqueue(i)
	}
	s.arm(id)
}

// start is when a batch of b that is ordered now would start.
func (s *Scheduler) start(now mono.Time, g *gpu, b int) mono.Time {
	return max(now.Add(s.cfg.Delay.Of(b)), g.free)
}

// earlyDrop gives up requests from the front until the window that begins with
// the next one, the planned size or all there is, ends by that one's deadline.
// From window to window the deadline rises and the size does not, so a binary
// search finds the first that fits.
func (s *Scheduler) earlyDrop(now mono.Time, g *gpu, k *slot, out *policy.Out) {
	p, n := s.models[k.model].profile, k.queue.Len()
	skip := sort.Search(n, func(i int) bool {
		b := min(k.batch, n-i)
		return s.start(now, g, b).Add(p.Latency(b)) <= k.queue.Deadline(i)
	})
	if skip == 0 {
		return
	}
	alone := s.start(now, g, 1).Add(p.Latency(1))
	for range skip {
		r, reason := k.queue.Pop(), wire.ReasonShed
		if r.Deadline < alone {
			reason = wire.ReasonDeadline
		}
		s.drop(r, reason, out)
	}
}

// done takes note of a batch's end. When another was ordered behind it, that
// one starts when it was planned to, or now that the GPU is free.
func (s *Scheduler) done(g *gpu, batch wire.BatchID, end mono.Time) {
	n := 0
	for _, id := range g.undone {
		if id != batch {
			g.undone[n] = id
			n++
		}
	}
	g.undone = g.undone[:n]
	g.free = end
	if n > 0 {
		r := s.ledger.Find(g.undone[n-1])
		g.free = max(end, r.Exec).Add(r.Until.Sub(r.Exec))
	}
}
