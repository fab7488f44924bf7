package standby_test

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/wire"
)

// A spare takes over from a leader that yields, also where a higher reign was heard of: one that was claimed,
// and gave way to the leader, which had GPUs.
func TestALeaderYieldsBelowAHigherClaim(t *testing.T) {
	p := newScript(t)
	p.spare(5<<16 | 3)
	p.s.Beat(p.now, 1, wire.Beat{Epoch: 1<<16 | 1, Leads: true, Number: 1, Every: ms, Backends: 2, Yields: true}, &p.out)
	p.want("the leader yields", "ask 11, ask 12")
}
