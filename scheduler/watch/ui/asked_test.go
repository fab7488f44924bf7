package ui

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/watch"
)

// Who asks as soon as he has the reply is told of what happened since the last look.
func TestAskedAtOnce(t *testing.T) {
	f := &fake{}
	h := NewHub(Config{Source: func() Source { return f }})
	defer h.Close()
	if lost := h.Lost(5); len(lost) != 0 {
		t.Fatalf("%v before anything happened", lost)
	}
	f.tell(overload()...)
	if _, _, err := h.Story(watch.Key{Frontend: 2, ID: 0x2a}); err != nil {
		t.Error(err)
	}
	late := overload()[1]
	late.Request.Key.ID++
	f.tell(late)
	if lost := h.Lost(5); len(lost) == 0 || lost[0].Request != "2-2b" {
		t.Errorf("%v, want 2-2b first", lost)
	}
}
