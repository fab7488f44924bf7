package scenario

import (
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/bench/policy/clockwork"
	"github.com/symphony-serving/symphony/bench/policy/cork"
	"github.com/symphony-serving/symphony/bench/policy/eager"
	"github.com/symphony-serving/symphony/bench/policy/nexus"
	"github.com/symphony-serving/symphony/bench/policy/published"
	"github.com/symphony-serving/symphony/bench/policy/shepherd"
	"github.com/symphony-serving/symphony/bench/policy/timeout"
	"github.com/symphony-serving/symphony/bench/policy/tuned"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
	"github.com/symphony-serving/symphony/scheduler/rank"
)

// Policy makes a scheduler.
type Policy struct {
	New       sim.PolicyFactory
	Frontends int // that its name demands; 0: any number
}

// named is a policy under its name.
type named struct {
	name string
	Policy
}

const (
	timeoutPrefix       = "timeout:"
	timeoutTargetPrefix = "timeout/target:"
	nexusPrefix         = "nexus/"
	headroomPrefix      = "symphony/headroom:"
	settingPrefix       = "symphony/setting:"
)

// table is the one place where policies are made by a name. bench/paper writes
// other names under its figures and asks for these.
func table() []named {
	return []named{
		// The scheduler as it serves: deferral as far as it pays, chosen by simulating itself.
		{"symphony", tunedBy(rank.Headroom{})},
		// The same, and only so many GPUs as H of the need may take batches early.
		// parseHeadroom makes it.
		{headroomPrefix + "H", Policy{}},
		// The whole deferral, always, with what its windows and drops have learnt.
		{"symphony/defer", deferredBy(deferred.Options{})},
		// One setting of those that the tuner tries. parseSetting makes it.
		{settingPrefix + "S", Policy{}},
		// symphony/defer, and it drops only what cannot be served alone.
		{"symphony/head", deferredBy(deferred.Options{Policy: batching.PolicyHead})},
		// Algorithm 1 to the letter: exec is frontrun; drops as symphony/head.
		{"symphony/paper", deferredBy(deferred.Options{Policy: batching.PolicyHead, Window: batching.WindowFrontrun})},
		// Its window; drops as symphony.
		{"symphony/paper/target", deferredBy(deferred.Options{Window: batching.WindowFrontrun})},
		// The rules of the code that the authors published.
		{"symphony/code", Policy{New: func(c policy.Config) policy.Scheduler { return published.New(c) }}},
		// Dispatch when a GPU is free; drops as symphony/head.
		{"eager", eagerBy(batching.PolicyHead)},
		// The same; drops as symphony.
		{"eager/target", eagerBy(batching.PolicyTarget)},
		// Wait K of the SLO from the first arrival; drops as symphony/head, so
		// that K = 0 is eager. parseTimeout makes it.
		{timeoutPrefix + "K", Policy{}},
		// The same; drops as symphony.
		{timeoutTargetPrefix + "K", Policy{}},
		// Strategies headed by the oldest request, for any batch size.
		{"clockwork", clockworkBy(clockwork.Options{})},
		// Strategies headed by every request.
		{"clockwork/every", clockworkBy(clockwork.Options{Heads: clockwork.EveryRequest})},
		// Batch sizes that are powers of two.
		{"clockwork/pow2", clockworkBy(clockwork.Options{BatchSizes: clockwork.PowersOfTwo})},
		// The largest batch first, with preemption.
		{"shepherd", shepherdBy(shepherd.PreemptDefault)},
		// The same without preemption.
		{"shepherd/calm", shepherdBy(0)},
		// Drop the head when all that wait could not run with it.
		{"cork", corkBy(0)},
		// One batch of a model at a time.
		{"cork/one", corkBy(1)},
		// Plans for each epoch.
		{"nexus", nexusBy(0)},
		// Requests come through 8 frontends that do not coordinate. parseNexus
		// takes other numbers too.
		{nexusPrefix + "8fe", nexusBy(8)},
	}
}

