package fakeverbs

import (
	"time"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport/mono"
)

// advance executes sends in order until one has to wait; then it sets the timer.
// The lock is held.
func (q *queuePair) advance(now mono.Time) {
	if q.d.dead || q.closed {
		return
	}
	if q.state == stateErr {
		q.flush()
		return
	}
	for len(q.sends) > 0 && q.state == stateRTS && !q.d.f.frozen {
		w := &q.sends[0]
		if at := max(w.due, q.resume); now < at {
			q.later(at.Sub(now))
			return
		}
		status, pause := q.execute(w, now)
		if pause > 0 {
			q.resume = now.Add(pause)
			continue
		}
		if q.state != stateRTS { // what the peer did has failed us: a QP joined to itself, a shared CQ overrun
			return
		}
		q.endSend(status)
		if status != rdma.StatusOK {
			q.fail()
		}
	}
}

// later makes the QP look again after d. The lock is held.
func (q *queuePair) later(d mono.Dur) {
	if q.timer != nil {
		q.timer.Reset(d.Std())
		return
	}
	q.timer = time.AfterFunc(d.Std(), func() {
		q.d.f.mu.Lock()
		defer q.d.f.mu.Unlock()
		q.advance(mono.Now())
	})
}

// execute does a send, or says after which pause to try again. The lock is held.
func (q *queuePair) execute(w *work, now mono.Time) (rdma.Status, mono.Dur) {
	peer := q.peer()
	if status, ok := q.d.nic.fault(q.number); ok {
		if peer != nil && reported(status) {
			peer.refuse()
		}
		return status, 0
	}
	local, n, status := q.gather(w)
	if status != rdma.StatusOK {
		return status, 0
	}
	if peer == nil {
		return q.unreachable(now)
	}
	q.lost = false
	if (w.Op == rdma.OpSend || w.Op == rdma.OpWriteImm) && len(peer.recvs) == 0 {
		return q.notReady()
	}
	switch w.Op {
	case rdma.OpRead:
		if q.sending.MaxReads == 0 {
			return rdma.StatusLocalQP, 0
		}
		return peer.serveRead(w, local, n), 0
	case rdma.OpSend:
		return peer.serveSend(local, n), 0
	}
	return peer.serveWrite(w, local, n), 0
}

// reported says whether a status is the peer's word.
func reported(s rdma.Status) bool {
	return s == rdma.StatusRemoteAccess || s == rdma.StatusRemoteInvalid || s == rdma.StatusRemoteOperation
}

// gather finds the local memory of a send, and its length. The lock is held.
func (q *queuePair) gather(w *work) (local [2][]byte, n uint32, s rdma.Status) {
	right := rdma.Access(0)
	if w.Op == rdma.OpRead {
		right = rdma.LocalWrite
	}
	sum := uint64(0)
	for i, sge := range w.SGEs[:w.NumSGE] {
		mem, ok := q.d.local(sge, right)
		if !ok {
			return local, 0, rdma.StatusLocalProtection
		}
		local[i] = mem
		sum += uint64(len(mem))
	}
	if sum > uint64(q.d.f.c.MessageMax) {
		return local, 0, rdma.StatusLocalLength
	}
	return local, uint32(sum), rdma.StatusOK
}

// peer gives the QP that ours is joined to, if packets get there and are taken:
// it is ready to receive from us, and our PSNs are those that it expects. The
// lock is held.
func (q *queuePair) peer() *queuePair {
	there := q.d.f.find(q.peering.GID, q.peering.LID)
	if there == nil || !q.d.f.joined(q.d.nic, there) {
		return nil
	}
	p := there.qps[q.peering.QPN]
	if p == nil || p.d.dead || p.state != stateRTR && p.state != stateRTS {
		return nil
	}
	if p.peering.QPN != q.number || p.peering.PSN != q.sending.PSN || !q.d.nic.at(p.peering.GID, p.peering.LID) {
		return nil
	}
	return p
}

// unreachable waits, and gives up when it has. The lock is held.
func (q *queuePair) unreachable(now mono.Time) (rdma.Status, mono.Dur) {
	if q.lost {
		return rdma.StatusRetryExceeded, 0
	}
	q.lost = true
	return 0, q.d.f.c.RetryDelay
}

// notReady waits for the peer to post a receive, as often as it may. The lock is
// held.
func (q *queuePair) notReady() (rdma.Status, mono.Dur) {
	const forEver = 7
	if most := int(q.sending.RNRRetry); most < forEver && q.pauses >= most {
		return rdma.StatusRNRExceeded, 0
	}
	q.pauses++
	return 0, q.d.f.c.RNRPause
}
