//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package netprobe_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/transport/netprobe"
)

// lab is two network namespaces with nothing but one cable between them, whose
// delay can be set. The delay lies beneath TCP, so the kernel sees it: a proxy
// between two connections would not do. The namespaces have no names and the
// devices are theirs, so all is gone with the last descriptor.
//
//	near (10.77.0.1)  tun  <-->  this process, which waits  <-->  tun  far (10.77.0.2)
type lab struct {
	near, far *space
	delay     atomic.Int64 // each way, nanoseconds
}

const (
	nearIP = "10.77.0.1"
	farIP  = "10.77.0.2"
)

// need skips a test for what is missing here, or fails it where
// SYMPHONY_REQUIRE_BPF=1 promised that nothing is.
func need(t testing.TB, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("SYMPHONY_REQUIRE_BPF") == "1" {
		t.Fatalf("%s: %v, but SYMPHONY_REQUIRE_BPF=1", what, err)
	}
	t.Skipf("%s: %v", what, err)
}

// open loads the probe for a test.
func open(t testing.TB, o netprobe.Options) *netprobe.Probe {
	t.Helper()
	p, err := netprobe.Open(o)
	need(t, "no probe", err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// newLab builds the lab; the test's end takes it down.
func newLab(t testing.TB) *lab {
	t.Helper()
	b := &lab{}
	var err error
	b.near, err = newSpace(nearIP)
	need(t, "no network namespace", err)
	t.Cleanup(b.near.close)
	b.far, err = newSpace(farIP)
	need(t, "no network namespace", err)
	t.Cleanup(b.far.close)
	var all sync.WaitGroup
	all.Go(func() { b.carry(b.near.tun, b.far.tun) })
	all.Go(func() { b.carry(b.far.tun, b.near.tun) })
	t.Cleanup(func() {
		b.near.tun.Close()
		b.far.tun.Close()
		all.Wait()
	})
	return b
}

// packet waits for its time on the cable.
type packet struct {
	data []byte
	due  time.Time
}

// carry takes packets one way, in order, each after the delay.
func (b *lab) carry(from, to *os.File) {
	queue := make(chan packet, 4096)
	var writer sync.WaitGroup
	writer.Go(func() {
		for p := range queue {
			time.Sleep(time.Until(p.due))
			to.Write(p.data) // a lost packet is TCP's business
		}
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			break
		}
		queue <- packet{append([]byte(nil), buf[:n]...), time.Now().Add(time.Duration(b.delay.Load()))}
	}
	close(queue)
	writer.Wait()
}

// space is a network namespace with one device, which we hold the other end of.
type space struct {
	ns  *os.File
	tun *os.File
}

// newSpace makes a namespace on a thread that ends with it.
func newSpace(ip string) (*space, error) {
	s := &space{}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread is not fit for others
		failed <- s.make(ip)
	}()
	if err := <-failed; err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *space) make(ip string) (err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if s.ns, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		return err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("/dev/net/tun: %w", err)
	}
	if err := raise(fd, ip); err != nil {
		unix.Close(fd)
		return fmt.Errorf("cannot set up a TUN device: %w", err)
	}
	s.tun = os.NewFile(uintptr(fd), "tun") // after TUNSETIFF: before, it cannot be polled
	return nil
}

// raise names the device, gives it its address and brings it up.
func raise(tun int, ip string) error {
	ifr, err := unix.NewIfreq("sy0")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(tun, unix.TUNSETIFF, ifr); err != nil {
		return err
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	set := func(request uint, value string) error {
		ifr, err := unix.NewIfreq("sy0")
		if err == nil {
			err = ifr.SetInet4Addr(net.ParseIP(value).To4())
		}
		if err == nil {
			err = unix.IoctlIfreq(s, request, ifr)
		}
		return err
	}
	up, err := unix.NewIfreq("sy0")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return errors.Join(set(unix.SIOCSIFADDR, ip), set(unix.SIOCSIFNETMASK, "255.255.255.0"),
		unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, up))
}

func (s *space) close() {
	if s.ns != nil {
		s.ns.Close()
	}
	if s.tun != nil {
		s.tun.Close()
	}
}

// do runs f where sockets are made in the namespace. f must make them itself,
// not in a goroutine of its own.
func (s *space) do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, as above
		err := unix.Setns(int(s.ns.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// connect makes a connection through the cable: our end and the far one.
func (b *lab) connect(t testing.TB) (near, far *net.TCPConn) {
	t.Helper()
	var ln net.Listener
	err := b.far.do(func() (err error) { ln, err = net.Listen("tcp", farIP+":0"); return err })
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	err = b.near.do(func() error {
		c, err := net.DialTimeout("tcp", ln.Addr().String(), 5*time.Second)
		if err == nil {
			near = c.(*net.TCPConn)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := ln.Accept()
	if err != nil {
		near.Close()
		t.Fatal(err)
	}
	far = c.(*net.TCPConn)
	t.Cleanup(func() {
		near.Close()
		far.Close()
	})
	return near, far
}
