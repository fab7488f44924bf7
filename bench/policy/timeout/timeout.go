// Package timeout is time-out based batching, as TensorFlow Serving has it: a
// batch is dispatched when it is full, or a constant time after its first
// request arrived (Symphony, sections 2.2 and 3.4).
//
// # Rule
//
// Line 5 of Algorithm 1 becomes exec = max(now, a + k): a is the arrival of the
// batch's first request, k a share of its model's SLO. The batch that waits
// for it is what still fits then. A full batch (the profile's largest) does not
// wait.
//
// # What the paper leaves open
//
// What happens where k leaves too little time for even one request (k > 1 -
// l(1)/SLO): the request is then started at the last instant that serves it
// alone. The arrival is the deadline less the SLO, which is the same where
// requests carry their model's SLO.
package timeout

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
)

// Options of the scheduler.
type Options struct {
	Policy batching.Policy
	// Share is k as a share of each model's SLO, 0 to 1; 0 is eager.
	Share float64
}

// New makes a scheduler without models or GPUs.
func New(cfg policy.Config, opts Options) *deferred.Scheduler {
	return deferred.New(cfg, deferred.Options{Policy: opts.Policy, Window: batching.WindowTimeout, TimeoutShare: opts.Share})
}
