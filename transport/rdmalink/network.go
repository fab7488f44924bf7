package rdmalink

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/pages"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Config of a Network. Zero values mean the defaults named.
type Config struct {
	TCP     transport.Network // the links beside which lanes are made; required
	NIC     *rdma.NIC         // nil: every link is TCP's alone
	Require bool              // refuse peers without RDMA, and links whose lane cannot be had at first
	Logger  zerolog.Logger

	Buffers    int      // receives posted per lane [32]
	BufferSize int      // bytes of each, so also the largest SEND [8 KiB]
	Landing    int      // bytes of the zone that the peer WRITEs into, a power of two [256 KiB]
	PoolMax    int64    // bytes of buffers for inputs and outputs [1 GiB]
	Attempt    mono.Dur // limit of one attempt to bring up a lane [1 s]
	Retry      mono.Dur // first pause before a lost lane is tried again, doubling up to 64 times [1 s]
}

func (c Config) complete() Config {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.Buffers, 32)
	def(&c.BufferSize, 8<<10)
	def(&c.Landing, 256<<10)
	if c.PoolMax == 0 {
		c.PoolMax = 1 << 30
	}
	if c.Attempt == 0 {
		c.Attempt = mono.Second
	}
	if c.Retry == 0 {
		c.Retry = mono.Second
	}
	return c
}

// Network makes links with a lane where both ends have RDMA, and TCP's links
// otherwise. Addresses are TCP's. It implements transport.Direct.
type Network struct {
	cfg      Config // Immutable.
	pool     *pages.Pool
	counters counters

	mu    sync.Mutex // Guards what follows.
	slabs map[*byte]*slabs
}

// slabs are one SlabSource's memory, registered once for all that serve it.
type slabs struct {
	region  rdma.Region
	memory  wire.RemoteMemory
	headers uint32
	users   int
}

// New makes a Network. Close it when its links and listeners are closed.
func New(c Config) *Network {
	n := &Network{cfg: c.complete(), slabs: map[*byte]*slabs{}}
	if c.NIC != nil {
		n.pool = c.NIC.NewPool(n.cfg.PoolMax)
	}
	return n
}

// Close gives the buffers back. The NIC is its opener's to close.
func (n *Network) Close() error {
	if n.pool == nil {
		return nil
	}
	return n.pool.Close()
}

// options are what the TCP link below is made with.
func (n *Network) options(o transport.Options) transport.Options {
	if n.cfg.NIC == nil {
		return o
	}
	o.Hello.Features |= wire.FeatureLane
	// The stream above bounds what is queued, and what a payload may have; its
	// messages must pass whatever the payloads' limit is.
	o.PayloadMax = max(o.PayloadMax, tunnelChunk)
	o.SendBuffer = max(o.SendBuffer, n.cfg.Buffers*(n.cfg.BufferSize+chunkMax)+2*tunnelMax)
	return o
}

// Dial makes one attempt. See transport.Network. The lane, if there is to be one,
// is up when Dial returns, so that no input has to go by TCP.
func (n *Network) Dial(ctx context.Context, address string, o transport.Options, h transport.Handler) (transport.Link, error) {
	o = transport.Defaults(o)
	l := newLink(n, o, h, true)
	tl, err := n.cfg.TCP.Dial(ctx, address, n.options(o), (*tcpSide)(l))
	if err != nil {
		return nil, err
	}
	l.attach(tl)
	if !l.streaming {
		if n.cfg.Require {
			err := fmt.Errorf("%s: %w: it has no RDMA, and rdma.mode is always here: give it a device, or set rdma.mode to auto", address, transport.ErrRejected)
			l.unborn(err)
			return nil, err
		}
		n.logTCP(l)
		return l, nil
	}
	if err := l.life.begin(ctx); err != nil && n.cfg.Require {
		err = fmt.Errorf("%s: %w: no RDMA lane, and rdma.mode is always: %w", address, transport.ErrRejected, err)
		l.unborn(err)
		return nil, err
	}
	return l, nil
}

