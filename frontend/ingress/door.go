package ingress

import (
	"net"

	"github.com/valyala/fasthttp"
)

// door is an address that the ingress is served on. The main one has all routes; those of
// the others are moved there where they have an address of their own, so that who may ask
// for inferences need not see the counts, nor reach the admin calls.
type door uint8

const (
	mainDoor  door = iota
	watchDoor      // /metrics and statistics
	adminDoor      // repository, settings, shared memory
	doors
)

// sideConnections is how many connections the doors beside the main one may have, each.
// They are not counted with the main one's: a crowd there does not keep the scraper out.
const sideConnections = 64

// served reports whether the route is served at the door: at its own, and at the main one
// unless it was moved.
func (s *Server) served(r *route, at door) bool {
	return r.door == at || at == mainDoor && !s.moved(r.door)
}

func (s *Server) moved(d door) bool {
	return d == watchDoor && s.cfg.MetricsApart || d == adminDoor && s.cfg.AdminApart
}

// elsewhere says where a path that is not served at a door is.
func (d door) elsewhere() string {
	switch d {
	case watchDoor:
		return "only /metrics and statistics are served on this port"
	case adminDoor:
		return "only the repository, settings and shared memory are served on this port"
	}
	return "this is served on an address of its own (metrics, frontend.admin)"
}

// Serve takes connections from l until Drain or Close. It may be called for
// several listeners.
func (s *Server) Serve(l net.Listener) error {
	return s.http.Serve(&listener{Listener: l, s: s})
}

// ServeMetrics serves /metrics and statistics and nothing else, for an address of their
// own; Config.MetricsApart takes them off the main one.
func (s *Server) ServeMetrics(l net.Listener) error {
	return s.watching.Serve(&listener{Listener: l, s: s, door: watchDoor})
}

// ServeAdmin serves admin calls and nothing else; Config.AdminApart takes them off the
// main address.
func (s *Server) ServeAdmin(l net.Listener) error {
	return s.admin.Serve(&listener{Listener: l, s: s, door: adminDoor})
}

// handleAt is the handler of a door.
func (s *Server) handleAt(d door) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) { s.handle(ctx, d) }
}
