package soak

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// describe is the fault's target in words, and whether HTTP clients may see broken
// connections because of it.
func (c *cluster) describe(f Fault) (target string, breaksHTTP bool) {
	target = c.cfg.Target(f)
	switch f.Kind {
	case FrontendKill:
		return target, true
	case LinkDelay:
		return fmt.Sprintf("%s, %v for %v", target, f.Delay, f.Hold), false
	case LinkStall, LinkCut:
		return fmt.Sprintf("%s for %v", target, f.Hold), c.links[f.Target].http
	}
	return target, false
}

// inject does what the fault says, and undoes it. An error is the soak's own, or a
// part that does not start again.
func (c *cluster) inject(ctx context.Context, f Fault) (wrong []string, err error) {
	switch f.Kind {
	case BackendKill:
		return nil, c.restart(ctx, c.backends[f.Target], f.Hold)
	case FrontendKill:
		return nil, c.restart(ctx, c.frontends[f.Target], f.Hold)
	case SchedulerKill:
		return nil, c.restart(ctx, c.scheduler, f.Hold)
	case BackendStop:
		p, _, _ := c.backends[f.Target].now()
		if err := p.signal(syscall.SIGSTOP); err != nil {
			return nil, err
		}
		sleep(ctx, f.Hold)
		return nil, p.signal(syscall.SIGCONT)
	case LinkDelay, LinkStall, LinkCut:
		l := c.links[f.Target]
		l.set(f.Delay.Std(), f.Kind == LinkStall, f.Kind == LinkCut)
		sleep(ctx, f.Hold)
		l.set(0, false, false)
	case Garbage:
		return c.garbage(f.Seed), nil
	case SlowLoris:
		_, _, listen := c.frontends[f.Target].now()
		slowLoris(listen[0], slowConnections, f.Hold.Std())
	case Flood:
		c.flood(floodConnections)
	}
	return nil, nil
}

const (
	slowConnections  = 100
	floodConnections = 200
)

// restart kills a part and starts it again, also when ctx ends in between.
func (c *cluster) restart(ctx context.Context, t *part, dead mono.Dur) error {
	p, _, _ := t.now()
	p.kill()
	sleep(ctx, dead)
	return c.run(t)
}

// sleep returns early when ctx ends.
func sleep(ctx context.Context, d mono.Dur) {
	select {
	case <-ctx.Done():
	case <-time.After(d.Std()):
	}
}

// healMax is how long the system may take to be whole again after a fault.
const healMax = 30 * mono.Second

// fault is one line of the plan: window, injection, recovery.
func (r *run) fault(ctx context.Context, f Fault) {
	target, breaks := r.cluster.describe(f)
	r.windows.open(f.Kind, target, breaks, mono.Now())
	wrong, err := r.cluster.inject(ctx, f)
	for _, text := range wrong {
		r.failed("%s: %s", f.Kind, text)
	}
	if err != nil {
		r.failed("%s of %s: %v", f.Kind, target, err)
	}
	begin, note := mono.Now(), ""
	for {
		if err = r.cluster.healthy(r.web); err == nil || ctx.Err() != nil {
			break
		}
		if mono.Now().Sub(begin) > healMax {
			note = fmt.Sprintf("not whole again after %v: %v", healMax, err)
			r.failed("%s of %s: %s", f.Kind, target, note)
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	healed := mono.Now()
	sleep(ctx, r.cfg.Settle)
	r.windows.shut(healed, mono.Now(), note)
}
