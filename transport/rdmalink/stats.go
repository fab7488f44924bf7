package rdmalink

import "sync/atomic"

// counters of a Network.
type counters struct {
	lanesUp, lanesLost       atomic.Int64
	linksRDMA, linksTCP      atomic.Int64
	readsRDMA, readBytesRDMA atomic.Uint64
	readsTCP, readBytesTCP   atomic.Uint64
	readsStale, readsMoved   atomic.Uint64
	sends, writes            atomic.Uint64
	heapBuffers              atomic.Uint64
}

func (c *counters) links(rdma, tcp int64) {
	c.linksRDMA.Add(rdma)
	c.linksTCP.Add(tcp)
}

// Stats are a Network's counters since it was made.
type Stats struct {
	LinksRDMA, LinksTCP      int64  // now: with a lane, and without
	LanesUp, LanesLost       int64  // in all
	ReadsRDMA, ReadBytesRDMA uint64 // inputs that came by one-sided READ
	ReadsTCP, ReadBytesTCP   uint64 // inputs that came over TCP
	ReadsStale               uint64 // READs whose slab held another input by then
	ReadsMoved               uint64 // READs that a lost lane left to TCP
	Sends, Writes            uint64 // messages by SEND, by WRITE with immediate
	HeapBuffers              uint64 // buffers that the device does not reach
}

// Stats are the Network's counters.
func (n *Network) Stats() Stats {
	c := &n.counters
	return Stats{LinksRDMA: c.linksRDMA.Load(), LinksTCP: c.linksTCP.Load(), LanesUp: c.lanesUp.Load(), LanesLost: c.lanesLost.Load(),
		ReadsRDMA: c.readsRDMA.Load(), ReadBytesRDMA: c.readBytesRDMA.Load(), ReadsTCP: c.readsTCP.Load(), ReadBytesTCP: c.readBytesTCP.Load(),
		ReadsStale: c.readsStale.Load(), ReadsMoved: c.readsMoved.Load(), Sends: c.sends.Load(), Writes: c.writes.Load(),
		HeapBuffers: c.heapBuffers.Load()}
}
