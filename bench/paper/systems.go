package paper

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/clockwork"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
	"github.com/symphony-serving/symphony/scheduler/policy/eager"
	"github.com/symphony-serving/symphony/scheduler/policy/nexus"
	"github.com/symphony-serving/symphony/scheduler/policy/shepherd"
	"github.com/symphony-serving/symphony/scheduler/policy/timeout"
)

// The systems by name. Package plot knows the names' beginnings and gives each
// system the same colour everywhere.
const (
	Symphony      = "Symphony"
	SymphonyHead  = "Symphony head"  // Algorithm 1 to the letter: exec is frontrun; drops only what cannot make it alone
	Eager         = "eager"          // section 3.4: exec is now; drops as SymphonyHead
	EagerTarget   = "eager target"   // with Symphony's drop policy
	Timeout       = "timeout"        // "timeout 40": k is 40 % of the SLO; see TimeoutOf
	Clockwork     = "Clockwork"      // strategies headed by the oldest request, any batch size
	ClockworkAny  = "Clockwork any"  // headed by every request
	ClockworkPow2 = "Clockwork pow2" // powers of two only
	Nexus1FE      = "Nexus 1FE"
	Nexus8FE      = "Nexus 8FE"
	Shepherd      = "Shepherd"
	ShepherdCalm  = "Shepherd calm" // never preempts
)

// TimeoutOf is the timeout scheduler whose k is that percentage of each SLO.
func TimeoutOf(percent float64) string {
	return Timeout + " " + strconv.FormatFloat(percent, 'g', -1, 64)
}

// System is a scheduler to measure.
type System struct {
	New       sim.PolicyFactory
	Frontends int // 0 means 1
}

// SystemOf finds a system by its name.
func SystemOf(name string) (System, error) {
	switch name {
	case Symphony:
		return ofDeferred(deferred.Options{}), nil
	case SymphonyHead:
		return ofDeferred(deferred.Options{Window: batching.WindowFrontrun, Policy: batching.PolicyHead}), nil
	case Eager:
		return ofEager(batching.PolicyHead), nil
	case EagerTarget:
		return ofEager(batching.PolicyTarget), nil
	case Clockwork:
		return ofClockwork(clockwork.Options{}), nil
	case ClockworkAny:
		return ofClockwork(clockwork.Options{Heads: clockwork.EveryRequest}), nil
	case ClockworkPow2:
		return ofClockwork(clockwork.Options{BatchSizes: clockwork.PowersOfTwo}), nil
	case Nexus1FE:
		return ofNexus(1), nil
	case Nexus8FE:
		return ofNexus(8), nil
	case Shepherd:
		return ofShepherd(shepherd.PreemptDefault), nil
	case ShepherdCalm:
		return ofShepherd(0), nil
	}
	if text, ok := strings.CutPrefix(name, Timeout+" "); ok {
		if percent, err := strconv.ParseFloat(text, 64); err == nil && percent >= 0 && percent <= 100 {
			// Drops as the eager scheduler: k = 0 is that one.
			o := timeout.Options{Policy: batching.PolicyHead, Share: percent / 100}
			return System{New: func(c policy.Config) policy.Scheduler { return timeout.New(c, o) }}, nil
		}
	}
	return System{}, fmt.Errorf("no system %q", name)
}

func ofEager(p batching.Policy) System {
	return System{New: func(c policy.Config) policy.Scheduler { return eager.New(c, eager.Options{Policy: p}) }}
}

func ofDeferred(o deferred.Options) System {
	return System{New: func(c policy.Config) policy.Scheduler { return deferred.New(c, o) }}
}

func ofClockwork(o clockwork.Options) System {
	return System{New: func(c policy.Config) policy.Scheduler { return clockwork.New(c, o) }}
}

func ofNexus(frontends int) System {
	return System{Frontends: frontends, New: func(c policy.Config) policy.Scheduler { return nexus.New(c, nexus.Options{}) }}
}

func ofShepherd(preempt int) System {
	return System{New: func(c policy.Config) policy.Scheduler {
		return shepherd.New(c, shepherd.Options{Preempt: preempt})
	}}
}
