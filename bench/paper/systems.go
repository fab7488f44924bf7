package paper

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/bench/sim/scenario"
)

// The systems by the names that stand in pictures, tables and kept results.
// Package plot knows the names' beginnings and gives each system the same
// colour everywhere. What a system is, package scenario knows: SystemOf.
const (
	Symphony        = "Symphony"
	SymphonyDefer   = "Symphony, whole deferral" // the rule before it, always
	SymphonyNone    = "Symphony headroom 0"      // spends no GPU on latency
	Algorithm1      = "Algorithm 1"              // to the letter; not symphony/head, whose window learns
	AlgorithmTarget = "Algorithm 1 target"       // its window, with Symphony's drop policy
	Eager           = "eager"                    // section 3.4
	EagerTarget     = "eager target"             // with Symphony's drop policy
	Timeout         = "timeout"                  // "timeout 40": k is 40 % of the SLO; see TimeoutOf
	TimeoutTarget   = "timeout target"           // with Symphony's drop policy; see TimeoutTargetOf
	Clockwork       = "Clockwork"                // strategies headed by the oldest request, any batch size
	ClockworkAny    = "Clockwork any"            // headed by every request
	ClockworkPow2   = "Clockwork pow2"           // powers of two only
	Nexus1FE        = "Nexus 1FE"
	Nexus8FE        = "Nexus 8FE"
	Shepherd        = "Shepherd"
	ShepherdCalm    = "Shepherd calm" // never preempts
)

// TimeoutOf is the timeout scheduler whose k is that percentage of each SLO.
func TimeoutOf(percent float64) string {
	return Timeout + " " + strconv.FormatFloat(percent, 'g', -1, 64)
}

// TimeoutTargetOf is the same with Symphony's drop policy.
func TimeoutTargetOf(percent float64) string {
	return TimeoutTarget + strings.TrimPrefix(TimeoutOf(percent), Timeout)
}

// SystemOf finds a system by its name.
func SystemOf(name string) (scenario.Policy, error) {
	policy, err := policyOf(name)
	if err != nil {
		return scenario.Policy{}, err
	}
	return scenario.PolicyOf(policy)
}

// policyOf is the system's name in package scenario.
func policyOf(name string) (string, error) {
	for _, k := range []struct{ system, policy string }{
		{Symphony, "symphony"},
		{SymphonyNone, "symphony/headroom:0"},
		{SymphonyDefer, "symphony/defer"},
		{Algorithm1, "symphony/paper"},
		{AlgorithmTarget, "symphony/paper/target"},
		{Eager, "eager"},
		{EagerTarget, "eager/target"},
		{Clockwork, "clockwork"},
		{ClockworkAny, "clockwork/every"},
		{ClockworkPow2, "clockwork/pow2"},
		{Nexus1FE, "nexus/1fe"},
		{Nexus8FE, "nexus/8fe"},
		{Shepherd, "shepherd"},
		{ShepherdCalm, "shepherd/calm"},
	} {
		if k.system == name {
			return k.policy, nil
		}
	}
	for _, k := range []struct{ system, policy string }{{TimeoutTarget, "timeout/target:"}, {Timeout, "timeout:"}} {
		if text, ok := strings.CutPrefix(name, k.system+" "); ok {
			if percent, err := strconv.ParseFloat(text, 64); err == nil {
				return k.policy + strconv.FormatFloat(percent/100, 'g', -1, 64), nil
			}
		}
	}
	return "", fmt.Errorf("no system %q", name)
}
