package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lab is a network of namespaces around one bridge. Nothing of it is in the namespace of
// the test, so its addresses collide with nobody's.
//
//	s 10.99.0.1 --+
//	f 10.99.0.3 --+-- bridge --- gate 10.99.0.9 | 192.168.7.1 --- inner 192.168.7.2, ...
//	b 10.99.0.7 --+
type lab struct {
	t      *testing.T
	prefix string
	spaces int
}

// space is one namespace: a host of the lab.
type space struct {
	lab  *lab
	name string
	ip   string
	http *http.Client // from within
}

var labs atomic.Int64

// newLab makes an empty lab, or skips the test where it cannot be made; with
// SYMPHONY_REQUIRE_NETNS set it fails there. The test's end takes it down.
func newLab(t *testing.T) *lab {
	t.Helper()
	l := bareLab(t)
	if out, err := l.add("lan"); err != nil {
		l.lacks(fmt.Sprintf("no network namespace: %v: %s", err, out))
	}
	l.ip("lan", "link", "add", "bridge", "type", "bridge")
	l.ip("lan", "link", "set", "bridge", "up")
	return l
}

// bareLab is one without the bridge.
func bareLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, prefix: fmt.Sprintf("sym%d-%d-", os.Getpid(), labs.Add(1))}
	_, err := exec.LookPath("ip")
	switch {
	case err != nil:
		l.lacks("there is no ip (iproute2)")
	case os.Getuid() != 0:
		l.lacks("only root can make network namespaces")
	}
	return l
}

// lacks ends the test: as skipped, unless all was promised.
func (l *lab) lacks(what string) {
	l.t.Helper()
	if os.Getenv("SYMPHONY_REQUIRE_NETNS") != "" {
		l.t.Fatalf("%s, though SYMPHONY_REQUIRE_NETNS is set", what)
	}
	l.t.Skip(what)
}

// add makes a namespace that the test's end removes.
func (l *lab) add(name string) (string, error) {
	out, err := exec.Command("ip", "netns", "add", l.prefix+name).CombinedOutput()
	if err == nil {
		l.t.Cleanup(func() { exec.Command("ip", "netns", "del", l.prefix+name).Run() })
	}
	return string(out), err
}

// ip runs iproute2's in a namespace.
func (l *lab) ip(name string, args ...string) {
	l.t.Helper()
	if out, err := exec.Command("ip", append([]string{"-n", l.prefix + name}, args...)...).CombinedOutput(); err != nil {
		l.t.Fatalf("in %s: ip %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// host adds a namespace on the bridge of another one.
func (l *lab) host(name, ip string) *space { return l.behind("lan", name, ip) }

func (l *lab) behind(where, name, ip string) *space {
	l.t.Helper()
	if out, err := l.add(name); err != nil {
		l.t.Fatalf("namespace %s: %v: %s", name, err, out)
	}
	l.ip(name, "link", "set", "lo", "up")
	l.ip(name, "link", "add", "eth0", "type", "veth", "peer", "name", name, "netns", l.prefix+where)
	l.ip(where, "link", "set", name, "master", "bridge", "up")
	l.ip(name, "addr", "add", ip+"/24", "dev", "eth0")
	l.ip(name, "link", "set", "eth0", "up")
	return newSpace(l, name, ip)
}

// newSpace is the namespace of that name, which is there.
func newSpace(l *lab, name, ip string) *space {
	s := &space{lab: l, name: name, ip: ip}
	s.http = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: s.dial, MaxIdleConnsPerHost: 64}}
	l.t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// forward is a port of a gate that stands for another one behind it.
type forward struct {
	port int
	to   string // host:port
}

// gate adds a host that translates addresses: those behind it are seen at its own, and
// what dials its ports reaches them.
func (l *lab) gate(ip string, ports ...forward) {
	l.t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		l.lacks("there is no nft (nftables), which translates addresses")
	}
	g := l.host("gate", ip)
	l.ip("gate", "link", "add", "bridge", "type", "bridge")
	l.ip("gate", "addr", "add", "192.168.7.1/24", "dev", "bridge")
	l.ip("gate", "link", "set", "bridge", "up")
	rules := "table ip t {\n chain out { type nat hook postrouting priority 100; oifname eth0 masquerade; }\n chain in { type nat hook prerouting priority -100;\n"
	for _, p := range ports {
		rules += fmt.Sprintf("  iifname eth0 tcp dport %d dnat to %s\n", p.port, p.to)
	}
	g.must("echo 1 >/proc/sys/net/ipv4/ip_forward && nft -f -", rules+" }\n}\n")
}

// inner adds a host behind the gate: nobody before it can dial it, or knows its address.
func (l *lab) inner(name, ip string) *space {
	l.t.Helper()
	s := l.behind("gate", name, ip)
	l.ip(name, "route", "add", "default", "via", "192.168.7.1")
	return s
}

// must runs a line of shell here.
func (s *space) must(line, input string) {
	s.lab.t.Helper()
	cmd := exec.Command("ip", "netns", "exec", s.lab.prefix+s.name, "sh", "-c", line)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.lab.t.Fatalf("in %s: %s: %v: %s", s.name, line, err, out)
	}
}

// start is start, here.
func (s *space) start(name string, args ...string) *process {
	s.lab.t.Helper()
	return launch(s.lab.t, name, exec.Command("ip", append([]string{"netns", "exec", s.lab.prefix + s.name, symphony}, append(args, logFormat(args)...)...)...))
}

// get asks from here.
func (s *space) get(url string) (int, string, error) {
	resp, err := s.http.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// dial is net.Dial from here.
func (s *space) dial(_ context.Context, network, address string) (c net.Conn, err error) {
	if inside := s.inside(func() { c, err = net.DialTimeout(network, address, 5*time.Second) }); inside != nil {
		return nil, inside
	}
	return c, err
}

// inside calls f on a thread that is here for as long as that takes. (It goes back: a
// thread that ends takes the processes with it that it has started.)
func (s *space) inside(f func()) error {
	here, err := os.Open("/run/netns/" + s.lab.prefix + s.name)
	if err != nil {
		return err
	}
	defer here.Close()
	runtime.LockOSThread()
	back, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer back.Close()
	if err := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	f()
	if unix.Setns(int(back.Fd()), unix.CLONE_NEWNET) == nil { // else the thread must end with this goroutine
		runtime.UnlockOSThread()
	}
	return nil
}
