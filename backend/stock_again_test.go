package backend

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A model that failed before it got a slot is told again on a new link, by a number of that link:
// the one before gave it another.
func TestFailedIsToldAgain(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := newStocking(t)
	defer s.end()
	s.admitted(100)
	here, away := source(t, "here", "1", ""), source(t, "away", "1", "")
	s.keep(catalog.Keep{Device: 0, Load: []catalog.Source{here}})
	s.until("here/1", catalog.StateReady, 0)
	s.shelf.set(errors.New("the source is away"), nil)
	s.keep(catalog.Keep{Device: 0, Load: []catalog.Source{away}})
	s.until("away/1", catalog.StateFailed)
	old := s.control()
	old.Close(nil)
	s.wait("a new introduction", func() bool { return s.link != nil && s.link != old })
	s.mu.Lock()
	s.docs = nil
	s.mu.Unlock()
	s.admitted(200)
	s.until("here/1", catalog.StateReady, 0)
	s.until("away/1", catalog.StateFailed)
	s.shelf.set(nil, nil)
	s.keep(catalog.Keep{Device: 0, Load: []catalog.Source{away}})
	s.until("away/1", catalog.StateReady, 0)
	s.bindTo(map[string]wire.ModelID{"here/1": 7, "away/1": 8})
	if d := s.orderOn(0, 200, 1, 8); d.Reason != wire.ReasonNone {
		t.Errorf("report %+v", d)
	}
}
