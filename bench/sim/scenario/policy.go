package scenario

import (
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

// Policies are the names that a scenario may give:
//
//	symphony          deferred scheduling as it is served
//	symphony/head     that drops only what cannot be served alone
//	symphony/paper    Algorithm 1 to the letter: exec is frontrun; drops as symphony/head
//	eager             dispatch when a GPU is free, the drop policy head
//	eager/target      the same with the drop policy target
//	timeout:K         wait K of the SLO from the first arrival; drop policy head
//	clockwork         strategies headed by the oldest request
//	clockwork/every   strategies headed by every request
//	clockwork/pow2    batch sizes that are powers of two
//	shepherd          the largest batch first, with preemption
//	nexus             plans for each epoch, one frontend
//	nexus/8fe         requests come through 8 frontends that do not coordinate
func Policies() []string {
	return []string{"symphony", "symphony/head", "symphony/paper", "eager", "eager/target", "timeout:K", "clockwork", "clockwork/every", "clockwork/pow2", "shepherd", "nexus", "nexus/8fe"}
}

// parsePolicy returns the maker of a scheduler, and how many frontends its name
// demands; 0: any.
func parsePolicy(name string) (make sim.PolicyFactory, frontends int, err error) {
	if k, ok := strings.CutPrefix(name, "timeout:"); ok {
		share, err := strconv.ParseFloat(k, 64)
		if err != nil || !(share >= 0 && share < 1) {
			return nil, 0, refuse("policy", "%q: K is %q, must be a share of the SLO from 0 to below 1, as in timeout:0.4", name, k)
		}
		return func(c policy.Config) policy.Scheduler {
			return timeout.New(c, timeout.Options{Policy: batching.PolicyHead, Share: share})
		}, 0, nil
	}
	if n, ok := strings.CutPrefix(name, "nexus/"); ok {
		digits, fe := strings.CutSuffix(n, "fe")
		frontends, err := strconv.Atoi(digits)
		if !fe || err != nil || frontends < 1 || frontends > frontendsMax {
			return nil, 0, refuse("policy", "%q: must be nexus/Nfe with N from 1 to %d, as in nexus/8fe", name, frontendsMax)
		}
		return newNexus, frontends, nil
	}
	switch name {
	case "symphony":
		return deferredBy(deferred.Options{}), 0, nil
	case "symphony/head":
		return deferredBy(deferred.Options{Policy: batching.PolicyHead}), 0, nil
	case "symphony/paper":
		return deferredBy(deferred.Options{Policy: batching.PolicyHead, Window: batching.WindowFrontrun}), 0, nil
	case "eager":
		return eagerBy(batching.PolicyHead), 0, nil
	case "eager/target":
		return eagerBy(batching.PolicyTarget), 0, nil
	case "clockwork":
		return clockworkBy(clockwork.Options{}), 0, nil
	case "clockwork/every":
		return clockworkBy(clockwork.Options{Heads: clockwork.EveryRequest}), 0, nil
	case "clockwork/pow2":
		return clockworkBy(clockwork.Options{BatchSizes: clockwork.PowersOfTwo}), 0, nil
	case "shepherd":
		return newShepherd, 0, nil
	case "nexus":
		return newNexus, 0, nil
	}
	return nil, 0, refuse("policy", "%q, must be one of %s", name, strings.Join(Policies(), ", "))
}

func eagerBy(p batching.Policy) sim.PolicyFactory {
	return func(c policy.Config) policy.Scheduler { return eager.New(c, eager.Options{Policy: p}) }
}

func deferredBy(o deferred.Options) sim.PolicyFactory {
	return func(c policy.Config) policy.Scheduler { return deferred.New(c, o) }
}

func clockworkBy(o clockwork.Options) sim.PolicyFactory {
	return func(c policy.Config) policy.Scheduler { return clockwork.New(c, o) }
}

func newShepherd(c policy.Config) policy.Scheduler {
	return shepherd.New(c, shepherd.Options{Preempt: shepherd.PreemptDefault})
}

func newNexus(c policy.Config) policy.Scheduler { return nexus.New(c, nexus.Options{}) }
