package server

import (
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// labelsKept bounds the labels that are kept, in bytes; beyond it, all are asked for anew.
const labelsKept = 16 << 20

// labels passes models' labels from the backends that have them to the frontends that ask:
// most are never asked for. Guarded by Server.mu.
type labels struct {
	kept  map[catalog.Digest][]byte
	bytes int
	asked map[catalog.Digest]question
}

// question is labels on their way.
type question struct {
	of      members.Conn   // a backend
	waiting []members.Conn // frontends
}

// want answers a frontend's question, or passes it on. A frontend that gets no answer asks
// again; what nobody has is nobody's to tell.
func (s *Server) wantLabels(f *frontend, d catalog.Digest) {
	if b, ok := s.labels.kept[d]; ok {
		sendLabels(f.link, b)
		return
	}
	q, asked := s.labels.asked[d]
	if asked && s.backends[q.of] == nil {
		asked = false
	}
	if !asked {
		of, ok := s.cluster.Holder(d)
		if !ok {
			return
		}
		q.of = of
		transport.SendDoc(s.backends[of].link, wire.DocWant, catalog.Want{Labels: d})
	}
	if len(q.waiting) < s.cfg.FrontendsMax && !slices.Contains(q.waiting, f.conn) { // who asks again gets it once
		q.waiting = append(q.waiting, f.conn)
	}
	s.labels.asked[d] = q
}

// gotLabels passes on what a backend was asked for.
func (s *Server) gotLabels(b *backend, payload []byte) error {
	d := catalog.DigestOf(payload)
	q, asked := s.labels.asked[d]
	if !asked || q.of != b.conn {
		return fmt.Errorf("labels came that were not asked for")
	}
	delete(s.labels.asked, d)
	kept := append([]byte(nil), payload...)
	if s.labels.bytes += len(kept); s.labels.bytes > labelsKept {
		clear(s.labels.kept)
		s.labels.bytes = len(kept)
	}
	s.labels.kept[d] = kept
	for _, conn := range q.waiting {
		if f := s.frontends[conn]; f != nil {
			sendLabels(f.link, kept)
		}
	}
	return nil
}

// sendLabels sends them if the link takes them now: who does not get them asks again.
func sendLabels(l transport.Link, b []byte) {
	_ = l.SendPayload((&wire.Doc{Type: wire.DocLabels}).Append(nil, len(b)), b, nil)
}
