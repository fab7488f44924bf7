package fakeverbs

import "github.com/symphony-serving/symphony/rdma"

// What follows is done to the QP that is sent to, by its device. Each gives the
// status that the sender is told.

// serveRead copies to the reader. The lock is held.
func (p *queuePair) serveRead(w *work, local [2][]byte, n uint32) rdma.Status {
	if p.access&rdma.RemoteRead == 0 || p.peering.MaxReads == 0 {
		return p.refuseAs(rdma.StatusRemoteInvalid)
	}
	mem, ok := p.d.remote(w.Remote, n, w.RKey, rdma.RemoteRead)
	if !ok {
		return p.refuseAs(rdma.StatusRemoteAccess)
	}
	for _, dst := range local {
		mem = mem[copy(dst, mem):]
	}
	return rdma.StatusOK
}

// serveWrite takes a WRITE; one with immediate ends the first receive, of which
// the memory is not touched. The lock is held.
func (p *queuePair) serveWrite(w *work, local [2][]byte, n uint32) rdma.Status {
	if p.access&rdma.RemoteWrite == 0 {
		return p.refuseAs(rdma.StatusRemoteInvalid)
	}
	mem, ok := p.d.remote(w.Remote, n, w.RKey, rdma.RemoteWrite)
	if !ok {
		return p.refuseAs(rdma.StatusRemoteAccess)
	}
	scatter(mem, local)
	if w.Op == rdma.OpWriteImm {
		p.endRecv(rdma.StatusOK, rdma.DidRecvImm, n, w.Imm)
	}
	return rdma.StatusOK
}

// serveSend fills the first receive. The lock is held.
func (p *queuePair) serveSend(local [2][]byte, n uint32) rdma.Status {
	sge := p.recvs[0].SGE
	if n > sge.Length {
		p.endRecv(rdma.StatusLocalLength, 0, 0, 0)
		p.fail()
		return rdma.StatusRemoteInvalid
	}
	mem, ok := p.d.local(sge, rdma.LocalWrite)
	if !ok {
		p.endRecv(rdma.StatusLocalProtection, 0, 0, 0)
		p.fail()
		return rdma.StatusRemoteOperation
	}
	scatter(mem, local)
	p.endRecv(rdma.StatusOK, rdma.DidRecv, n, 0)
	return rdma.StatusOK
}

func scatter(dst []byte, from [2][]byte) {
	for _, src := range from {
		dst = dst[copy(dst, src):]
	}
}

// refuse fails the QP for what its peer has asked. No receive tells of it, so an
// event does. The lock is held.
func (p *queuePair) refuse() {
	p.d.report(rdma.Event{Kind: rdma.EventQPFatal, QP: p.number})
	p.fail()
}

func (p *queuePair) refuseAs(s rdma.Status) rdma.Status {
	p.refuse()
	return s
}
