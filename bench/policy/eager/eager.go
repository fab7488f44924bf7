// Package eager is eager batching: a batch is dispatched whenever a GPU is
// free, as large as the requests that wait and their deadlines let it be
// (Symphony, sections 2.2 and 3.4).
//
// # Rule
//
// Line 5 of Algorithm 1 becomes exec = now: a candidate is schedulable as soon
// as it exists. When several wait for a GPU, the one with the least latest
// takes it, as in Algorithm 1: no head starts (rank.Config). Everything else, the
// drop policies included, is the deferred scheduler's.
//
// # What the paper leaves open
//
// Which drop policy its eager scheduler has. Both are here: Head drops only
// what cannot make its deadline alone; Target is the policy of our deferred
// scheduler. Which of them is stronger depends on the workload, so figures
// compare with the better of both.
package eager

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
)

// Options of the scheduler.
type Options struct{ Policy batching.Policy }

// New makes an eager scheduler without models or GPUs.
func New(cfg policy.Config, opts Options) *deferred.Scheduler {
	return deferred.New(cfg, deferred.Options{Policy: opts.Policy, Window: batching.WindowEager})
}
