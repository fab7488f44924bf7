package soak

import (
	"errors"
	"net"
	"sync"
	"time"
)

// link is a TCP proxy with faults. Who dials it reaches target; a target that starts
// again has another address, which is why nobody dials it directly.
type link struct {
	name string
	http bool // HTTP clients are on it
	ln   net.Listener

	mu     sync.Mutex // Guards what follows.
	target string
	delay  time.Duration
	stall  bool
	cut    bool
	open   map[net.Conn]struct{}
	wait   sync.WaitGroup // pumps
}

func newLink(name string) (*link, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{name: name, ln: ln, open: map[net.Conn]struct{}{}}
	l.wait.Add(1)
	go l.accept()
	return l, nil
}

func (l *link) address() string { return l.ln.Addr().String() }

func (l *link) aim(target string) {
	l.mu.Lock()
	l.target = target
	l.mu.Unlock()
}

// set makes the link's faults.
func (l *link) set(delay time.Duration, stall, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay, l.stall, l.cut = delay, stall, cut
	if cut {
		for c := range l.open {
			c.Close()
		}
	}
}

func (l *link) close() {
	l.ln.Close()
	l.set(0, false, true)
	l.wait.Wait()
}

func (l *link) accept() {
	defer l.wait.Done()
	for {
		c, err := l.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of files, for a moment
			time.Sleep(10 * time.Millisecond)
			continue
		}
		l.wait.Add(1)
		go l.join(c)
	}
}

// join carries one connection.
func (l *link) join(c net.Conn) {
	defer l.wait.Done()
	defer c.Close()
	l.mu.Lock()
	target := l.target
	l.mu.Unlock()
	if target == "" || !l.enter(c) {
		return
	}
	defer l.leave(c)
	t, err := net.DialTimeout("tcp", target, time.Second)
	if err != nil {
		return
	}
	defer t.Close()
	if !l.enter(t) {
		return
	}
	defer l.leave(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.pump(t, c)
	}()
	l.pump(c, t)
	<-done
}

func (l *link) enter(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cut {
		l.open[c] = struct{}{}
	}
	return !l.cut
}

func (l *link) leave(c net.Conn) {
	l.mu.Lock()
	delete(l.open, c)
	l.mu.Unlock()
}

// pump carries bytes until either end is gone, and then ends both. With a delay, what
// comes while an earlier piece waits is read after it: up to twice the delay.
func (l *link) pump(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 128<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || !l.hold() {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// hold waits as the link's faults say; false: it was cut.
func (l *link) hold() bool {
	for slept := false; ; {
		l.mu.Lock()
		delay, stall, cut := l.delay, l.stall, l.cut
		l.mu.Unlock()
		switch {
		case cut:
			return false
		case stall:
			time.Sleep(5 * time.Millisecond)
		case delay > 0 && !slept:
			time.Sleep(delay)
			slept = true
		default:
			return true
		}
	}
}