// Policies are the names that a scenario may give; table says what they mean.
func Policies() []string {
	var names []string
	for _, k := range table() {
		names = append(names, k.name)
	}
	return names
}

// PolicyOf finds a policy by its name.
func PolicyOf(name string) (Policy, error) {
	if k, ok := strings.CutPrefix(name, timeoutPrefix); ok {
		return parseTimeout(name, k, batching.PolicyHead)
	}
	if k, ok := strings.CutPrefix(name, timeoutTargetPrefix); ok {
		return parseTimeout(name, k, batching.PolicyTarget)
	}
	if n, ok := strings.CutPrefix(name, nexusPrefix); ok {
		return parseNexus(name, n)
	}
	if k, ok := strings.CutPrefix(name, headroomPrefix); ok {
		return parseHeadroom(name, k)
	}
	if k, ok := strings.CutPrefix(name, settingPrefix); ok {
		return parseSetting(name, k)
	}
	for _, k := range table() {
		if k.name == name {
			return k.Policy, nil
		}
	}
	return Policy{}, refuse("policy", "%q, must be one of %s", name, strings.Join(Policies(), ", "))
}

func parseTimeout(name, k string, drops batching.Policy) (Policy, error) {
	share, err := strconv.ParseFloat(k, 64)
	if err != nil || !(share >= 0 && share <= 1) {
		return Policy{}, refuse("policy", "%q: K is %q, must be a share of the SLO from 0 to 1, as in timeout:0.4", name, k)
	}
	o := timeout.Options{Policy: drops, Share: share}
	return Policy{New: func(c policy.Config) policy.Scheduler { return timeout.New(c, o) }}, nil
}

func parseNexus(name, n string) (Policy, error) {
	digits, fe := strings.CutSuffix(n, "fe")
	frontends, err := strconv.Atoi(digits)
	if !fe || err != nil || frontends < 1 || frontends > frontendsMax {
		return Policy{}, refuse("policy", "%q: must be nexus/Nfe with N from 1 to %d, as in nexus/8fe", name, frontendsMax)
	}
	return nexusBy(frontends), nil
}

func deferredBy(o deferred.Options) Policy {
	return Policy{New: func(c policy.Config) policy.Scheduler { return deferred.New(c, o) }}
}

func eagerBy(p batching.Policy) Policy {
	return Policy{New: func(c policy.Config) policy.Scheduler { return eager.New(c, eager.Options{Policy: p}) }}
}

func clockworkBy(o clockwork.Options) Policy {
	return Policy{New: func(c policy.Config) policy.Scheduler { return clockwork.New(c, o) }}
}

func shepherdBy(preempt int) Policy {
	return Policy{New: func(c policy.Config) policy.Scheduler { return shepherd.New(c, shepherd.Options{Preempt: preempt}) }}
}

func corkBy(batches int) Policy {
	return Policy{New: func(c policy.Config) policy.Scheduler { return cork.New(c, cork.Options{Batches: batches}) }}
}

func nexusBy(frontends int) Policy {
	return Policy{Frontends: frontends, New: func(c policy.Config) policy.Scheduler { return nexus.New(c, nexus.Options{}) }}
}

func parseHeadroom(name, text string) (Policy, error) {
	h, err := rank.ParseHeadroom(text)
	if err != nil {
		return Policy{}, refuse("policy", "%q: %v, as in %s0.25", name, err, headroomPrefix)
	}
	return tunedBy(h), nil
}

func parseSetting(name, text string) (Policy, error) {
	set, err := batching.ParseSetting(text)
	if err != nil {
		return Policy{}, refuse("policy", "%q: %v", name, err)
	}
	return deferredBy(deferred.Options{Setting: set}), nil
}

func tunedBy(h rank.Headroom) Policy {
	return Policy{New: func(c policy.Config) policy.Scheduler { return tuned.New(c, tuned.Options{Headroom: h}) }}
}
