package fakeverbs

import (
	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Freeze stops everything that is under way: nothing that is posted executes or
// completes, and nothing times out. Flushing goes on: it is the device's own.
func (f *Fabric) Freeze() { f.change(func() { f.frozen = true }) }

// Thaw lets it go on.
func (f *Fabric) Thaw() { f.change(func() { f.frozen = false }) }

// Partition cuts two hosts from each other: what is outstanding between them
// ends in StatusRetryExceeded after Config.RetryDelay.
func (f *Fabric) Partition(a, b string) { f.change(func() { f.cut[pairOf(a, b)] = true }) }

// Heal joins them again. QPs that have failed meanwhile stay so.
func (f *Fabric) Heal(a, b string) { f.change(func() { delete(f.cut, pairOf(a, b)) }) }

// SetDelay sets the span from posting to execution of what is posted from now on.
func (f *Fabric) SetDelay(d mono.Dur) { f.change(func() { f.delay = d }) }

// Down takes the NIC's port down: EventPortDown, and what is outstanding to or
// from it ends in StatusRetryExceeded after Config.RetryDelay.
func (n *NIC) Down() {
	n.f.change(func() {
		if !n.down {
			n.down = true
			n.report(rdma.Event{Kind: rdma.EventPortDown, Port: 1})
		}
	})
}

// Up takes it up again: EventPortUp. QPs that have failed meanwhile stay so.
func (n *NIC) Up() {
	n.f.change(func() {
		if n.down {
			n.down = false
			n.report(rdma.Event{Kind: rdma.EventPortUp, Port: 1})
		}
	})
}

// Kill ends all that is open of the NIC at once, as when its process was killed
// or the device has had a fatal error. Who made it gets EventDeviceFatal; nothing
// of his completes any more, and he can only poll what had completed, and Close.
// To the peers it is gone. The NIC can be opened anew.
func (n *NIC) Kill() {
	n.f.change(func() {
		n.report(rdma.Event{Kind: rdma.EventDeviceFatal})
		for _, d := range n.devices {
			d.dead = true
		}
	})
}

// Kill kills all NICs of the host.
func (h *Host) Kill() {
	for _, n := range h.nics {
		n.Kill()
	}
}

// FailNext makes the next send that the QP executes end in status; QP number 0:
// the next of any QP of the NIC. Where status is one that a peer reports
// (StatusRemote...), the peer's QP fails too.
func (n *NIC) FailNext(qpn uint32, status rdma.Status) {
	n.f.change(func() { n.faults[qpn] = status })
}

// fault takes the status that was ordered for the next send of QP qpn. The lock
// is held.
func (n *NIC) fault(qpn uint32) (rdma.Status, bool) {
	for _, key := range []uint32{qpn, 0} {
		if s, ok := n.faults[key]; ok {
			delete(n.faults, key)
			return s, true
		}
	}
	return 0, false
}

// report tells all who have opened the NIC. The lock is held.
func (n *NIC) report(e rdma.Event) {
	for _, d := range n.devices {
		if !d.dead {
			d.report(e)
		}
	}
}

// change makes a change and lets every QP look again, as if nothing had stood in
// its way so far.
func (f *Fabric) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	now := mono.Now()
	f.each(func(q *queuePair) {
		if q.lost {
			q.lost, q.resume = false, now
		}
		q.advance(now)
	})
}
