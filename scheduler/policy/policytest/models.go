package policytest

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Linear is the profile l(b) = alpha*b + beta, in milliseconds as the papers'
// tables are, with the largest batch maxBatch.
func Linear(t testing.TB, alpha, beta float64, maxBatch int) *profile.Profile {
	t.Helper()
	p, err := profile.Linear(mono.FromMillis(alpha), mono.FromMillis(beta), maxBatch)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Two is two models of l(b) = b + 5 ms.
func Two(t testing.TB) []policy.Model {
	t.Helper()
	return []policy.Model{{Profile: Linear(t, 1, 5, 16)}, {Profile: Linear(t, 1, 5, 16)}}
}
