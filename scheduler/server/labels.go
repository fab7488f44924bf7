package server

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// labelsKept bounds the labels that are kept, in bytes; beyond it, all are asked for anew.
const labelsKept = 16 << 20

// labelsAgain is how long a backend may take to answer before it, or another that has the
// labels, is asked again.
const labelsAgain = 2 * mono.Second

// labels passes models' labels from the backends that have them to the frontends that ask:
// most are never asked for. Guarded by Server.mu.
type labels struct {
	kept  map[catalog.Digest][]byte
	bytes int
	asked map[catalog.Digest]*question
}

// question is labels on their way.
type question struct {
	of      members.Conn   // a backend
	at      mono.Time      // when it was asked
	waiting []members.Conn // frontends
}

// wantLabels answers a frontend's question, or passes it on. A frontend that gets no answer
// asks again; what nobody has is nobody's to tell.
func (s *Server) wantLabels(now mono.Time, f *frontend, d catalog.Digest) {
	if !d.Valid() {
		return
	}
	if b, ok := s.labels.kept[d]; ok {
		s.sendLabels(f.link, b)
		return
	}
	q := s.labels.asked[d]
	if q == nil || now.Sub(q.at) >= labelsAgain {
		of, ok := s.askLabels(d)
		if !ok {
			return
		}
		if q == nil {
			q = &question{}
			s.labels.asked[d] = q
		}
		q.of, q.at = of, now
	}
	if len(q.waiting) < s.cfg.FrontendsMax && !slices.Contains(q.waiting, f.conn) { // who asks again gets it once
		q.waiting = append(q.waiting, f.conn)
	}
}

// askLabels asks a backend that has them; false when none has or its link is full. Reports
// come over the same link: no question cuts it.
func (s *Server) askLabels(d catalog.Digest) (members.Conn, bool) {
	of, ok := s.cluster.Holder(d)
	b := s.backends[of]
	if !ok || b == nil {
		return 0, false
	}
	payload, err := json.Marshal(catalog.Want{Labels: d})
	if err != nil || b.link.SendPayload((&wire.Doc{Type: wire.DocWant}).Append(nil, len(payload)), payload, nil) != nil {
		return 0, false
	}
	if b.asked == nil {
		b.asked = map[catalog.Digest]int{}
	}
	b.asked[d]++
	return of, true
}

// gotLabels passes on what a backend was asked for; d is their digest. Who answers late may
// have been asked in vain: another was quicker.
func (s *Server) gotLabels(b *backend, d catalog.Digest, payload []byte) error {
	if b.asked[d] == 0 {
		return errors.New("labels came that were not asked for")
	}
	if b.asked[d]--; b.asked[d] == 0 {
		delete(b.asked, d)
	}
	q := s.labels.asked[d]
	if q == nil {
		return nil
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
			s.sendLabels(f.link, kept)
		}
	}
	return nil
}

// forget ends the questions to a member that is gone, and its own. Frontends that wait for
// an answer ask again.
func (l *labels) forget(conn members.Conn) {
	for d, q := range l.asked {
		q.waiting = slices.DeleteFunc(q.waiting, func(c members.Conn) bool { return c == conn })
		if q.of == conn || len(q.waiting) == 0 {
			delete(l.asked, d)
		}
	}
}

// sweep ends the questions that have no answer and that nobody has asked again.
func (l *labels) sweep(now mono.Time) {
	for d, q := range l.asked {
		if now.Sub(q.at) >= 2*labelsAgain {
			delete(l.asked, d)
		}
	}
}
