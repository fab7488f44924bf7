package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/mono"
)

// leading is one reign: the loop around a lead.Lead.
type leading struct {
	c    *Controller
	ctx  context.Context // ends with the lead
	link *link

	// Owned by the loop.
	lead    *lead.Lead
	effects lead.Effects
	failed  map[string]string             // why versions are failed, as it was logged
	epochs  schema.Control                // whether they go on, as the core was told
	stored  uint64                        // the last plan's epoch
	since   map[string]schema.Observation // what was written, for the instants of states

	said     map[string]bool // that these could not be stored
	observed *store.Writer[schema.Observation]
	measured *store.Writer[schema.Measured]
	loads    *store.Writer[schema.Load]
	plans    chan planned // to be stored, in order

	calls  chan func()     // from the API
	solved chan *lead.Task // partitions that are computed
	aside  sync.WaitGroup
}

// planned is a plan's head, with its parts where it is new.
type planned struct {
	head  schema.Plan
	parts []schema.SubCluster
	first bool // of the epoch: its parts go with it
}

// plansWaiting is how many changes of plans wait for the store: the newest state of each epoch
// is written, so little is lost where it is away for long.
const plansWaiting = 64

// lead runs a reign, and says why it ended.
func (c *Controller) lead(won *store.Lead) error {
	ctx, cancel := context.WithCancelCause(won.Context())
	defer cancel(nil)
	stop := context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })
	defer stop()
	l := &leading{c: c, ctx: ctx, lead: lead.New(c.cfg.Plan), since: map[string]schema.Observation{}, failed: map[string]string{}, said: map[string]bool{}, calls: make(chan func()),
		solved: make(chan *lead.Task, 1), plans: make(chan planned, plansWaiting)}
	defer c.view.rest()
	if err := l.restore(); err != nil {
		return err
	}
	guard := won.Guard()
	l.observed = c.cfg.Store.Observed.Writer(ctx, guard)
	l.measured = c.cfg.Store.Profiles.Writer(ctx, guard)
	l.loads = c.cfg.Store.Loads.Writer(ctx, guard)
	l.aside.Go(func() { l.storePlans(guard) })
	l.link = newLink(c)
	c.leads.Store(l)
	l.run()
	c.leads.Store(nil)
	l.link.close()
	cancel(nil)
	l.aside.Wait()
	l.observed.Close()
	l.measured.Close()
	l.loads.Close()
	return context.Cause(won.Context())
}

// restore takes over where the reign before was.
func (l *leading) restore() error {
	c := l.c
	head, parts, err := c.cfg.Store.LatestPlan(l.ctx)
	switch {
	case err == nil:
		l.lead.Restore(head.Value, parts)
		l.stored = head.Value.Epoch
	case !errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("reading the last plan: %w", err)
	}
	c.view.mu.Lock()
	if e := c.view.epochs; !e.Off && e.Since <= head.Value.At {
		l.epochs = e // of before the last plan
	}
	for _, of := range c.view.measured {
		for _, m := range of {
			l.lead.Profile(m)
		}
	}
	for name, versions := range c.view.observed {
		for _, o := range versions {
			l.since[name+"/"+o.Version] = o
			l.lead.Told(o)
		}
	}
	c.view.mu.Unlock()
	c.view.lead()
	l.wishes() // before the scheduler is heard: what a plan says is known by then
	return nil
}

// loadsEvery is how often rates and needs are stored.
const loadsEvery = 10 * time.Second

// run is the loop.
func (l *leading) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	loads := time.NewTicker(loadsEvery)
	defer loads.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.c.view.poked:
			l.wishes()
		case <-l.link.news:
			l.hear()
		case t := <-l.solved:
			if t.Aside != nil {
				l.c.log.Warn().Err(t.Aside).Msg("the solver failed; the search's partition holds")
			}
			l.lead.Partitioned(mono.Now(), t, &l.effects)
		case f := <-l.calls:
			f()
		case <-loads.C:
			l.storeLoads()
		case <-timer.C:
		}
		l.lead.Step(mono.Now(), &l.effects)
		l.carryOut()
		timer.Reset(l.until(l.lead.Wake()))
	}
}

// idleMax is how long the loop sleeps at most.
const idleMax = time.Minute

func (l *leading) until(at mono.Time) time.Duration {
	if at == mono.Never {
		return idleMax
	}
	return min(idleMax, max(time.Millisecond, time.Duration(at.Sub(mono.Now()))))
}

// wishes takes what people want now.
func (l *leading) wishes() {
	now := mono.Now()
	changed, epochs := l.c.view.take()
	for name, m := range changed {
		if m.Name == "" {
			l.lead.RemoveModel(now, name)
		} else {
			l.lead.SetModel(now, m)
		}
	}
	if epochs != l.epochs { // said again, it is meant again: a plan by hand ends with it
		l.epochs = epochs
		l.lead.Pause(now, epochs.Off)
	}
}

// hear takes what the scheduler has said.
func (l *leading) hear() {
	now := mono.Now()
	for _, said := range l.link.take() {
		switch {
		case said.lost:
			l.lead.Lost()
		case said.facts != nil:
			l.lead.Facts(now, said.facts)
		default:
			l.lead.Outcome(now, said.outcome, &l.effects)
		}
	}
}

