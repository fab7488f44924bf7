package store

import (
	"context"
	"net"
	"sync"
	"testing"
)

// proxy stands between a client and an etcd, and plays a network that fails.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	cond  *sync.Cond
	stall bool // bytes wait, connections stay
	cut   bool // connections end at once
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	p.cond = sync.NewCond(&p.mu)
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// dial is Config.dial: whatever the address, it goes through the proxy.
func (p *proxy) dial(ctx context.Context, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", p.listener.Addr().String())
}

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		if p.cut {
			in.Close()
			out.Close()
		} else {
			p.conns[in], p.conns[out] = true, true
			p.wg.Go(func() { p.pipe(in, out) })
			p.wg.Go(func() { p.pipe(out, in) })
		}
		p.mu.Unlock()
	}
}

func (p *proxy) pipe(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		for p.stall {
			p.cond.Wait()
		}
		p.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) set(stall, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stall, p.cut = stall, cut
	if cut {
		for c := range p.conns {
			c.Close()
		}
		clear(p.conns)
	}
	p.cond.Broadcast()
}

func (p *proxy) close() {
	p.set(false, true)
	p.listener.Close()
	p.wg.Wait()
}
