package rdmalink

import "github.com/symphony-serving/symphony/transport"

// Forget takes the slabs' registration away behind everybody's back.
func (n *Network) Forget(source transport.RemoteSlabs) {
	memory, _ := source.Memory()
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.slabs[&memory[0]]
	if err := s.region.Close(); err != nil {
		panic(err)
	}
	delete(n.slabs, &memory[0])
}
