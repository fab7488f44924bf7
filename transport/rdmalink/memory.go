package rdmalink

import (
	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/pages"
)

// Map implements transport.Direct.
func (n *Network) Map(size int) ([]byte, error) {
	node := -1
	if n.cfg.NIC != nil {
		node = n.cfg.NIC.NUMANode()
	}
	return rdma.Map(size, node)
}

// Unmap implements transport.Direct.
func (n *Network) Unmap(m []byte) error { return rdma.Unmap(m) }

// Buffers implements transport.Direct.
func (n *Network) Buffers() transport.Allocator {
	if n.pool == nil {
		return transport.Heap{}
	}
	return buffers{n, n.pool}
}

// PoolNear implements transport.Sharing.
func (n *Network) PoolNear(node int, max int64, device pages.Registrar) (transport.Allocator, *pages.Pool) {
	if n.cfg.NIC == nil {
		return nil, nil
	}
	p := n.cfg.NIC.NewPoolNear(node, max, device)
	return buffers{n, p}, p
}

// buffers are a pool's, or the heap's where that is used up: inputs then go over
// TCP, and outputs are copied once more.
type buffers struct {
	n    *Network
	pool *pages.Pool
}

// Alloc implements transport.Allocator.
func (b buffers) Alloc(size int) []byte {
	if p, ok := b.pool.Alloc(size); ok {
		return p
	}
	if b.n.counters.heapBuffers.Add(1) == 1 {
		b.n.cfg.Logger.Warn().AnErr("cause", b.pool.Err()).Int64("limit", b.pool.Max()).
			Msg("no more registered memory for batches: some inputs go over TCP; raise rdma.buffers or the memlock limit")
	}
	return make([]byte, size)
}

// Free implements transport.Allocator.
func (b buffers) Free(p []byte) {
	if b.pool.Holds(p) {
		b.pool.Free(p)
	}
}
