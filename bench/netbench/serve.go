package netbench

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/frontend/arena"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Way is one of the transports that are compared.
type Way struct {
	Name    string // RDMA or TCP
	Network transport.Network
}

// The ways' names.
const (
	RDMA = "RDMA"
	TCP  = "TCP"
)

// Offer is what a server tells the client, as JSON where they are two processes.
type Offer struct {
	Ways []WayOffer
}

// WayOffer is where a server's objects are READ by one way.
type WayOffer struct {
	Name    string
	Address string
	Objects []Object
}

// ServeConfig says what a server offers.
type ServeConfig struct {
	Index   int    // of the server
	Objects int    // count
	Size    int    // bytes of each
	Listen  string // for each way
}

// Server holds a server's objects, by each way.
type Server struct {
	offer     Offer
	listeners []transport.Listener
	arenas    []*arena.Arena
}

// Serve makes a server. Close it.
func Serve(c ServeConfig, ways []Way) (*Server, error) {
	s := &Server{}
	for _, w := range ways {
		if err := s.serve(c, w); err != nil {
			return nil, errors.Join(fmt.Errorf("server %d, %s: %w", c.Index, w.Name, err), s.Close())
		}
	}
	return s, nil
}

func (s *Server) serve(c ServeConfig, w Way) error {
	a, err := newArena(w, c.Objects, c.Size)
	if err != nil {
		return err
	}
	s.arenas = append(s.arenas, a)
	handles, data, err := stock(a, c.Objects, c.Size)
	if err != nil {
		return err
	}
	o := linkOptions(wire.RoleFrontend, fmt.Sprintf("bench-net-%d", c.Index))
	o.Slabs = a
	l, err := w.Network.Listen(c.Listen, o, func(wire.Hello) (transport.Handler, error) {
		return &echo{memory: transport.BuffersOf(w.Network), answers: map[int][]byte{}}, nil
	})
	if err != nil {
		return err
	}
	s.listeners = append(s.listeners, l)
	offer := WayOffer{Name: w.Name, Address: l.Address()}
	for i, h := range handles {
		r := requestOf(c.Index, i)
		fill(data[i], r)
		a.SetRequest(h, r)
		offer.Objects = append(offer.Objects, Object{r, transport.SlabRef(h, data[i], transport.SlabKey(l))})
	}
	s.offer.Ways = append(s.offer.Ways, offer)
	return nil
}

// Offer is what the client must know.
func (s *Server) Offer() Offer { return s.offer }

// Close ends the links, then the memory.
func (s *Server) Close() error {
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	for _, a := range s.arenas {
		errs = append(errs, a.Close())
	}
	return errors.Join(errs...)
}

// linkOptions are both ends'. Silence is long: what stalls a virtual machine for a
// second belongs into the percentiles and must not end the run.
func linkOptions(role wire.Role, name string) transport.Options {
	return transport.Options{Hello: wire.Hello{Role: role, Incarnation: 1, Name: name}, Silence: 10 * mono.Second, Handshake: 10 * mono.Second}
}
