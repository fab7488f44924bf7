package backend

import (
	"errors"
	"testing"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/transport"
)

// halfDeaf takes documents, and no frames.
type halfDeaf struct {
	fullLink
}

func (l *halfDeaf) SendPayload([]byte, []byte, func()) error { return nil }
func (l *halfDeaf) Send([]byte) error                        { return transport.ErrFull }

// A backend that drains, and cannot say so on a new link, ends the link: the scheduler would go on
// to give it orders.
func TestFarewellThatIsRefused(t *testing.T) {
	b := &Backend{log: zerolog.Nop()}
	l := &halfDeaf{}
	u := &uplink{b: b}
	u.introduce(l)
	if l.cut != nil {
		t.Fatalf("a backend that serves: the link is cut: %v", l.cut)
	}
	b.draining.Store(true)
	if u.introduce(l); !errors.Is(l.cut, transport.ErrFull) {
		t.Errorf("the link: %v, want it closed as full", l.cut)
	}
}
