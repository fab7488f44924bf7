package tcp

import (
	"net"

	"github.com/symphony-serving/symphony/transport"
)

// Prober measures connections beneath this package: transport/netprobe does.
type Prober interface {
	// Follow begins to measure a live connection. fill sets the Kernel fields of
	// a link's statistics; it is called from any goroutine, also after stop,
	// which is called once, when the link ends. An error leaves that link with
	// its heartbeats alone; the prober counts it.
	Follow(conn *net.TCPConn) (fill func(*transport.LinkStats), stop func(), err error)
}

// NewProbed is New with a prober for every link, dialled or accepted.
func NewProbed(p Prober) *Network { return &Network{prober: p} }

// probe is what a link has of its prober: two nils without one.
type probe struct {
	fill func(*transport.LinkStats)
	stop func()
}

// follow is called before the link starts.
func (l *link) follow(p Prober) {
	if p == nil {
		return
	}
	fill, stop, err := p.Follow(l.conn)
	if err == nil {
		l.probe = probe{fill, stop}
	}
}

// join adds the kernel's numbers to the heartbeats': the bound must cover both.
func (p probe) join(st *transport.LinkStats) {
	if p.fill == nil {
		return
	}
	p.fill(st)
	st.DelayBound = max(st.DelayBound, st.KernelBound)
}

func (p probe) end() {
	if p.stop != nil {
		p.stop()
	}
}