// carryOut does what the core has decided.
func (l *leading) carryOut() {
	e := &l.effects
	for i := range e.Orders {
		l.link.send(&e.Orders[i])
	}
	l.c.metrics.orders.Add(float64(len(e.Orders)))
	now := time.Now().UnixNano()
	for _, o := range e.Observed {
		l.observe(o, now)
	}
	for _, o := range e.Gone {
		delete(l.failed, o.Model+"/"+o.Version)
		l.giveUp(o)
	}
	for _, m := range e.Measured {
		m.At = now
		l.unstored("what was measured", l.measured.Put(m))
	}
	for _, h := range e.Heads {
		var parts []schema.SubCluster
		parts, e.Parts = partsOf(h.Epoch, e.Parts)
		l.storePlan(h, parts, now)
	}
	for _, text := range e.Notes {
		l.c.log.Info().Msg(text)
	}
	if t := e.Task; t != nil {
		l.aside.Go(func() { l.solve(t) })
	}
	e.Reset()
}

// observe stores what became of a version; its instant is that of the state's begin.
func (l *leading) observe(o schema.Observation, now int64) {
	key := o.Model + "/" + o.Version
	before := l.since[key]
	o.Since = now
	if before.State == o.State {
		o.Since = before.Since
	}
	if o == before {
		return
	}
	switch {
	case o.State == schema.Serving || o.State == schema.Idle:
		delete(l.failed, key)
	case o.State == schema.Failed && l.failed[key] != o.Reason: // once, however often it is tried again
		l.failed[key] = o.Reason
		l.c.log.Error().Str("model", key).Str("cause", o.Reason).Msg("a model version is not served; others are not touched, and it is tried again")
	}
	l.since[key] = o
	if err := l.observed.Put(o); err != nil && l.ctx.Err() == nil {
		l.c.log.Error().Err(err).Str("model", key).Msg("what became of a model could not be stored")
	}
}

// giveUp deletes all that is stored of a version that nobody wants or has. Where a writer has
// ended, so has the reign.
func (l *leading) giveUp(o schema.Observation) {
	delete(l.since, o.Model+"/"+o.Version)
	_ = l.observed.Delete(o.ID())
	_ = l.loads.Delete(schema.Load{Model: o.Model, Version: o.Version}.ID())
	for _, id := range l.c.view.measuredOf(o.Model, o.Version) {
		_ = l.measured.Delete(id)
	}
}

// partsOf takes an epoch's parts out: they go with the first of its heads.
func partsOf(epoch uint64, all []schema.SubCluster) (of, rest []schema.SubCluster) {
	for _, p := range all {
		if p.Epoch == epoch {
			of = append(of, p)
		} else {
			rest = append(rest, p)
		}
	}
	return of, rest
}

// storePlan has a plan's head stored, and its parts with the first one.
func (l *leading) storePlan(h schema.Plan, parts []schema.SubCluster, now int64) {
	h.By, h.At = l.c.cfg.Name, now
	p := planned{head: h, parts: parts, first: h.Epoch > l.stored}
	l.stored = max(l.stored, h.Epoch)
	if h.State != schema.RollsOut && h.State != schema.Proposed {
		p.head.Ended = now
	}
	select {
	case l.plans <- p:
	default: // the store has been away for long
		l.c.log.Warn().Uint64("epoch", h.Epoch).Msg("the state of a plan could not be stored")
	}
}

// storePlans writes plans in their order.
func (l *leading) storePlans(guard store.Guard) {
	for {
		var p planned
		select {
		case p = <-l.plans:
		case <-l.ctx.Done():
			return
		}
		for again := false; ; again = true {
			err := l.writePlan(p, guard)
			var away *store.AwayError
			var conflict *store.ConflictError
			if again && p.first && errors.As(err, &conflict) {
				break // it was written, and the answer lost: nobody else may write it
			}
			if err == nil || !errors.As(err, &away) {
				if err != nil && l.ctx.Err() == nil {
					l.c.log.Error().Err(err).Uint64("epoch", p.head.Epoch).Msg("a plan could not be stored")
				}
				break
			}
			select {
			case <-l.ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
	}
}

func (l *leading) writePlan(p planned, guard store.Guard) error {
	if p.first {
		return l.c.cfg.Store.PutPlan(l.ctx, p.head, p.parts, guard)
	}
	_, err := l.c.cfg.Store.Plans.Change(l.ctx, p.head.ID(), func(h *schema.Plan) error {
		at := h.At
		*h = p.head
		h.At = at
		return nil
	}, guard)
	return err
}

// storeLoads has rates and needs stored.
func (l *leading) storeLoads() {
	now := time.Now().UnixNano()
	for _, load := range l.lead.Loads() {
		load.At = now
		l.unstored("the rates of models", l.loads.Put(load))
	}
}

// unstored says once in a reign that what is not served worse without is not stored.
func (l *leading) unstored(what string, err error) {
	if err == nil || l.ctx.Err() != nil || l.said[what] {
		return
	}
	l.said[what] = true
	l.c.log.Error().Err(err).Msg(what + " could not be stored; what is served is as before")
}

// solve computes a partition beside the loop.
func (l *leading) solve(t *lead.Task) {
	end := mono.Now().Add(l.c.cfg.Effort)
	t.Solve(t.ID, func(int64) bool { return mono.Now() < end && l.ctx.Err() == nil }, l.c.cfg.Solver, l.c.cfg.Effort)
	select {
	case l.solved <- t:
	case <-l.ctx.Done():
	}
}

// call runs f in the loop; false: the reign has ended.
func (l *leading) call(ctx context.Context, f func()) bool {
	done := make(chan struct{})
	select {
	case l.calls <- func() { defer close(done); f() }:
	case <-l.ctx.Done():
		return false
	case <-ctx.Done():
		return false
	}
	<-done
	return true
}
