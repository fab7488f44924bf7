package timeout

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

const header = `Time-out batching on 2 GPUs, l(b) = b + 5 ms, largest batch 4, SLO 20 ms, k = 30 % (6 ms), drop policy head.

R1 waits for its timeout at 6.00 although both GPUs are free, and R2 and R3 come along. Four at 10.00 are
a full batch and run at once. R8 runs at 26.00, alone.`

func TestStory(t *testing.T) {
	const slo = 20 * mono.Millisecond
	p, err := profile.Linear(mono.Millisecond, 5*mono.Millisecond, 4)
	if err != nil {
		t.Fatal(err)
	}
	s := New(policy.Config{RequestsMax: 100}, Options{Policy: batching.PolicyHead, Share: 0.3})
	y := policytest.New(t, s, []policy.Model{{Profile: p, SLO: slo}}, 2)
	y.Submit(0, 0, 1, slo)
	y.Submit(2, 0, 2, slo)
	y.Submit(10, 0, 4, slo)
	y.Submit(20, 0, 1, slo)
	y.Advance(60)
	if y.Open() != 0 {
		t.Errorf("%d requests are still open", y.Open())
	}
	y.Golden("timeout", header)
}
