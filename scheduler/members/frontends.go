package members

import (
	"fmt"
	"strings"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Frontend is one that is admitted.
type Frontend struct {
	ID       wire.FrontendID
	Conn     Conn
	Name     string
	Instance uint64
	Address  string // where backends read slabs and send outputs, as far as is known
	// Near: it runs on the scheduler's host and named none of its own. Backends on other
	// hosts reach it where they reach the scheduler: AddressFor.
	Near bool
}

// frontends are those that are there, by id.
type frontends struct {
	byID []*Frontend // nil: free
	left []mono.Time // since when
	live int
}

// JoinFrontend admits a frontend, or refuses it. seen is the host that its link comes
// from: "" where it shares the scheduler's process.
func (c *Cluster) JoinFrontend(now mono.Time, conn Conn, info *catalog.FrontendInfo, seen string, out *Effects) {
	f := &Frontend{Conn: conn, Name: info.Name, Instance: info.Instance}
	var err error
	if f.Address, f.Near, err = located(info.Address, seen); err != nil {
		out.refuse(conn, err)
		return
	}
	for _, other := range c.frontends.byID { // its own link before this one makes way first
		if other != nil && other.Instance == f.Instance {
			out.add(Effect{Kind: Replace, Conn: other.Conn})
			c.frontends.leave(now, other.Conn, out)
		}
	}
	for _, other := range c.frontends.byID {
		if other != nil && other.Address == f.Address {
			out.refuse(conn, fmt.Errorf("the address %s is that of frontend %q already: give each a port or host of its own by frontend.listen, and by frontend.advertise where others see it elsewhere", f.Address, other.Name))
			return
		}
	}
	if c.frontends.live >= c.limits.Frontends {
		out.refuse(conn, fmt.Errorf("%d frontends are connected already", c.limits.Frontends))
		return
	}
	c.frontends.add(now, f, c.limits.Frontends)
	out.add(Effect{Kind: AdmitFrontend, Conn: conn, Frontend: f.ID})
}

// add gives it the id of one that left long ago; where many come and go, that of the one
// that left first, so that ids stay below twice the limit.
func (s *frontends) add(now mono.Time, f *Frontend, limit int) {
	s.live++
	at := -1
	for i := range s.byID {
		if s.byID[i] == nil && (at < 0 || s.left[i] < s.left[at]) {
			at = i
		}
	}
	if at < 0 || now.Sub(s.left[at]) <= reserved && len(s.byID) < 2*limit {
		at = len(s.byID)
		s.byID, s.left = append(s.byID, nil), append(s.left, now)
	}
	f.ID, s.byID[at] = wire.FrontendID(at), f
}

func (s *frontends) leave(now mono.Time, conn Conn, out *Effects) bool {
	for i, f := range s.byID {
		if f != nil && f.Conn == conn {
			s.byID[i], s.left[i] = nil, now
			s.live--
			out.add(Effect{Kind: RemoveFrontend, Conn: conn, Frontend: f.ID})
			return true
		}
	}
	return false
}

// Frontends are those that are admitted, by rising id. Valid until the next event.
func (c *Cluster) Frontends(yield func(*Frontend) bool) {
	for _, f := range c.frontends.byID {
		if f != nil && !yield(f) {
			return
		}
	}
}

// Frontend finds one by its id; nil: there is none.
func (c *Cluster) Frontend(id wire.FrontendID) *Frontend {
	if int(id) >= len(c.frontends.byID) {
		return nil
	}
	return c.frontends.byID[id]
}

// addressMax is what a Member frame takes.
const addressMax = 128

// located is where backends find what listens at address and is seen at host seen. near:
// it has the host only of a loopback device, which the scheduler shares.
func located(address, seen string) (at string, near bool, err error) {
	if address == "" || len(address) > addressMax {
		return "", false, fmt.Errorf("address %q: it must have 1 to %d bytes", address, addressMax)
	}
	if scheme, rest, ok := strings.Cut(address, ":"); scheme != "tcp" && ok && rest != "" {
		return address, false, nil
	}
	host, port, err := wire.SplitTCP(address)
	if err != nil {
		return "", false, err
	}
	if !wire.Unspecified(host) {
		return address, false, nil
	}
	if seen == "" {
		seen = "127.0.0.1" // it shares the scheduler's process
	}
	return wire.JoinTCP(seen, port), wire.Loopback(seen), nil
}

// AddressFor is where a backend finds the frontend that reaches the scheduler at host
// local from host remote. A frontend beside the scheduler that listens everywhere is
// found where the scheduler is.
func (f *Frontend) AddressFor(local, remote string) string {
	if !f.Near || local == "" || wire.Loopback(remote) {
		return f.Address
	}
	_, port, err := wire.SplitTCP(f.Address)
	if err != nil {
		return f.Address
	}
	return wire.JoinTCP(local, port)
}
