package rdma

import (
	"fmt"
	"slices"
	"unsafe"
)

// registered is a Region and where it lies.
type registered struct {
	Region
	nic  *NIC
	mem  []byte
	base uint64
}

// AddressOf is where b's bytes lie, as devices name it.
func AddressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// Register makes mem, which must lie outside the Go heap, known to the device.
// Close of the Region ends that; it must come before mem is unmapped.
func (n *NIC) Register(mem []byte, access Access) (Region, error) {
	n.registering.Lock()
	defer n.registering.Unlock()
	if n.stopping.Load() {
		return nil, ErrClosed
	}
	r, err := n.device.Register(mem, access)
	if err != nil {
		return nil, fmt.Errorf("RDMA device %s: registering %d bytes: %w", n.Name(), len(mem), err)
	}
	reg := &registered{Region: r, nic: n, mem: mem, base: AddressOf(mem)}
	all := append(slices.Clone(*n.regions.Load()), reg)
	slices.SortFunc(all, func(a, b *registered) int {
		if a.base < b.base {
			return -1
		}
		return 1
	})
	n.regions.Store(&all)
	return reg, nil
}

// Close takes the region out of the NIC's table first.
func (r *registered) Close() error {
	n := r.nic
	n.registering.Lock()
	all := slices.DeleteFunc(slices.Clone(*n.regions.Load()), func(x *registered) bool { return x == r })
	n.regions.Store(&all)
	n.registering.Unlock()
	return r.Region.Close()
}

// LocalKey finds the key of the region that b lies in whole; false: in none.
func (n *NIC) LocalKey(b []byte) (lkey uint32, ok bool) {
	if len(b) == 0 {
		return 0, false
	}
	at := AddressOf(b)
	all := *n.regions.Load()
	i, found := slices.BinarySearchFunc(all, at, func(r *registered, at uint64) int {
		switch {
		case r.base < at:
			return -1
		case r.base > at:
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	if i < 0 || at+uint64(len(b)) > all[i].base+uint64(len(all[i].mem)) {
		return 0, false
	}
	return all[i].LKey(), true
}
