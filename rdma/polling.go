package rdma

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// PollMode says how a NIC waits for completions.
type PollMode uint8

const (
	// PollAdaptive spins for as long as that lately paid, then sleeps.
	PollAdaptive PollMode = iota
	// PollBusy never sleeps: it takes a core, and has the least delay.
	PollBusy
	// PollEvent always sleeps.
	PollEvent
)

// halt is how long to spin before sleeping, learnt from how long the waits
// were (the rule by which KVM polls before it halts a virtual CPU). A wait that a
// longer spin would have covered doubles the spin; one that was too long for any
// spin halves it. So traffic in quick succession is served by spinning, and an idle
// server sleeps at once.
type halt struct {
	most mono.Dur // Immutable; 0: never spin.
	spin mono.Dur
}

// haltFirst is the least spin that is worth its clock reads.
const haltFirst = 2 * mono.Microsecond

// waited learns from a sleep that brought a completion so long after the queues
// had run empty.
func (h *halt) waited(d mono.Dur) {
	if d > h.most {
		h.lull()
		return
	}
	h.spin = min(max(2*h.spin, haltFirst), h.most)
}

// lull learns from a wait that was too long.
func (h *halt) lull() {
	if h.spin /= 2; h.spin < haltFirst {
		h.spin = 0
	}
}

const (
	burst = 64 // completions of one crossing
	// spinTurns is how often one crossing looks at an empty queue: some microseconds
	// in C, so that the crossing itself is a small part of a spin.
	spinTurns = 64
	// sweepEvery is how often the thread looks for what no completion tells: stuck
	// sends, events of the device.
	sweepEvery = 100 * mono.Millisecond
	// sweepBursts is how many bursts without a pause pass before a look at the clock.
	sweepBursts = 256
	// sleepMax ends a sleep for the next sweep when there are Conns.
	sleepMax = sweepEvery
	// sleepIdle is that without any.
	sleepIdle = 10 * mono.Second
)

// counters of the polling thread.
type counters struct {
	completions, polls, sleeps atomic.Uint64
}

// poller is the state of a NIC's thread.
type poller struct {
	n       *NIC
	halt    halt
	space   [burst]Completion
	touched []*Conn
	empty   mono.Time // since when the queues are empty; 0: they are not
	swept   mono.Time
	bursts  uint
}

