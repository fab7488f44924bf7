package tcp

import (
	"net"
	"os"
	"syscall"

	"github.com/symphony-serving/symphony/transport/mono"
)

// poller reads a socket with plain system calls (see readNow), and parks for the netpoller
// where nothing is there. With a span it looks again and again for as long before it parks:
// what comes meanwhile is taken without a wake-up. That takes a processor, so it pays only
// where there are more than loops, links that wait for each other, and GPUs' threads need:
// on two it takes the processor from those it waits for.
type poller struct {
	raw  syscall.RawConn
	span mono.Dur
	look func(fd uintptr) bool // bound once
	dst  []byte
	n    int
	err  error
}

// newPoller is nil where conn has no descriptor.
func newPoller(conn net.Conn, span mono.Dur) *poller {
	c, ok := conn.(syscall.Conn)
	if !ok {
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

// read is the next bytes; 0 at the end of the stream, which an ordinary read tells.
func (p *poller) read(dst []byte) (int, error) {
	p.dst, p.n, p.err = dst, 0, nil
	if p.raw.Read(p.look) != nil {
		return 0, nil // closed: likewise
	}
	p.dst = nil
	return max(p.n, 0), p.err
}

// poll is false when nothing came: the runtime parks the goroutine until something does.
func (p *poller) poll(fd uintptr) bool {
	until := mono.Time(0)
	if p.span > 0 {
		until = mono.Now().Add(p.span)
	}
	for {
		n, err := readNow(fd, p.dst)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			if p.span > 0 && mono.Now() < until {
				continue
			}
			return false
		case err != nil: // the socket tells it once
			p.err = os.NewSyscallError("read", err)
		}
		p.n = n
		return true
	}
}
