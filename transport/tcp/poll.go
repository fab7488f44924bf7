package tcp

import (
	"net"
	"os"
	"syscall"

	"github.com/symphony-serving/symphony/transport/mono"
)

// poller looks at a socket again and again for a while before its goroutine parks
// for the netpoller: what comes meanwhile is taken without a wake-up. It takes a
// processor for as long, so it pays only where there are more than loops, links that
// wait for each other, and GPUs' threads need: on two it takes the processor from
// those it waits for.
type poller struct {
	raw  syscall.RawConn
	span mono.Dur
	look func(fd uintptr) bool // bound once
	dst  []byte
	n    int
	err  error
}

// newPoller is nil where nothing is to be polled.
func newPoller(conn net.Conn, span mono.Dur) *poller {
	c, ok := conn.(syscall.Conn)
	if span <= 0 || !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	p := &poller{raw: raw, span: span}
	p.look = p.poll
	return p
}

// read is the bytes that came within the span; 0 when none did, also at the end of
// the stream, which an ordinary read tells.
func (p *poller) read(dst []byte) (int, error) {
	p.dst, p.n, p.err = dst, 0, nil
	if p.raw.Read(p.look) != nil {
		return 0, nil // closed: likewise
	}
	p.dst = nil
	return max(p.n, 0), p.err
}

// poll always ends the wait: true tells the runtime not to park for it.
func (p *poller) poll(fd uintptr) bool {
	for until := mono.Now().Add(p.span); ; {
		n, err := syscall.Read(int(fd), p.dst)
		again := err == syscall.EAGAIN || err == syscall.EINTR
		if again && mono.Now() < until {
			continue
		}
		p.n = n
		if err != nil && !again { // the socket tells it once
			p.err = os.NewSyscallError("read", err)
		}
		return true
	}
}
