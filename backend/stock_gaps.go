package backend

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/mono"
)

// gaps is a device that serves others, for single runs between its orders. Nothing stops a run
// that has begun, so the runs are bounded before:
//
//  1. A run begins where the device has no order. Where it always has one, the run begins after
//     busyFactor times the last run's length: it costs the others that part of the time.
//  2. After a run the device is left alone for restFactor times its length, if it has had an
//     order lately.
//  3. No batch is run that would take longer than another model of the device can wait
//     (longest); the profile of such sizes is estimated.
type gaps struct {
	ctx    context.Context
	device executor.Device
	exec   *executor.Executor
	under  sync.WaitGroup // the run under way
	share  share          // owned by the goroutine that measures, and by the run under way
}

// share is which part of a device's time the runs take.
type share struct {
	last mono.Dur  // length of the last run; 0: none has ended
	next mono.Time // before it the device is left alone
}

// due reports whether the next run may begin on a device that is free, and that has had no order
// for so long.
func (s *share) due(now mono.Time, quiet mono.Dur) bool { return now >= s.next || quiet > idleAfter }

// overdue reports whether a run that has waited since then is to go before the next order.
func (s *share) overdue(now, since mono.Time) bool {
	return now.Sub(since) > busyFactor*cmp.Or(s.last, unknownRun)
}

// ran takes note of a run.
func (s *share) ran(start, end mono.Time) {
	s.last = max(1, end.Sub(start))
	s.next = end.Add(restFactor * s.last)
}

const (
	// gapPause is waited between two looks whether a device is free.
	gapPause = time.Millisecond

	restFactor = 9  // a tenth of the time is taken from a device that serves
	busyFactor = 99 // a hundredth, where it has no gap

	// unknownRun is what the first run counts as, before it has run.
	unknownRun = 100 * mono.Millisecond
	// idleAfter is how long a device must have had no order to count as one that serves nothing.
	idleAfter = 2 * mono.Second
)

// inGaps has a runner's device run between its orders only.
func (s *stock) inGaps(ctx context.Context, r *runner) *runner {
	g := &gaps{ctx: ctx, device: r.device, exec: r.exec}
	end := r.end
	return &runner{device: g, slot: r.slot, exec: r.exec, longest: func() mono.Dur { return s.slack(r.exec) }, end: func() {
		g.under.Wait()
		end()
	}}
}

// busy reports whether a device has had an order lately; before the backend serves none has.
func (p *pool) busy(device int) bool {
	return device < len(p.executors) && p.executors[device].Quiet(mono.Now()) <= idleAfter
}

// slack is the longest that every model which a device serves can wait: what its SLO leaves
// beside a batch of one. It has no bound where the device has had no order lately.
func (s *stock) slack(exec *executor.Executor) mono.Dur {
	most := mono.Dur(mono.Never)
	if exec.Quiet(mono.Now()) > idleAfter {
		return most
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for d := range s.p.executors {
		if s.p.executors[d] != exec {
			continue
		}
		for _, e := range s.slots {
			if e != nil && e.ready(d) {
				most = min(most, e.spec.SLO-alone(e))
			}
		}
	}
	return most
}

// alone is how long a served model's batch of one takes. Caller holds mu.
func alone(e *entry) mono.Dur {
	p := &e.spec.Profile
	if len(p.Table) > 0 {
		return p.Table[0]
	}
	return p.Alpha + p.Beta
}

// Launch implements executor.Device; it waits for the run's turn.
func (g *gaps) Launch(b *executor.Batch) {
	for begin := mono.Now(); !g.turn(begin); time.Sleep(gapPause) {
		if g.ctx.Err() != nil {
			g.exec.Release() // a claim
			now := mono.Now()
			b.Finish(now, now, g.ctx.Err())
			return
		}
	}
	run := *b
	g.under.Add(1)
	run.Finish = func(start, end mono.Time, err error) {
		g.share.ran(start, end)
		g.exec.Release()
		b.Finish(start, end, err)
		g.under.Done()
	}
	g.device.Launch(&run)
}

// turn takes the device for a run, if that may begin now.
func (g *gaps) turn(since mono.Time) bool {
	now := mono.Now()
	if !g.share.due(now, g.exec.Quiet(now)) {
		return false
	}
	return g.exec.Hold() || g.share.overdue(now, since) && g.exec.HoldNext()
}

// Close implements executor.Device: it is not ours.
func (g *gaps) Close() {}
