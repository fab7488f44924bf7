//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package netprobe

import (
	"bytes"
	_ "embed" // for the object below
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/transport/mono"
)

// object is bpf/probe.c compiled for little-endian machines (`make bpf`).
//
//go:embed bpf/probe_bpfel.o
var object []byte

// Probe is the program in the kernel. It has no goroutine: who wants to know
// reads. All methods may be called from any goroutine.
type Probe struct {
	o       Options       // Immutable after Open.
	refused atomic.Uint64 // Watches that failed.

	mu      sync.RWMutex // Guards what follows; held while they are used.
	conns   *ebpf.Map
	program *ebpf.Program
	hook    link.Link
	watched int
	closed  bool
}

// Open loads the program. It fails with an *UnsupportedError that says in one
// line why: log it once and go on with heartbeats alone.
func Open(o Options) (*Probe, error) {
	p := &Probe{o: o.defaults()}
	if err := p.load(); err != nil {
		p.Close()
		return nil, unsupported(err)
	}
	return p, nil
}

func (p *Probe) load() error {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return fmt.Errorf("the embedded object: %w", err)
	}
	if _, err := btf.LoadKernelSpec(); err != nil {
		return fmt.Errorf("%w: %w", errNoBTF, err)
	}
	spec.Maps["connections"].MaxEntries = uint32(p.o.WatchesMax)
	var objects struct {
		Connections *ebpf.Map     `ebpf:"connections"`
		Segment     *ebpf.Program `ebpf:"segment"`
	}
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return err
	}
	p.conns, p.program = objects.Connections, objects.Segment
	p.hook, err = link.AttachTracing(link.TracingOptions{Program: p.program})
	return err
}

var errNoBTF = errors.New("no BTF")

// unsupported finds the one line that helps.
func unsupported(err error) error {
	e := &UnsupportedError{What: what, Err: err}
	lockdown, _ := os.ReadFile("/sys/kernel/security/lockdown")
	switch {
	case errors.Is(err, errNoBTF):
		e.Need = "a kernel with its types (CONFIG_DEBUG_INFO_BTF=y, /sys/kernel/btf/vmlinux readable)"
	case errors.Is(err, unix.EPERM) && strings.Contains(string(lockdown), "[confidentiality]"):
		e.Need = "a kernel that is not locked down to confidentiality"
	case errors.Is(err, unix.EPERM):
		e.Err = unix.EPERM // the loader's guess at the limit on locked memory misleads: it is no more since 5.11
		e.Need = "run as root or with CAP_BPF and CAP_PERFMON (a container also needs a seccomp profile that permits bpf)"
	default:
		e.Need = "Linux 5.12 or later with BPF tracing (CONFIG_BPF_EVENTS=y)"
	}
	return e
}

// Close takes the program out of the kernel. Watches keep the numbers that
// they read last. Idempotent.
func (p *Probe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	var err error
	if p.hook != nil {
		err = p.hook.Close()
	}
	return errors.Join(err, p.program.Close(), p.conns.Close())
}

// Counts are the connections watched now, and those that could not be.
func (p *Probe) Counts() (watched int, refused uint64) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.watched, p.refused.Load()
}

// Watch begins to count a live connection's round trips. ErrFull: as many as
// may be are watched. net.ErrClosed: conn or the probe is closed.
func (p *Probe) Watch(conn *net.TCPConn) (*Watch, error) {
	w, err := p.watch(conn)
	if err != nil {
		p.refused.Add(1)
		return nil, err
	}
	return w, nil
}

func (p *Probe) watch(conn *net.TCPConn) (*Watch, error) {
	id, err := cookie(conn)
	if err != nil {
		return nil, fmt.Errorf("netprobe: cannot watch a connection: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("netprobe: %w", net.ErrClosed)
	}
	err = p.conns.Update(id, &counters{}, ebpf.UpdateNoExist)
	switch {
	case errors.Is(err, unix.E2BIG):
		return nil, ErrFull
	case err != nil: // ErrKeyExist is a caller's mistake: one Watch a connection
		return nil, fmt.Errorf("netprobe: cannot watch a connection: %w", err)
	}
	p.watched++
	w := &Watch{probe: p, cookie: id, window: window{span: p.o.Window}}
	w.window.begin(mono.Now())
	return w, nil
}

// read fetches a connection's counters; false: not there any more.
func (p *Probe) read(id *uint64, c *counters) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return !p.closed && p.conns.Lookup(id, c) == nil
}

// forget takes a connection out.
func (p *Probe) forget(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched--
	if !p.closed {
		p.conns.Delete(id) // it can only be gone already
	}
}

// cookie is the kernel's name of a socket: never given twice until reboot.
func cookie(conn *net.TCPConn) (id uint64, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	if e := raw.Control(func(fd uintptr) {
		id, err = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE)
	}); e != nil {
		return 0, e
	}
	return id, err
}
