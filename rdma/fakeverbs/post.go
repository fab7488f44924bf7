package fakeverbs

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport/mono"
)

// PostSend queues sends and executes what it can at once. In ERR they are
// flushed. See rdma.QP.
func (q *queuePair) PostSend(wrs []rdma.SendWR) (int, error) {
	q.d.f.mu.Lock()
	defer q.d.f.mu.Unlock()
	what := q.postsSends
	if err := q.usable(what); err != nil {
		return 0, err
	}
	if q.state != stateRTS && q.state != stateErr {
		return 0, q.d.fail(what, fmt.Sprintf("it is in %s", q.state), syscall.EINVAL)
	}
	now := mono.Now()
	due := now.Add(q.d.f.delay)
	posted, why := 0, error(nil)
	for _, wr := range wrs {
		if why = q.checkSend(&wr); why != nil {
			break
		}
		q.sends = append(q.sends, work{SendWR: wr, due: due})
		q.sendsTaken++
		posted++
	}
	q.advance(now)
	if why != nil {
		return posted, q.d.fail(what, fmt.Sprintf("request %d", posted), why)
	}
	return posted, nil
}

// checkSend says why a send cannot be posted. The lock is held.
func (q *queuePair) checkSend(wr *rdma.SendWR) error {
	if q.sendsTaken >= q.c.SendDepth {
		return fmt.Errorf("all %d slots are taken: %w", q.c.SendDepth, syscall.ENOMEM)
	}
	if int(wr.NumSGE) > q.c.SGEs {
		return fmt.Errorf("%d SGEs are more than %d: %w", wr.NumSGE, q.c.SGEs, syscall.EINVAL)
	}
	switch wr.Op {
	case rdma.OpWrite, rdma.OpWriteImm, rdma.OpSend, rdma.OpRead:
		return nil
	}
	return fmt.Errorf("unknown opcode %d: %w", wr.Op, syscall.EINVAL)
}

// PostRecv queues receives. A peer that waits for one comes back after its
// pause. In ERR they are flushed. See rdma.QP.
func (q *queuePair) PostRecv(wrs []rdma.RecvWR) (int, error) {
	q.d.f.mu.Lock()
	defer q.d.f.mu.Unlock()
	what := q.postsReceives
	if err := q.usable(what); err != nil {
		return 0, err
	}
	if q.state == stateReset {
		return 0, q.d.fail(what, fmt.Sprintf("it is in %s", q.state), syscall.EINVAL)
	}
	for posted, wr := range wrs {
		if q.recvsTaken >= q.c.RecvDepth {
			return posted, q.d.fail(what, fmt.Sprintf("all %d slots are taken", q.c.RecvDepth), syscall.ENOMEM)
		}
		q.recvs = append(q.recvs, wr)
		q.recvsTaken++
		if q.state == stateErr {
			q.flush()
		}
	}
	return len(wrs), nil
}

// endSend completes the first send. The lock is held.
func (q *queuePair) endSend(s rdma.Status) {
	w := q.sends[0]
	q.sends = slices.Delete(q.sends, 0, 1) // in place: posting must not allocate
	q.pauses, q.lost = 0, false
	q.quiet++
	if s == rdma.StatusOK && !w.Signaled {
		return
	}
	e := entry{q: q, taken: &q.sendsTaken, slots: q.quiet, Completion: rdma.Completion{ID: w.ID, QP: q.number, Status: s}}
	q.quiet = 0
	switch {
	case s != rdma.StatusOK:
		e.spoil()
	case w.Op == rdma.OpSend:
		e.Kind = rdma.DidSend
	case w.Op == rdma.OpRead:
		e.Kind = rdma.DidRead
	default:
		e.Kind = rdma.DidWrite
	}
	q.sendCQ.push(e)
}

// endRecv completes the first receive. The lock is held.
func (q *queuePair) endRecv(s rdma.Status, kind rdma.CompletionKind, n, imm uint32) {
	r := q.recvs[0]
	q.recvs = slices.Delete(q.recvs, 0, 1)
	e := entry{q: q, taken: &q.recvsTaken, slots: 1,
		Completion: rdma.Completion{ID: r.ID, QP: q.number, Status: s, Kind: kind, Bytes: n, Imm: imm}}
	if s != rdma.StatusOK {
		e.spoil()
	}
	q.recvCQ.push(e)
}

// spoil fills what an entry in error leaves undefined.
func (e *entry) spoil() {
	e.Kind, e.Bytes, e.Imm = nonsense, nonsense, nonsense
	e.Vendor = uint32(e.Status) // a device's own code could be anything
}

// fail moves the QP to ERR and flushes it. The lock is held.
func (q *queuePair) fail() {
	if q.state == stateErr || q.closed || q.d.dead {
		return
	}
	q.state = stateErr
	if q.timer != nil {
		q.timer.Stop()
	}
	q.flush()
}

// flush completes everything that is posted: sends, then receives. The lock is
// held.
func (q *queuePair) flush() {
	for len(q.sends) > 0 {
		q.endSend(rdma.StatusFlushed)
	}
	for len(q.recvs) > 0 {
		q.endRecv(rdma.StatusFlushed, 0, 0, 0)
	}
}
