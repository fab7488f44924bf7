package netbench

import (
	"errors"
	"testing"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// deaf refuses all that is sent.
type deaf struct {
	transport.Link
	cause error
}

func (l *deaf) Send([]byte) error { return transport.ErrFull }
func (l *deaf) SendPayload(_, _ []byte, release func()) error {
	release()
	return transport.ErrFull
}
func (l *deaf) Close(cause error) { l.cause = cause }

type heap struct{ transport.Allocator }

func (heap) Alloc(n int) []byte { return make([]byte, n) }
func (heap) Free([]byte)        {}

// An answer that the link does not take ends the link: the client waits for it.
func TestEchoThatIsRefused(t *testing.T) {
	message, err := control(64)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]transport.Frame{
		"leave":   {Kind: wire.KindLeave, Body: loud()[wire.HeaderSize:]},
		"message": {Kind: wire.KindMember, Body: message[wire.HeaderSize:]},
		"payload": {Kind: wire.KindOutput},
	} {
		e, l := &echo{memory: heap{}, answers: map[int][]byte{}}, &deaf{}
		e.Buffer(l, f.Kind, nil, 8)
		if e.Receive(l, f); !errors.Is(l.cause, transport.ErrFull) {
			t.Errorf("%s: the link: %v, want it closed as full", name, l.cause)
		}
	}
}
