//go:build !(linux && (amd64 || arm64 || loong64 || ppc64le || riscv64))

package netprobe

import "net"

// Probe cannot be had on this system.
type Probe struct{}

// Open says so.
func Open(Options) (*Probe, error) {
	return nil, &UnsupportedError{What: what, Need: "Linux on a little-endian 64-bit machine"}
}

// Watch is never called: there is no Probe.
func (p *Probe) Watch(*net.TCPConn) (*Watch, error) { return nil, net.ErrClosed }

// Counts are zero.
func (p *Probe) Counts() (watched int, refused uint64) { return 0, 0 }

// Close has nothing to do.
func (p *Probe) Close() error { return nil }

func (p *Probe) read(*uint64, *counters) bool { return false }

func (p *Probe) forget(uint64) {}
