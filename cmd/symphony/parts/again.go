package parts

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/scheduler/batching"
)

// Policy is how a scheduler decides.
type Policy struct {
	Tuner   float64 // as scheduler.tuner
	Setting batching.Setting
}

// Eager dispatches whenever a GPU is free: none of the deferral, no waiting for company, and
// GPUs go to the least latest (bench/policy/eager).
func Eager() Policy {
	return Policy{Setting: batching.Setting{Haste: batching.HasteAll, Alone: true, ByLatest: true}}
}

// again is how often Again asks whether all are back.
const again = 10 * time.Millisecond

// Again ends the scheduler of a system and starts one with another policy at its addresses.
// Frontend and backend find it by themselves; it returns when these models are served again.
// Nothing may be under way: the old scheduler's requests are answered with a reason.
func (p *Process) Again(ctx context.Context, s *System, policy Policy, models ...string) error {
	p.cfg.Scheduler.Listen, p.cfg.Scheduler.Tuner, p.setting = s.Scheduler.Addresses(), policy.Tuner, policy.Setting
	if err := s.Scheduler.Close(); err != nil {
		return err
	}
	next, err := p.Scheduler()
	if err != nil {
		s.Scheduler = nil // closed
		return err
	}
	s.Scheduler = next
	// What the client knows of the old scheduler's models says nothing about the new one.
	for s.Client.Models().Epoch != next.Epoch() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the frontend has not found the new scheduler: %w", ctx.Err())
		case <-time.After(again):
		}
	}
	return s.Client.WaitReady(ctx, models...)
}
