package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/spread"
	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// leading is one reign: the loop around the lead.Leads, one for each scheduler, and the
// spread.Spread that divides the models among them.
type leading struct {
	c     *Controller
	ctx   context.Context // ends with the lead
	cells cells
	news  chan struct{} // has a token while one of their links has something

	// Owned by the loop.
	spread *spread.Spread
	grants spread.Effects
	wanted map[string]schema.Model       // what people want, by name
	seen   map[string][]sight            // what cells say of versions, by key
	groups []*group                      // by scheduler, then device type
	why    map[string]string             // models that are nowhere wait, by name
	failed map[string]string             // why versions are failed, as it was logged
	epochs schema.Control                // whether they go on, as the cores were told
	stored uint64                        // the last plan's epoch
	since  map[string]schema.Observation // what was written, for the instants of states

	said     map[string]bool // that these could not be stored
	observed *store.Writer[schema.Observation]
	measured *store.Writer[schema.Measured]
	loads    *store.Writer[schema.Load]
	plans    chan planned // to be stored, in order

	calls  chan func() // from the API
	solved chan solved // partitions that are computed
	scaled chan scaled // what came of orders to the scaler
	aside  sync.WaitGroup
}

// solved is a partition of a cell's models.
type solved struct {
	cell *cell
	task *lead.Task
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
	l := newLeading(c, ctx)
	defer c.view.rest()
	if err := l.restore(); err != nil {
		return err
	}
	guard := won.Guard()
	l.observed = c.cfg.Store.Observed.Writer(ctx, guard)
	l.measured = c.cfg.Store.Profiles.Writer(ctx, guard)
	l.loads = c.cfg.Store.Loads.Writer(ctx, guard)
	l.aside.Go(func() { l.storePlans(guard) })
	all := &peers{by: map[uint64]*way{}}
	for _, cell := range l.cells {
		cell.link = newLink(c, cell.address, l.news, all)
	}
	c.leads.Store(l)
	l.run()
	c.leads.Store(nil)
	c.advice.Store(nil)
	for _, cell := range l.cells {
		cell.link.close()
	}
	cancel(nil)
	l.aside.Wait()
	l.observed.Close()
	l.measured.Close()
	l.loads.Close()
	return context.Cause(won.Context())
}

func newLeading(c *Controller, ctx context.Context) *leading {
	cfg := spread.Config{MovesMax: c.cfg.Plan.MovesMax, Interval: c.cfg.Plan.Interval}
	return &leading{c: c, ctx: ctx, cells: newCells(&c.cfg), news: make(chan struct{}, 1), spread: spread.New(mono.Now(), cfg, c.cfg.Schedulers),
		wanted: map[string]schema.Model{}, seen: map[string][]sight{}, why: map[string]string{}, since: map[string]schema.Observation{}, failed: map[string]string{},
		said: map[string]bool{}, calls: make(chan func()), solved: make(chan solved, 1), scaled: make(chan scaled), plans: make(chan planned, plansWaiting)}
}

// restore takes over where the reign before was.
func (l *leading) restore() error {
	c := l.c
	if head, _, err := c.cfg.Store.LatestPlan(l.ctx); err == nil {
		l.stored = head.Value.Epoch
	} else if !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("reading the last plan: %w", err)
	}
	made, home, err := l.restorePlans()
	if err != nil {
		return err
	}
	c.view.mu.Lock()
	if e := c.view.epochs; !e.Off && e.Since <= slices.Max(made) {
		l.epochs = e // of before the last plan
		for i, cell := range l.cells {
			if made[i] < e.Since {
				cell.lead.Pause(mono.Now(), false)
			}
		}
	}
	for _, of := range c.view.measured {
		for _, m := range of {
			if doc := c.view.models[m.Model].Value; !ofItsFiles(&m, &doc) {
				continue
			}
			for _, cell := range l.cells {
				cell.lead.Profile(m)
			}
		}
	}
	for name, versions := range c.view.observed {
		for _, o := range versions {
			key := name + "/" + o.Version
			l.since[key] = o
			o.Next = 0                            // which is told anew
			l.seen[key] = []sight{{home[key], o}} // if no plan has it, anybody may say that it is gone
			l.cells[home[key]].lead.Told(o)
		}
	}
	c.view.mu.Unlock()
	c.view.lead()
	l.wishes() // before the schedulers are heard: what a plan says is known by then
	return nil
}

// restorePlans takes over the schedulers' last plans, the oldest first: when they were made, by cell, and
// who has which version.
func (l *leading) restorePlans() (made []int64, home map[string]int, err error) {
	type last struct {
		cell  *cell
		head  schema.Plan
		parts []schema.SubCluster
	}
	var all []last
	made, home = make([]int64, len(l.cells)), map[string]int{}
	for i, cell := range l.cells {
		cell.lead.After(l.stored)
		head, parts, err := l.c.cfg.Store.LatestPlan(l.ctx, l.c.cfg.called(i)...)
		switch {
		case err == nil:
			all = append(all, last{cell, head.Value, parts})
		case !errors.Is(err, store.ErrNotFound):
			return nil, nil, fmt.Errorf("reading the last plan: %w", err)
		}
	}
	slices.SortFunc(all, func(a, b last) int { return cmp.Compare(a.head.Epoch, b.head.Epoch) })
	for _, p := range all {
		p.cell.lead.Restore(p.head, p.parts)
		made[p.cell.number] = p.head.At
		for _, s := range p.parts {
			for _, key := range s.Models {
				home[key] = p.cell.number
				l.spread.Restore(namesOfKey(key), p.cell.number)
			}
		}
	}
	return made, home, nil
}

