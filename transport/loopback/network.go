// Package loopback is the transport inside one process: the same contract as
// transport/tcp, without a socket.
//
// # Place
//
// `symphony serve` joins its scheduler, frontend and backends with it; tests
// use it to inject delay, breaks and silence from a seed.
//
// Frames are bytes here too, queued in the same bounded transport.Outbox and
// handed to the other end's receiving goroutine, so everything that a message
// goes through but the kernel is what TCP does. What differs, on purpose:
//
//   - A READ is one-sided: the reader's receiving goroutine pins the peer's
//     slab and copies the bytes to where they belong. The peer's goroutine does
//     not take part, as with RDMA.
//   - A payload for which the handler has no buffer is handed over without a
//     copy; it must not be written to.
//   - Checksums are not verified: nothing but this process touched the bytes.
//   - Both ends share a clock, so Shift is exactly 0 (or exactly the
//     difference, where Options.Clock was set).
//
// # Invariants
//
// A network is a value: what listens on one cannot be dialled on another.
// Each end has one goroutine; Handler.Closed is its last call, after all that
// the peer had queued in its favour was delivered or released.
//
// # Refuses
//
// Addresses of other schemes, and listening twice under one name.
package loopback

import (
	"context"
	"crypto/subtle"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Faults are what a network does to its links, the same for the same seed and
// the same order of batches.
type Faults struct {
	Seed               uint64
	DelayMin, DelayMax mono.Dur // added to each batch of frames and READs
	Break              float64  // chance that a batch breaks the link instead of arriving
}

// Network joins parts of one process.
type Network struct {
	faults Faults      // Immutable.
	frozen atomic.Bool // Nothing arrives anywhere.

	mu        sync.Mutex // Guards what follows.
	listeners map[string]*listener
	ends      map[*end]struct{}
	named     int // listeners that got their name from us
	linked    uint64
}

// New makes a network without faults.
func New() *Network { return NewFaulty(Faults{}) }

// NewFaulty makes a network that delays and breaks.
func NewFaulty(f Faults) *Network {
	return &Network{faults: f, listeners: map[string]*listener{}, ends: map[*end]struct{}{}}
}

// Freeze stops (or lets on) everything that is under way: links are then half
// open, as when a cable was pulled.
func (n *Network) Freeze(frozen bool) { n.frozen.Store(frozen) }

// Break ends all links at once, as when a process was killed.
func (n *Network) Break() {
	n.mu.Lock()
	var all []*end
	for e := range n.ends {
		all = append(all, e)
	}
	n.mu.Unlock()
	for _, e := range all {
		e.sever(fmt.Errorf("%w: broken on purpose", transport.ErrClosed))
	}
}

// Listen opens a name; "inproc:" alone gets a free one. See transport.Network.
func (n *Network) Listen(address string, o transport.Options, accept func(peer wire.Hello) (transport.Handler, error)) (transport.Listener, error) {
	name, err := nameOf(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if name == "" {
		n.named++
		name = fmt.Sprintf("#%d", n.named)
	}
	if n.listeners[name] != nil {
		return nil, fmt.Errorf("cannot listen on inproc:%s: the name is taken", name)
	}
	s := &listener{n: n, name: name, o: o, accept: accept}
	n.listeners[name] = s
	return s, nil
}

// Dial links to a name that listens. See transport.Network.
func (n *Network) Dial(ctx context.Context, address string, o transport.Options, h transport.Handler) (transport.Link, error) {
	name, err := nameOf(address)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", address, transport.ErrUnreachable, err)
	}
	n.mu.Lock()
	s := n.listeners[name]
	n.mu.Unlock()
	if s == nil || n.frozen.Load() {
		return nil, fmt.Errorf("%s: %w: nobody listens there in this process", address, transport.ErrUnreachable)
	}
	there, err := s.admit(o.Hello)
	if err != nil {
		transport.Defaults(s.o).Refused("inproc", transport.Refuse(err))
		return nil, fmt.Errorf("%s: %w: %w", address, transport.ErrRejected, err)
	}
	a, b := n.pair(o, h, s.o, there)
	if !s.add(b) {
		a.sever(transport.ErrClosed)
	}
	return a, nil
}

// pair makes both ends and sets them going.
func (n *Network) pair(here transport.Options, h transport.Handler, there transport.Options, g transport.Handler) (a, b *end) {
	n.mu.Lock()
	n.linked++
	seed := n.faults.Seed + 2*n.linked
	n.mu.Unlock()
	a, b = newEnd(n, here, there.Hello, h, seed), newEnd(n, there, here.Hello, g, seed+1)
	a.out, b.out = transport.NewOutbox(a.o.SendBuffer), transport.NewOutbox(b.o.SendBuffer)
	a.other, b.other, a.in, b.in = b, a, b.out, a.out
	a.heart.SetShift(shift(here.Clock, there.Clock))
	b.heart.SetShift(-a.heart.Shift())
	n.mu.Lock()
	n.ends[a], n.ends[b] = struct{}{}, struct{}{}
	n.mu.Unlock()
	a.start()
	b.start()
	return a, b
}

// shift is what to add to there's instants to get here's.
func shift(here, there func() mono.Time) mono.Dur {
	if here == nil && there == nil {
		return 0
	}
	if here == nil {
		here = mono.Now
	}
	if there == nil {
		there = mono.Now
	}
	return here().Sub(there())
}

func nameOf(address string) (string, error) {
	scheme, name, err := transport.SplitAddress(address)
	if err == nil && scheme != "inproc" {
		err = fmt.Errorf("%w: address %q is not in this process: write inproc:name", transport.ErrUnreachable, address)
	}
	return name, err
}

// listener is an open name.
type listener struct {
	// Immutable.
	n      *Network
	name   string
	o      transport.Options
	accept func(peer wire.Hello) (transport.Handler, error)

	mu     sync.Mutex // Guards what follows.
	ends   []*end
	held   int
	closed bool
}

// Address is where to dial.
func (s *listener) Address() string { return "inproc:" + s.name }

// admit judges a hello, as a TCP listener would.
func (s *listener) admit(peer wire.Hello) (transport.Handler, error) {
	if subtle.ConstantTimeCompare(peer.Token[:], s.o.Hello.Token[:]) != 1 {
		return nil, fmt.Errorf("cluster token of %q differs from ours: give both sides the same token", peer.Name)
	}
	s.mu.Lock()
	most := transport.Defaults(s.o).LinksMax
	full := s.held >= most
	if !full {
		s.held++
	}
	s.mu.Unlock()
	if full {
		return nil, fmt.Errorf("%d links are open here, and no more are allowed", most)
	}
	h, err := s.accept(peer)
	if err != nil {
		s.release(nil)
		return nil, err
	}
	return h, nil
}

// add takes a link in; false: the listener was closed meanwhile.
func (s *listener) add(e *end) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.mu.Lock()
	e.ended = s.release
	over := e.over
	e.mu.Unlock()
	if over { // already gone, and nobody was told
		s.held--
		return true
	}
	s.ends = append(s.ends, e)
	return !s.closed
}

func (s *listener) release(e *end) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held--
	for i := range s.ends {
		if s.ends[i] == e {
			s.ends[i] = s.ends[len(s.ends)-1]
			s.ends = s.ends[:len(s.ends)-1]
			return
		}
	}
}

// Close gives the name up and ends its links. See transport.Listener.
func (s *listener) Close() error {
	s.n.mu.Lock()
	if s.n.listeners[s.name] == s {
		delete(s.n.listeners, s.name)
	}
	s.n.mu.Unlock()
	s.mu.Lock()
	s.closed = true
	ends := append([]*end(nil), s.ends...)
	s.mu.Unlock()
	for _, e := range ends {
		e.Close(nil)
	}
	for _, e := range ends {
		<-e.done
	}
	return nil
}
