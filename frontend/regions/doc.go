// Package regions is the shared memory of clients on this host: they register pieces of POSIX shared
// memory objects by name, and send names instead of tensors (Triton's system shared memory extension).
//
//	client --shm_open, write--> /dev/shm/KEY <--pread-- Regions.Read --> slab
//
// # Invariants
//
//  1. What is read or written lies in the region, and the region in its object: looked at when it is
//     registered, and with each access, since its owner may make the object smaller at any time.
//  2. Whoever removes a region does not wait for its users; they find it gone, or end.
//  3. There are at most Max regions: each holds a file.
//
// Who may register is not decided here but by address (SameHost): an object is any that this process may
// write. So a server has regions only where its owner says that no proxy on the host lets others in.
//
// # Rejected
//
// Mapping the memory: who makes an object smaller, or ends it, kills with SIGBUS whoever touches what
// is gone. A read by the kernel copies as much, straight into the slab, and fails with an error.
package regions
