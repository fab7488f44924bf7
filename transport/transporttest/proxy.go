package transporttest

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is a Cable for TCP: it passes bytes on until it is told to swallow
// them or to die.
type Proxy struct {
	ln     net.Listener
	target string
	frozen atomic.Bool
	pause  atomic.Int64 // between two chunks, nanoseconds
	all    sync.WaitGroup

	mu    sync.Mutex // Guards what follows.
	conns []net.Conn
}

// NewProxy begins to pass on to address ("tcp:host:port").
func NewProxy(t *testing.T, address string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{ln: ln, target: strings.TrimPrefix(address, "tcp:")}
	p.all.Go(p.accept)
	t.Cleanup(func() {
		ln.Close()
		p.Cut()
		p.all.Wait()
	})
	return p
}

// Address is where to dial.
func (p *Proxy) Address() string { return "tcp:" + p.ln.Addr().String() }

// Freeze swallows everything from now on; the connections stay open.
func (p *Proxy) Freeze() { p.frozen.Store(true) }

// Throttle waits between two chunks of at most 32 KiB.
func (p *Proxy) Throttle(pause time.Duration) { p.pause.Store(int64(pause)) }

// Cut ends all connections at once.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *Proxy) accept() {
	for {
		a, err := p.ln.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", p.target)
		if err != nil {
			a.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, a, b)
		p.mu.Unlock()
		p.all.Go(func() { p.pass(a, b) })
		p.all.Go(func() { p.pass(b, a) })
	}
}

// pass copies one direction. Its end ends both.
func (p *Proxy) pass(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			break
		}
		if p.frozen.Load() {
			continue
		}
		time.Sleep(time.Duration(p.pause.Load()))
		if _, err := to.Write(buf[:n]); err != nil {
			break
		}
	}
	if p.frozen.Load() { // a pulled cable brings no end of stream either
		return
	}
	from.Close()
	to.Close()
}
