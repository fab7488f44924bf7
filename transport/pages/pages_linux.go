package pages

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	hugePage   = 2 << 20
	mpolPrefer = 1 // MPOL_PREFERRED
)

// Map gives n bytes of zeroed memory outside the Go heap: in huge pages where the
// host keeps some (a device translates few of them faster than many small ones),
// on a NUMA node where node is not negative, as far as the kernel follows.
func Map(n, node int) ([]byte, error) {
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON
	if n >= hugePage && n%hugePage == 0 {
		if m, err := unix.Mmap(-1, 0, n, prot, flags|unix.MAP_HUGETLB); err == nil {
			bind(m, node)
			return m, nil
		}
	}
	m, err := unix.Mmap(-1, 0, n, prot, flags)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes: %w", n, err)
	}
	if n >= hugePage {
		unix.Madvise(m, unix.MADV_HUGEPAGE)
	}
	bind(m, node)
	return m, nil
}

// Unmap gives memory of Map back.
func Unmap(m []byte) error { return unix.Munmap(m) }

// bind prefers a node for pages that are not there yet. A preference: where the
// node is full, memory elsewhere is better than none.
func bind(m []byte, node int) {
	if node < 0 || node > 63 {
		return
	}
	mask := uint64(1) << node
	unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(m))), uintptr(len(m)), mpolPrefer,
		uintptr(unsafe.Pointer(&mask)), 64+1, 0)
}
