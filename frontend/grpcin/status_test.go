package grpcin

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/symphony-serving/symphony/transport/wire"
)

// What HTTP answers with frontend.full_status, whichever that is, is no fault of the server's.
func TestFullIsResourceExhausted(t *testing.T) {
	for _, r := range []wire.Reason{wire.ReasonFull, wire.ReasonShed, wire.ReasonMemory, wire.ReasonUnsent, wire.ReasonIsolated} {
		for _, full := range []int{429, 503} {
			if got := codeOf(full, r.String()); got != codes.ResourceExhausted {
				t.Errorf("%v with %d: %v", r, full, got)
			}
		}
	}
}
