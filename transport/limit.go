package transport

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport/wire"
)

// Limiter is a Handler that bounds what its peer may send it, by what the peer is and
// how far it is trusted. A link asks it for each frame with a payload, from the goroutine
// that calls Receive and before it makes room for any of the payload; a larger one ends
// the link with a protocol error that names the limit, and the peer is told. A Handler
// that is none takes what Options.PayloadMax lets pass.
type Limiter interface {
	// PayloadMax is the largest payload of such a frame; 0: it may have none.
	PayloadMax(l Link, kind wire.Kind) int
}

// Largest documents. A frontend only introduces itself; a backend tells its models, and
// the scheduler those of all.
const (
	FrontendDocMax  = 64 << 10
	BackendDocMax   = 16 << 20
	SchedulerDocMax = 64 << 20
)

// DocsOf is the PayloadMax of a Handler that takes documents and no other payloads.
func DocsOf(kind wire.Kind, most int) int {
	if kind == wire.KindDoc {
		return most
	}
	return 0
}

// CheckPayload refuses a payload that h does not take.
func CheckPayload(l Link, h Handler, kind wire.Kind, n int) error {
	limit, ok := h.(Limiter)
	if !ok || n == 0 {
		return nil
	}
	most := limit.PayloadMax(l, kind)
	if n <= most {
		return nil
	}
	if most == 0 {
		return fmt.Errorf("%w: frame of kind %d with a payload, which it may not have", ErrProtocol, kind)
	}
	what := fmt.Sprintf("frame of kind %d", kind)
	if kind == wire.KindDoc {
		what = "document"
	}
	return fmt.Errorf("%w: %s of %d bytes, at most %d are taken of this peer", ErrProtocol, what, n, most)
}
