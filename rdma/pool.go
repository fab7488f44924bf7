package rdma

import (
	"unsafe"

	"github.com/symphony-serving/symphony/transport/pages"
)

// Map gives zeroed memory outside the Go heap. See pages.Map.
func Map(n, node int) ([]byte, error) { return pages.Map(n, node) }

// Unmap gives memory of Map back.
func Unmap(m []byte) error { return pages.Unmap(m) }

// NewPool makes a pool of up to max bytes for what this host READs and sends.
func (n *NIC) NewPool(max int64) *pages.Pool { return n.NewPoolNear(n.cfg.NUMANode, max) }

// NewPoolNear makes one on a NUMA node, which other devices reach, too.
func (n *NIC) NewPoolNear(node int, max int64, others ...pages.Registrar) *pages.Pool {
	return pages.NewPool(node, max, append(others[:len(others):len(others)], &chunks{nic: n, regions: map[*byte]Region{}})...)
}

// chunks are one pool's, as this device knows them.
type chunks struct {
	nic     *NIC
	regions map[*byte]Region // by the chunk's first byte; guarded by the pool
}

// Register implements pages.Registrar.
func (c *chunks) Register(mem []byte) error {
	r, err := c.nic.Register(mem, LocalWrite)
	if err == nil {
		c.regions[unsafe.SliceData(mem)] = r
	}
	return err
}

// Unregister implements pages.Registrar.
func (c *chunks) Unregister(mem []byte) error {
	r := c.regions[unsafe.SliceData(mem)]
	delete(c.regions, unsafe.SliceData(mem))
	return r.Close()
}
