package server

import (
	"encoding/json"
	"errors"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// standing tells the spares what orders have set, while this scheduler leads: whole when a spare's
// link comes up, and when something has changed.
type standing struct {
	rounds

	told map[transport.Link]uint64 // Owned by run: the serial that a spare knows.
}

func newStanding(s *Server) *standing {
	return &standing{rounds: newRounds(s)}
}

// tell brings all spares up to date; true when somebody's link could not take it.
func (t *standing) tell() (behind bool) {
	s := t.server
	lead := s.group.lead()
	if !lead.Leads || !s.leads.Load() {
		return false
	}
	spares := s.group.links()
	told := map[transport.Link]uint64{}
	var payload []byte
	s.mu.Lock()
	serial := s.cluster.StandingSerial() + 1 // 0: a spare knows nothing
	s.mu.Unlock()
	for _, l := range spares {
		if told[l] = t.told[l]; told[l] == serial {
			continue
		}
		if payload == nil {
			s.mu.Lock()
			doc := s.cluster.Standing(lead.Epoch)
			serial = s.cluster.StandingSerial() + 1
			s.mu.Unlock()
			var err error
			if payload, err = json.Marshal(doc); err != nil {
				s.log.Error().Err(err).Msg("spares are not told what was ordered")
				return false
			}
		}
		err := l.SendPayload((&wire.Doc{Type: wire.DocStanding}).Append(nil, len(payload)), payload, nil)
		switch {
		case err == nil:
			told[l] = serial
		case errors.Is(err, transport.ErrFull):
			behind = true
		}
	}
	t.told = told
	return behind
}

// onStanding takes what the leader tells.
func (s *Server) onStanding(payload []byte) error {
	doc, err := catalog.DecodeStanding(payload)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.leads.Load() {
		return nil // of one that has led before
	}
	err = s.cluster.TakeStanding(mono.Now(), &doc, &s.effects)
	s.carryOut(&s.effects)
	if err != nil { // it knows more names than there may be here
		s.log.Warn().Err(err).Msg("not all that the leader tells holds here")
	}
	return nil
}