// logTCP says that a link has no lane: where this end has a device that is worth a
// line.
func (n *Network) logTCP(l *link) {
	if n.cfg.NIC != nil {
		n.log(l).Str("why", "the peer has no RDMA").Msg("link over TCP")
	}
}

func (n *Network) log(l *link) *zerolog.Event {
	e := n.cfg.Logger.Info().Str("peer", l.peer.Name)
	if n.cfg.NIC != nil {
		e = e.Str("device", n.cfg.NIC.Name())
	}
	return e
}

// Listen accepts links. See transport.Network. Where o.Slabs is a
// transport.RemoteSlabs they are registered, until the listener is closed.
func (n *Network) Listen(address string, o transport.Options, accept func(peer wire.Hello) (transport.Handler, error)) (transport.Listener, error) {
	o = transport.Defaults(o)
	held, err := n.hold(o.Slabs)
	if err != nil {
		if n.cfg.Require {
			return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
		}
		n.cfg.Logger.Warn().Err(err).Msg("inputs cannot be READ by RDMA: they go over TCP")
	}
	ln, err := n.cfg.TCP.Listen(address, n.options(o), func(peer wire.Hello) (transport.Handler, error) {
		if n.cfg.Require && peer.Features&wire.FeatureLane == 0 {
			return nil, errors.New("rdma.mode is always here, and the peer has no RDMA: give it a device, or set rdma.mode to auto")
		}
		features := peer.Features
		peer.Features &^= wire.FeatureLane // the stream's own affair
		h, err := accept(peer)
		if err != nil {
			return nil, err
		}
		l := newLink(n, o, h, false)
		l.expect(peer, features)
		return (*tcpSide)(l), nil
	})
	if err != nil {
		n.release(o.Slabs)
		return nil, err
	}
	return &listener{Listener: ln, n: n, slabs: o.Slabs, key: held.RKey}, nil
}

// listener gives the slabs back at its end.
type listener struct {
	transport.Listener
	n     *Network
	slabs transport.SlabSource
	key   uint32
	once  sync.Once
}

// SlabKey implements transport.SlabKeeper.
func (s *listener) SlabKey() uint32 { return s.key }

// Close implements transport.Listener.
func (s *listener) Close() error {
	err := s.Listener.Close()
	s.once.Do(func() { s.n.release(s.slabs) })
	return err
}

// hold registers a source's memory, or counts one more user of it.
func (n *Network) hold(source transport.SlabSource) (wire.RemoteMemory, error) {
	r, ok := source.(transport.RemoteSlabs)
	if !ok || n.cfg.NIC == nil {
		return wire.RemoteMemory{}, nil
	}
	memory, headers := r.Memory()
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.slabs[&memory[0]]
	if s == nil {
		region, err := n.cfg.NIC.Register(memory, rdma.RemoteRead)
		if err != nil {
			return wire.RemoteMemory{}, err
		}
		s = &slabs{region: region, headers: uint32(headers),
			memory: wire.RemoteMemory{Address: rdma.AddressOf(memory), Size: uint64(len(memory)), RKey: region.RKey()}}
		n.slabs[&memory[0]] = s
	}
	s.users++
	return s.memory, nil
}

// holding finds what hold registered; zero when nothing was.
func (n *Network) holding(source transport.SlabSource) (wire.RemoteMemory, uint32) {
	if r, ok := source.(transport.RemoteSlabs); ok && n.cfg.NIC != nil {
		memory, _ := r.Memory()
		n.mu.Lock()
		defer n.mu.Unlock()
		if s := n.slabs[&memory[0]]; s != nil {
			return s.memory, s.headers
		}
	}
	return wire.RemoteMemory{}, 0
}

// release gives up one use of a source's memory.
func (n *Network) release(source transport.SlabSource) {
	r, ok := source.(transport.RemoteSlabs)
	if !ok || n.cfg.NIC == nil {
		return
	}
	memory, _ := r.Memory()
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.slabs[&memory[0]]
	if s == nil {
		return
	}
	if s.users--; s.users == 0 {
		delete(n.slabs, &memory[0])
		if err := s.region.Close(); err != nil {
			n.cfg.Logger.Warn().Err(err).Msg("slabs stay registered")
		}
	}
}
