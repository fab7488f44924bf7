//go:build unix

package drivertest

import (
	"testing"

	"golang.org/x/sys/unix"
)

// outside gives memory outside the Go heap, as an RDMA device's buffers are.
func outside(t *testing.T, n int) (m []byte, free func()) {
	t.Helper()
	m, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	must(t, err)
	return m, func() { must(t, unix.Munmap(m)) }
}