// run is the polling thread.
func (n *NIC) run() {
	defer close(n.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := poller{n: n, halt: halt{most: n.cfg.Spin}}
	if n.cfg.Poll == PollEvent {
		p.halt.most = 0
	}
	for !n.stopping.Load() {
		p.turn()
		n.passes.Add(1)
	}
}

// awaitPass waits until the polling thread has looked at all queues once more. (Not
// for ever: a handler that blocks must not block who closes another Conn.)
func (n *NIC) awaitPass() {
	n.channel.Wake()
	for from, end := n.passes.Load(), time.Now().Add(passMax); n.passes.Load() < from+2 && time.Now().Before(end); {
		n.channel.Wake()
		time.Sleep(time.Millisecond)
	}
}

// passMax bounds awaitPass.
const passMax = time.Second

// troublePause is between two looks at a device that answers with errors.
const troublePause = 100 * time.Millisecond

// trouble is an error of the device where none can be: it was taken away, most
// likely. Everything on it fails, once; the thread goes on slowly until Close.
func (p *poller) trouble() {
	if !p.n.broken.Swap(true) {
		p.n.cfg.Event(Event{Kind: EventDeviceFatal})
		p.n.act(Event{Kind: EventDeviceFatal})
	}
	time.Sleep(troublePause)
}

// turn polls all queues once, and sleeps when there is nothing for long enough.
func (p *poller) turn() {
	n := p.n
	if p.poll(spinTurns) {
		p.empty = 0
		if p.bursts++; p.bursts%sweepBursts == 0 {
			p.sweep(mono.Now())
		}
		return
	}
	now := mono.Now()
	p.sweep(now)
	if p.empty == 0 {
		p.empty = now
	}
	if n.cfg.Poll == PollBusy || now.Sub(p.empty) < p.halt.spin {
		return
	}
	for _, q := range *n.queues.Load() {
		if err := q.cq.Arm(); err != nil {
			p.trouble()
		}
	}
	if p.poll(1) { // came before the arming: no event tells of it
		p.halt.waited(mono.Now().Sub(p.empty))
		p.empty = 0
		return
	}
	p.sleep()
}

// sweep is due every sweepEvery.
func (p *poller) sweep(now mono.Time) {
	if now.Sub(p.swept) >= sweepEvery {
		p.swept = now
		p.n.sweep(now)
	}
}

// sleep waits for the channel.
func (p *poller) sleep() {
	most := sleepIdle
	if len(*p.n.conns.Load()) > 0 {
		most = sleepMax
	}
	p.n.counters.sleeps.Add(1)
	woken, err := p.n.channel.Wait(most)
	if err != nil {
		p.trouble()
	}
	if woken {
		p.halt.waited(mono.Now().Sub(p.empty))
	} else {
		p.halt.lull()
	}
	p.empty = 0
}

// poll takes one burst of each queue and hands it out; false: all were empty.
func (p *poller) poll(turns int) bool {
	queues := *p.n.queues.Load()
	if len(queues) > 1 {
		turns = 1
	}
	got := false
	p.n.counters.polls.Add(1)
	for _, q := range queues {
		k, err := q.cq.Poll(p.space[:], turns)
		if err != nil {
			p.trouble()
			continue
		}
		if k > 0 {
			got = true
			p.n.counters.completions.Add(uint64(k))
			p.hand(p.space[:k])
		}
	}
	if len(queues) == 0 {
		return false
	}
	return got
}

// hand gives completions to their Conns. A run of one Conn's is handed in one
// piece, and each Conn that got any has its Turn at the end.
func (p *poller) hand(all []Completion) {
	conns := *p.n.conns.Load()
	p.touched = p.touched[:0]
	for i := 0; i < len(all); {
		k := i + 1
		for k < len(all) && all[k].QP == all[i].QP {
			k++
		}
		if c := conns[all[i].QP]; c != nil {
			c.take(all[i:k])
			if !c.touched {
				c.touched = true
				p.touched = append(p.touched, c)
			}
		}
		i = k
	}
	for _, c := range p.touched {
		c.touched = false
		c.turn()
	}
	clear(p.touched) // a closed Conn, and its user's memory, must not stay for our sake
}

// sweep looks for what no completion tells.
func (n *NIC) sweep(now mono.Time) {
	for _, c := range *n.conns.Load() {
		c.checkStuck(now, n.cfg.StuckAfter)
	}
	var events [16]Event
	k, _ := n.device.Async(events[:])
	for _, e := range events[:k] {
		n.cfg.Event(e)
		n.act(e)
	}
}

// act fails the Conns that an event is about. A port that is down would show by
// itself, after all retries; who has another way to go should not wait for that.
func (n *NIC) act(e Event) {
	conns := *n.conns.Load()
	switch {
	case e.Kind == EventQPFatal:
		if c := conns[e.QP]; c != nil {
			c.fail(fmt.Errorf("RDMA: the device reports: %v", e.Kind))
			c.turn()
		}
	case e.Kind == EventPortDown && e.Port == n.cfg.Port, e.Kind == EventDeviceFatal, e.Kind == EventCQError:
		if e.Kind == EventCQError {
			n.retireQueues()
		}
		for _, c := range conns {
			c.fail(fmt.Errorf("RDMA: the device reports: %v", e.Kind))
			c.turn()
		}
	}
}

// PollStats are the polling thread's counters since it began.
type PollStats struct {
	Completions, Polls, Sleeps uint64
}

// PollStats of the NIC's thread.
func (n *NIC) PollStats() PollStats {
	c := &n.counters
	return PollStats{Completions: c.completions.Load(), Polls: c.polls.Load(), Sleeps: c.sleeps.Load()}
}
