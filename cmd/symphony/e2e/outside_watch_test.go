package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// alone is a host without any other: all addresses are its own (a local default route over
// loopback), so that whatever a process sends to one beyond 127.0.0.0/8 and ::1 is a packet
// there, which the watcher sees. Names are asked of resolver, which is outside.
type alone struct {
	*space
	home     string // of the processes, empty at first
	resolved string // the resolv.conf that they see
	seen     *watcher
}

// resolver is of TEST-NET-1, which no host has.
const resolver = "192.0.2.53"

func newAlone(t *testing.T) *alone {
	t.Helper()
	l := bareLab(t)
	if out, err := l.add("alone"); err != nil {
		l.lacks(fmt.Sprintf("no network namespace: %v: %s", err, out))
	}
	l.ip("alone", "link", "set", "lo", "up")
	l.ip("alone", "route", "add", "local", "default", "dev", "lo")
	if _, err := os.Stat("/proc/net/if_inet6"); err == nil {
		l.ip("alone", "-6", "route", "add", "local", "default", "dev", "lo")
	}
	a := &alone{space: newSpace(l, "alone", "127.0.0.1"), home: t.TempDir(), resolved: filepath.Join(t.TempDir(), "resolv.conf")}
	if err := os.WriteFile(a.resolved, []byte("nameserver "+resolver+"\noptions timeout:1 attempts:1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	a.seen = newWatcher(t, a.space)
	return a
}

// command is a command of symphony, here: with a home of its own, and the resolver.
func (a *alone) command(args ...string) *exec.Cmd {
	const line = `if [ -e /etc/resolv.conf ]; then mount --bind "$0" /etc/resolv.conf; fi && exec "$@"`
	c := exec.Command("ip", append([]string{"netns", "exec", a.lab.prefix + a.name, "sh", "-c", line, a.resolved, symphony}, args...)...)
	c.Dir = root
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); name != "HOME" && name != "ORT_DISABLE_TELEMETRY" && !strings.HasPrefix(name, "XDG_") && !strings.HasPrefix(name, "SYMPHONY_") {
			c.Env = append(c.Env, kv)
		}
	}
	c.Env = append(c.Env, "HOME="+a.home)
	return c
}

// files are those below the home.
func (a *alone) files() (out []string) {
	filepath.WalkDir(a.home, func(path string, _ os.DirEntry, err error) error {
		if path != a.home && err == nil {
			out = append(out, path)
		}
		return nil
	})
	return out
}

// watcher sees the packets in a namespace that go beyond loopback's addresses.
type watcher struct {
	socket int
	done   chan struct{}

	mu  sync.Mutex
	to  map[string]int // packets by whom they are for
	end bool
}

func newWatcher(t *testing.T, s *space) *watcher {
	t.Helper()
	w := &watcher{done: make(chan struct{}), to: map[string]int{}}
	var err error
	if inside := s.inside(func() { w.socket, err = packets() }); inside != nil || err != nil {
		s.lab.lacks(fmt.Sprintf("no socket that sees packets: %v", errors.Join(inside, err)))
	}
	go w.run()
	t.Cleanup(func() {
		w.mu.Lock()
		w.end = true
		w.mu.Unlock()
		<-w.done
		unix.Close(w.socket)
	})
	return w
}

// packets opens a socket that gets what goes beyond loopback's addresses: the kernel leaves out
// the rest, which is far more than a client reads.
func packets() (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	// A packet begins with its IP header. Load its protocol, then its destination.
	const load, jump, give = unix.BPF_LD | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	const protocol = 1<<32 - 0x1000 // SKF_AD_OFF + SKF_AD_PROTOCOL
	filter := []unix.SockFilter{
		{Code: load | unix.BPF_H, K: protocol},
		{Code: jump, K: unix.ETH_P_IP, Jf: 3},
		{Code: load | unix.BPF_B, K: 16},
		{Code: jump, K: 127, Jt: 10},
		{Code: give, K: 128},
		{Code: jump, K: unix.ETH_P_IPV6, Jf: 9}, // other protocols count, too
		{Code: load | unix.BPF_W, K: 24},
		{Code: jump, K: 0, Jf: 7},
		{Code: load | unix.BPF_W, K: 28},
		{Code: jump, K: 0, Jf: 5},
		{Code: load | unix.BPF_W, K: 32},
		{Code: jump, K: 0, Jf: 3},
		{Code: load | unix.BPF_W, K: 36},
		{Code: jump, K: 1, Jf: 1},
		{Code: give, K: 0},
		{Code: give, K: 128},
	}
	all := unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8
	err = errors.Join(
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(all)}),
	)
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
}

func (w *watcher) run() {
	defer close(w.done)
	b := make([]byte, 128)
	for {
		n, _, err := unix.Recvfrom(w.socket, b, 0)
		w.mu.Lock()
		if err == nil {
			if to := destination(b[:n]); len(w.to) < 1000 || w.to[to] > 0 {
				w.to[to]++
			}
		}
		end := w.end
		w.mu.Unlock()
		if end {
			return
		}
	}
}

// take says what was seen since the last call, once what is under way has come.
func (w *watcher) take() []string {
	time.Sleep(50 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, to := range slices.Sorted(maps.Keys(w.to)) {
		out = append(out, fmt.Sprintf("%d packets to %s", w.to[to], to))
	}
	clear(w.to)
	return out
}

// destination reads whom an IP packet is for.
func destination(b []byte) string {
	var to netip.Addr
	var protocol byte
	var rest []byte
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		to, protocol, rest = netip.AddrFrom4([4]byte(b[16:20])), b[9], b[min(len(b), int(b[0]&15)*4):]
	case len(b) >= 40 && b[0]>>4 == 6:
		to, protocol, rest = netip.AddrFrom16([16]byte(b[24:40])), b[6], b[40:]
	default:
		return fmt.Sprintf("no IP (%x)", b[:min(len(b), 20)])
	}
	name := map[byte]string{unix.IPPROTO_TCP: "tcp", unix.IPPROTO_UDP: "udp"}[protocol]
	if name == "" || len(rest) < 4 {
		return fmt.Sprintf("%v, protocol %d", to, protocol)
	}
	return fmt.Sprintf("%v, %s port %d", to, name, binary.BigEndian.Uint16(rest[2:]))
}
