package frontend

import (
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport/wire"
)

// A new leader that does not serve a model yet says so, and gets the request again; one that
// drains has it until another one leads.
func TestRefusedAtATakeOver(t *testing.T) {
	h := newMembers(t, 2, nil)
	h.lead(0, 100, true)
	answers := h.ask(0)
	id := h.got(t, 0, 1)[0].Request
	h.lead(1, 200, true)
	h.got(t, 1, 1)
	h.answer(1, id, wire.ReasonUnavailable)
	h.got(t, 1, 2)
	h.answer(1, id, wire.ReasonUnknownModel)
	h.got(t, 1, 3)
	h.answer(1, id, wire.ReasonDraining)
	none(t, "it drains", answers)
	h.lead(0, 300, true)
	h.got(t, 0, 2)
	h.output(id, wire.ReasonNone)
	if err := <-answers; err != nil {
		t.Error(err)
	}
	allFree(t, h.Client)
}

// What a new leader gives back while it takes over it gets again now and then, not at once.
func TestGivenBackAgainAndAgain(t *testing.T) {
	h := newMembers(t, 2, nil)
	h.lead(0, 100, true)
	answers := h.ask(0)
	id := h.got(t, 0, 1)[0].Request
	began := time.Now()
	h.lead(1, 200, true)
	times := 0
	for time.Since(began) < 20*lackPause.Std() {
		times++
		h.got(t, 1, times)
		h.answer(1, id, wire.ReasonUnavailable)
	}
	if most := int(time.Since(began)/lackPause.Std()) + 2; times > most {
		t.Errorf("it was sent %d times, at most %d", times, most)
	}
	h.got(t, 1, times+1)
	h.output(id, wire.ReasonNone)
	if err := <-answers; err != nil {
		t.Error(err)
	}
	allFree(t, h.Client)
}
