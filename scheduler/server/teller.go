package server

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	// tellRest is between two looks: what changes meanwhile is told together. The first
	// change after a rest is told at once.
	tellRest = 50 * time.Millisecond
	// tellModels is how many models a document tells of, some hundred bytes each.
	tellModels = 512
	// tellKept is how many documents are kept for others that need the same.
	tellKept = 64
)

// teller tells frontends what became of the catalogue. A document is made once for all
// frontends that know the same, and one whose link is full gets the rest later: a large
// catalogue cuts no link.
//
//	carryOut --look--> teller --Changes(since)--> each frontend that knows less
type teller struct {
	rounds

	made   map[uint64]told // Guarded by Server.mu: by what is known already
	serial uint64          // Guarded by Server.mu: of what was made
}

// told is a document, and what a frontend knows that has it.
type told struct {
	frame, payload []byte
	serial         uint64
	more           bool
}

func newTeller(s *Server) *teller {
	return &teller{rounds: newRounds(s), made: map[uint64]told{}}
}

// tell brings all frontends up to date; true when somebody's link could not take it all.
func (t *teller) tell() (behind bool) {
	s := t.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false // members that leave now are forgotten here, and not by the core
	}
	if t.serial != s.cluster.Serial() {
		t.serial = s.cluster.Serial()
		clear(t.made)
	}
	for f := range s.cluster.Frontends {
		if to := s.frontends[f.Conn]; to != nil && !t.tellOne(to) { // nil: its link has ended, and the core is about to hear
			behind = true
		}
	}
	return behind
}

// tellOne sends a frontend all that it does not know, or as much as its link takes.
func (t *teller) tellOne(f *frontend) bool {
	for f.behind || f.told < t.serial {
		doc, err := t.after(f.told)
		if err == nil {
			err = f.link.SendPayload(doc.frame, doc.payload, nil)
		}
		switch {
		case errors.Is(err, transport.ErrFull):
			return false
		case err != nil:
			f.link.Close(err)
			return true
		}
		f.told, f.behind = doc.serial, doc.more
	}
	return true
}

// after is the document for those who know what there was at since.
func (t *teller) after(since uint64) (told, error) {
	if doc, ok := t.made[since]; ok {
		return doc, nil
	}
	changes := t.server.cluster.Changes(since, tellModels)
	changes.Epoch = t.server.epoch
	payload, err := json.Marshal(changes)
	if err != nil {
		return told{}, err
	}
	doc := told{(&wire.Doc{Type: wire.DocChanges}).Append(nil, len(payload)), payload, changes.Serial, changes.More}
	if len(t.made) < tellKept {
		t.made[since] = doc
	}
	return doc, nil
}