// namesOfKey is the model's name in a version's key.
func namesOfKey(key string) string { return key[:max(0, strings.LastIndexByte(key, '/'))] }

// loadsEvery is how often rates and needs are stored.
const loadsEvery = 10 * time.Second

// run is the loop.
func (l *leading) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	loads := time.NewTicker(loadsEvery)
	defer loads.Stop()
	scale := time.NewTicker(scaleEvery)
	defer scale.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.c.view.poked:
			l.wishes()
		case <-l.news:
			l.hear()
		case s := <-l.solved:
			if s.task.Aside != nil {
				l.c.log.Warn().Err(s.task.Aside).Msg("the solver failed; the search's partition holds")
			}
			l.cells.counted()
			s.cell.lead.Partitioned(mono.Now(), s.task, &s.cell.effects)
			l.carryOut(s.cell) // before another cell's plan has a later epoch
		case f := <-l.calls:
			f()
		case s := <-l.scaled:
			s.group.core.Asked(mono.Now(), s.order, s.granted, s.failed)
		case <-scale.C:
			l.scale(mono.Now())
		case <-loads.C:
			l.storeLoads()
		case <-timer.C:
		}
		l.step(mono.Now())
		timer.Reset(l.until(min(l.cells.wake(), l.spread.Wake())))
	}
}

// step does what is due: first who serves what, then what each one does about it.
func (l *leading) step(now mono.Time) {
	l.spread.Pause(l.epochs.Off || slices.ContainsFunc(l.cells, func(c *cell) bool { return c.lead.Holds() }))
	l.spread.Step(now, l.cells, &l.grants)
	l.grant(now)
	for _, c := range l.cells {
		l.cells.counted()
		c.lead.Step(now, &c.effects)
		l.carryOut(c)
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
			l.unwish(name)
		} else {
			l.wish(now, m)
		}
	}
	l.grant(now)
	if epochs != l.epochs { // said again, it is meant again: a plan by hand ends with it
		l.epochs = epochs
		for _, c := range l.cells {
			c.lead.Pause(now, epochs.Off)
		}
	}
}

// hear takes what the schedulers have said.
func (l *leading) hear() {
	now := mono.Now()
	for _, c := range l.cells {
		for _, said := range c.link.take() {
			switch {
			case said.lost:
				c.lead.Lost()
				l.spread.Stir()
			case said.facts != nil:
				l.facts(now, c, said.facts)
			default:
				c.lead.Outcome(now, said.outcome, &c.effects)
			}
		}
	}
}

// facts takes a scheduler's. What it served before it was heard is given to its Lead first, or
// that one would have it removed.
func (l *leading) facts(now mono.Time, c *cell, f *catalog.Facts) {
	whole := c.lead.Whole()
	if !whole || f.Whole {
		var keys []string
		for i := range f.Models {
			keys = append(keys, f.Models[i].Key)
		}
		l.spread.Claim(c.number, keys, l.cells, &l.grants)
		l.grant(now)
	}
	c.lead.Facts(now, f)
	if len(f.GPUs)+len(f.GoneGPUs) > 0 || !whole && c.lead.Whole() {
		l.spread.Stir()
	}
}

// carryOut does what a cell's core has decided.
func (l *leading) carryOut(c *cell) {
	e := &c.effects
	for i := range e.Orders {
		c.link.send(&e.Orders[i])
	}
	l.c.metrics.orders.WithLabelValues(c.address).Add(float64(len(e.Orders)))
	now := time.Now().UnixNano()
	for _, o := range e.Observed {
		l.see(c.number, o, now)
	}
	for _, o := range e.Gone {
		l.gone(c.number, o, now)
	}
	for _, m := range e.Measured {
		m.At = now
		l.unstored("what was measured", l.measured.Put(m))
	}
	for _, h := range e.Heads {
		var parts []schema.SubCluster
		parts, e.Parts = partsOf(h.Epoch, e.Parts)
		h.Scheduler = c.name
		for i := range parts {
			parts[i].Scheduler = c.name
		}
		l.storePlan(h, parts, now)
	}
	for _, text := range e.Notes {
		if c.name != "" {
			text = c.name + ": " + text
		}
		l.c.log.Info().Msg(text)
	}
	if t := e.Task; t != nil {
		l.aside.Go(func() { l.solve(c, t) })
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
	if o.Next != 0 {
		o.Next = now + o.Next - int64(mono.Now())
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
	delete(l.failed, o.Model+"/"+o.Version)
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
	for _, load := range l.cells.loads() {
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
func (l *leading) solve(c *cell, t *lead.Task) {
	end := mono.Now().Add(l.c.cfg.Effort)
	t.Solve(t.ID, func(int64) bool { return mono.Now() < end && l.ctx.Err() == nil }, l.c.cfg.Solver, l.c.cfg.Effort)
	select {
	case l.solved <- solved{c, t}:
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
