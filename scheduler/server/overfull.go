package server

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/sampled"
	"github.com/symphony-serving/symphony/transport/wire"
)

// overfull counts and logs links that take no more, because the peer has not read for so long that
// transport.Options.SendBuffer is full. A frame that such a link refuses is lost: the request whose
// answer it was would wait for its deadline, and a frontend that has not heard of another leader
// would go on asking this scheduler. So the link is closed. Then the peer answers its open requests
// at once, with a reason, dials again, and is told the rest.
type overfull struct {
	ended  *prometheus.CounterVec // by the peer's role
	labels prometheus.Counter
	log    *sampled.Log[overfullLink]
}

type overfullLink struct {
	peer wire.Hello
	err  error
	did  string
}

func newOverfull(s *Server) overfull {
	return overfull{
		ended:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_full_links_total", Help: "Links that the scheduler closed because the peer did not read what it was sent, by the peer's role."}, []string{"role"}),
		labels: prometheus.NewCounter(prometheus.CounterOpts{Name: "symphony_labels_refused_total", Help: "Labels that a frontend's link was too full for: the frontend asks again."}),
		log: sampled.New(sampled.Span, func(l overfullLink, left int) {
			s.log.Warn().Str("peer", l.peer.Name).Str("role", roleName(l.peer.Role)).Err(l.err).Int("and_others", left).Msg(l.did)
		}),
	}
}

func roleName(r wire.Role) string {
	switch r {
	case wire.RoleFrontend:
		return "frontend"
	case wire.RoleBackend:
		return "backend"
	case wire.RoleController:
		return "controller"
	case wire.RoleScheduler:
		return "scheduler"
	}
	return "other"
}

// mustHear sends a frame that its peer must get. A link that does not take it is closed.
func (s *Server) mustHear(l transport.Link, frame []byte) {
	if err := l.Send(frame); err != nil {
		s.refused(l, err)
	}
}

// refused closes a link that has refused a frame that its peer must get.
func (s *Server) refused(l transport.Link, err error) {
	if errors.Is(err, transport.ErrFull) {
		peer := l.Peer()
		s.overfull.ended.WithLabelValues(roleName(peer.Role)).Inc()
		err = fmt.Errorf("%w: the peer does not read what it is sent", err)
		s.overfull.log.Add(overfullLink{peer, err, "a link takes no more: it is closed, which answers what its peer waits for; the peer dials again"})
	}
	l.Close(err)
}

// sendLabels sends labels to a frontend. A link that is too full for them stays: a frontend that does not get
// them asks again (frontend.labelsAgain).
func (s *Server) sendLabels(l transport.Link, b []byte) {
	if err := l.SendPayload((&wire.Doc{Type: wire.DocLabels}).Append(nil, len(b)), b, nil); errors.Is(err, transport.ErrFull) {
		s.overfull.labels.Inc()
		s.overfull.log.Add(overfullLink{l.Peer(), err, "a link takes no labels now: the frontend asks again"})
	} else if err != nil {
		l.Close(err) // it has ended, or could never take them
	}
}
