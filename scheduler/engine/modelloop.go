package engine

import (
	"math"
	"runtime"
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/overrun"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/scheduler/tuner"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
	"github.com/symphony-serving/symphony/transport/wire"
)

// burst bounds how many inputs of one ring a turn takes, so that timers are
// not late behind a flood.
const burst = 256

// sampled is one request in so many whose way to the candidate is timed.
const sampled = 8

// modelLoop drives one shard on one thread.
type modelLoop struct {
	index    int     // Immutable.
	engine   *Engine // Immutable.
	requests *ring.Growing[Submission]
	commands *ring.Growing[input] // grants, reports, changes: never full (doc.go, rule 2)
	rider    rider                // on its thread

	shard    *shard.Shard     // Owned by run.
	out      shard.Out        // Owned by run.
	served   []*served        // Owned by run; by model id. nil: not served
	in       input            // Owned by run: scratch
	told     shard.Run        // Owned by run: scratch, what the Sink is told of
	report   Done             // Owned by run: likewise
	log      *modelLog        // Owned by run; nil: nothing is recorded.
	feed     *feed            // Immutable; nil: there is no tuner.
	taken    int              // Owned by run: requests of the last turn
	ended    bool             // Owned by run.
	arrivals []mono.Time      // Owned by run: of the turn's requests, one in sampled
	dues     []mono.Time      // Owned by run: of the turn's batches
	fired    mono.Time        // Owned by run: when the turn's timer was due; 0: none was
	late     overrun.Lateness // Owned by run: of its turns
	stood    mono.Time        // Owned by run: the end of the last pause
	delay    batching.Delay   // Owned by run: as ordered, without what was measured
	outbox   outbox           // Owned by run.
	paged    bool             // Immutable: the engine is.
	touched  []wire.ModelID   // Owned by run; of a paged engine: whose requests the rank is to be told of
	drained  bool             // Owned by run: stopped, and what waited is answered
	ends     uint64           // Owned by run: ends of models that were carried out (fence.go)
	endsTold uint64           // Owned by run: of them in endsFlushed
	wishes   []*wishBox       // Owned by run; by model id. nil: never had best effort

	endsAsked uint64 // Guarded by engine.mu: ends that were ordered

	stats loopStats           // Shared: written by run.
	tap   atomic.Pointer[tap] // Shared: set by who watches; nil: nobody does
	stop  atomic.Bool         // Shared.
	used  atomic.Int64        // Shared: requests queued, running, or waiting to go on to another engine.
	added atomic.Int64        // Shared: models that were ordered to be added and are not yet

	endsFlushed atomic.Uint64 // Shared: ends after which nothing comes any more
}

// served is what the loop keeps of a model that is served.
type served struct {
	overrun *overrun.Overrun
	profile *profile.Profile // that overrun is of
	bytes   int64            // of an item's inputs
	box     *mailbox         // to the rank loop
	wanting *wanting         // of a paged engine; else nil
}

func (l *modelLoop) model(id wire.ModelID) *served {
	if int(id) >= len(l.served) {
		return nil
	}
	return l.served[id]
}

func (l *modelLoop) over() bool { return l.ended }

func (l *modelLoop) of() *Engine { return l.engine }

func (l *modelLoop) begun(thread int64) { l.stats.thread.Store(thread) }

// step is one turn, and the time after it; false when there was nothing to do.
func (l *modelLoop) step(now mono.Time) (mono.Time, bool) {
	worked := l.turn(now)
	if l.stop.Load() && !l.commands.Ready() && !l.requests.Ready() {
		if !l.drained {
			l.drain(mono.Now())
			l.drained = true
		}
		l.ended = len(l.outbox.wait) == 0
	}
	if !worked {
		return now, false
	}
	after := mono.Now()
	l.stats.busy.Add(int64(after.Sub(now)))
	l.timed(now, after)
	return after, true
}

// turn does what is due at now; false when there was nothing.
func (l *modelLoop) turn(now mono.Time) bool {
	l.stats.turns.Add(1)
	if wake := l.shard.NextWake(); wake <= now {
		l.fired = wake // before the rings: what comes may take the place of what the timer was for
	}
	came := l.requests.Ready() // first: what was ordered before a request comes before it
	worked := l.takeCommands(now)
	if came && l.takeRequests(now) {
		worked = true
	}
	if l.outbox.nextWake() <= now {
		l.leaveLoop(now)
		worked = true
	}
	if l.shard.NextWake() <= now {
		l.in = input{op: opWake}
		l.apply(now)
		worked = true
	}
	if worked {
		l.used.Store(int64(l.shard.Used() + len(l.outbox.wait)))
		l.engine.sink.Flush(l.index)
		l.flushedLoop()
	}
	return worked
}

// nextWake is when the loop's next timer fires.
func (l *modelLoop) nextWake() mono.Time { return min(l.shard.NextWake(), l.outbox.nextWake()) }

// takeCommands applies up to a burst of grants, reports and changes.
func (l *modelLoop) takeCommands(now mono.Time) bool {
	n := 0
	for ; n < burst && l.commands.Pop(&l.in); n++ {
		l.apply(now)
	}
	return n > 0
}

// takeRequests queues up to a burst of requests and then forms the candidates of
// their models: one each, whatever came. A request must not come before its model, which
// may be ordered while others are taken: then it waits for the next turn.
func (l *modelLoop) takeRequests(now mono.Time) bool {
	n, seen := 0, uint64(0)
	tells := l.feed != nil && l.feed.listens.Load()
	for ; n < burst && l.requests.Ready() && l.added.Load() <= 0; n++ { // each in turn: some come while others are taken
		s := l.requests.Next()
		if s == nil {
			break
		}
		if l.feed != nil && !s.Cancel && s.Request.Class == wire.ClassLatency {
			if margin, served := l.shard.Margin(s.Model); served {
				seen++
				tells = tells && l.feed.tell(&observation{now, s.Request.Deadline.Add(-margin), s.Model})
			}
		}
		s.apply(now, l.shard, &l.out)
		l.log.submission(s)
		if l.paged {
			l.cameLoop(s)
		}
		if n%sampled == 0 && !s.Cancel {
			l.arrivals = append(l.arrivals, s.Request.Arrival)
		}
	}
	l.stats.took(n)
	if l.taken = n; n == 0 {
		return false
	}
	if seen > 0 {
		l.feed.seen.Add(seen)
		l.engine.tuning.wake()
	}
	l.used.Store(int64(l.shard.Used() + len(l.outbox.wait))) // before the ring says that they have left it
	l.requests.Release()
	l.in = input{op: opSettle}
	l.apply(now)
	return true
}

// timed takes the times of the turn from begin to now. A turn that took long stood
// still: it counts whether a timer was due then or not.
func (l *modelLoop) timed(begin, now mono.Time) {
	for _, at := range l.arrivals {
		l.stats.formed.Add(now.Sub(at))
	}
	latest := now.Sub(begin)
	for _, at := range l.dues {
		l.stats.late.Add(now.Sub(at))
		latest = max(latest, now.Sub(at))
	}
	if l.fired > 0 { // what it was for may be lost, and then no order tells
		latest = max(latest, now.Sub(l.fired))
	}
	l.arrivals, l.dues, l.fired = l.arrivals[:0], l.dues[:0], 0
	if l.feed != nil && latest >= tuner.PauseLeast {
		from := max(now.Add(-latest), l.stood) // of one pause several turns may be late
		l.stood = now
		l.engine.tuning.paused(l.feed, from, now)
	}
	if l.late.Add(now, latest) {
		l.delayLoop(now)
	}
}

// delayLoop lets the models reckon with how late the loop's orders were. It is an
// input like any other, so that a log replays it.
func (l *modelLoop) delayLoop(now mono.Time) {
	l.in = input{op: opSetDelay, delay: l.delay}
	l.apply(now)
	l.engine.sink.Flush(l.index)
	l.stats.reckoned.Store(int64(l.late.Bound()))
}

func (l *modelLoop) news() bool {
	return l.commands.Ready() || l.requests.Ready() || l.stop.Load() && !l.drained
}

// apply hands l.in to the core and carries out the effects.
func (l *modelLoop) apply(now mono.Time) {
	switch l.in.op {
	case opAddModel:
		l.addModelLoop()
		l.added.Add(-1)
		delete(l.outbox.doors, l.in.model)
	case opRemoveModel:
		delete(l.outbox.doors, l.in.model)
	case opHandOver:
		l.outbox.opened(l.in.model, l.in.to)
	case opSetFloor:
		l.floorLoop()
	case opSetDelay:
		l.delay = l.in.delay
		l.in.delay.Late = l.late.Bound()
	}
	run, completed := l.in.apply(now, l.shard, &l.out)
	l.log.input(now, &l.in, &l.out)
	if completed {
		l.completedLoop(now, run)
	}
	op, model, config := l.in.op, l.in.model, l.in.config // completedLoop and Flush may use l.in
	l.carryOut(now)
	if op == opSetModel {
		l.otherProfileLoop(now, model, config)
	}
	if op == opRemoveModel || op == opHandOver {
		l.removeModelLoop(model)
		l.ends++
	}
}

// carryOut sends the effects on: batches and drops to the sink, answers and
// candidates to the rank.
func (l *modelLoop) carryOut(now mono.Time) {
	e := l.engine
	if len(l.out.Wishes)+len(l.out.Fills) > 0 {
		l.wishLoop()
	}
	if t := l.tap.Load(); t != nil {
		l.tellLoop(t, now)
	}
	for i := range l.out.Drops {
		e.sink.Drop(l.index, &l.out.Drops[i])
		if d := &l.out.Drops[i]; d.Request.Class == wire.ClassLatency && tuner.Lost(d.Reason) {
			l.stats.lost.Add(1)
		}
	}
	l.stats.drops.Add(uint64(len(l.out.Drops)))
	for i := range l.out.Dispatches {
		d := &l.out.Dispatches[i]
		e.sink.Dispatch(l.index, d)
		l.stats.dispatches.Add(1)
		l.stats.requests.Add(uint64(len(d.Requests)))
		l.dues = append(l.dues, d.Due)
	}
	if l.paged {
		l.mailWantsLoop()
	} else {
		l.mailLoop()
	}
	if len(l.out.Moved) > 0 {
		l.forwardLoop(now)
	}
	l.out.Reset()
}

// mailLoop tells the rank of answers and candidates: of a model's at once, so that
// the rank never sees an answer beside a candidate of before the grant. An
// answer needs the rank at once, a candidate not before its time has come.
func (l *modelLoop) mailLoop() {
	for i := range l.out.Answers {
		a := &l.out.Answers[i]
		box := l.model(a.Grant.Model)
		if box == nil {
			l.returnLoop(a)
			continue
		}
		c := batching.Candidate{}
		if k := l.candidateOf(a.Grant.Model); k != nil {
			c, k.Model = k.Candidate, mailed
		}
		l.engine.mail(a.Grant.Model, box.box, a, &c)
	}
	for i := range l.out.Candidates {
		if c := &l.out.Candidates[i]; c.Model != mailed {
			l.engine.mail(c.Model, l.served[c.Model].box, nil, &c.Candidate)
		}
	}
}

// returnLoop gives back the GPU of a grant whose model is gone: the rank has no candidate to wait for.
func (l *modelLoop) returnLoop(a *rank.Answer) {
	l.engine.toRank(&rankEvent{op: rankReturn, model: a.Grant.Model, gpu: GPU{a.Grant.GPU, a.Grant.Life}, generation: a.Grant.Generation}, mono.Past)
}

// mailed marks a candidate that went with its model's answer.
const mailed = wire.ModelID(math.MaxUint32)

func (l *modelLoop) candidateOf(id wire.ModelID) *shard.Candidate {
	for i := range l.out.Candidates {
		if l.out.Candidates[i].Model == id {
			return &l.out.Candidates[i]
		}
	}
	return nil
}

// completedLoop tells the rank when the GPU really became free, and learns
// from how far the plan was off.
func (l *modelLoop) completedLoop(now mono.Time, run shard.Run) {
	l.told, l.report = run, l.in.done
	done := &l.report
	l.engine.toRank(&rankEvent{op: rankDone, gpu: GPU{run.GPU, run.Life}, batch: done.Batch, at: done.End, told: done.told,
		refused: done.Refused != wire.ReasonNone, cold: done.Refused == wire.ReasonCold}, mono.Past)
	l.engine.sink.Completed(l.index, &l.told, done)
	if t := l.tap.Load(); t != nil {
		t.done(now, &l.told, done)
	}
	m := l.model(run.Model)
	if m == nil {
		return
	}
	if done.Refused != wire.ReasonNone { // it tells nothing of how long batches take
		if l.paged {
			l.touchLoop(run.Model, m.wanting)
		}
		return
	}
	if done.Ran > 0 {
		l.engine.fetches.add(done.Fetch, int64(done.Ran)*m.bytes)
	}
	if done.Parts {
		return
	}
	o := m.overrun
	if !o.Add(now, done.End.Sub(run.Until)) {
		return
	}
	l.in = input{op: opSetMargin, model: run.Model, margin: l.engine.cfg.Margin + o.Bound()}
	l.in.apply(now, l.shard, &l.out)
	l.log.input(now, &l.in, &l.out)
}

// addModelLoop makes what the loop keeps of a model; what the rank knows of it stays.
func (l *modelLoop) addModelLoop() {
	for int(l.in.model) >= len(l.served) {
		l.served = append(l.served, nil)
	}
	m := &served{overrun: overrun.New(l.in.config.SLO / 4), profile: l.in.config.Profile, bytes: int64(l.in.config.Bytes)}
	if before := l.served[l.in.model]; before != nil {
		m.box, m.wanting = before.box, before.wanting
		l.served[l.in.model] = m
		if l.paged {
			l.engine.changed()
		}
		return
	}
	m.box = newMailbox(l.paged)
	l.served[l.in.model] = m
	if l.paged {
		m.wanting = &wanting{told: wants{alone: l.in.config.Profile.Latency(1)}}
		l.engine.toRank(&rankEvent{op: rankModel, model: l.in.model, box: m.box, paging: &pagingEvent{weights: *l.in.weights}}, mono.Never)
	}
}

// otherProfileLoop forgets how much later than planned batches ended, where the plans are others now: of a
// profile that was far too short the margin would be too long for as long as it remembers.
func (l *modelLoop) otherProfileLoop(now mono.Time, id wire.ModelID, cfg *shard.ModelConfig) {
	m := l.model(id)
	if m == nil || alike(m.profile, cfg.Profile) {
		return
	}
	m.overrun, m.profile = overrun.New(cfg.SLO/4), cfg.Profile
	l.in = input{op: opSetMargin, model: id, margin: l.engine.cfg.Margin}
	l.in.apply(now, l.shard, &l.out)
	l.log.input(now, &l.in, &l.out)
}

// alikeMost is the factor by which profiles may differ that are alike: what batches overrun the one by, they
// overrun the other by, about.
const alikeMost = 1.5

// alike compares two profiles at the ends of what both allow.
func alike(a, b *profile.Profile) bool {
	for _, n := range [...]int{1, min(a.MaxBatch(), b.MaxBatch())} {
		if x, y := float64(a.Latency(n)), float64(b.Latency(n)); max(x, y) > alikeMost*min(x, y) {
			return false
		}
	}
	return true
}

// floorLoop takes the floor that the rank has left, for the input to carry it.
func (l *modelLoop) floorLoop() {
	l.in.floor = mono.Past
	if m := l.model(l.in.model); m != nil {
		m.box.floorTold.Store(false) // before the look: who leaves another one after it tells again
		l.in.floor = mono.Time(m.box.floor.Load())
	}
}

// removeModelLoop forgets it, and so does the rank: after this event nothing comes by the mailbox.
func (l *modelLoop) removeModelLoop(id wire.ModelID) {
	if l.model(id) == nil {
		l.engine.changed()
		return
	}
	l.served[id] = nil
	if int(id) < len(l.wishes) {
		l.wishes[id] = nil
	}
	l.engine.toRank(&rankEvent{op: rankGone, model: id}, mono.Never)
}

// drain answers what is left when the engine stops. The ring is sealed first:
// a Submit that races with Stop is either refused or answered here.
func (l *modelLoop) drain(now mono.Time) {
	l.requests.Seal()
	for l.requests.Len() > 0 {
		if !l.takeRequests(now) {
			runtime.Gosched() // a producer fills the cell that it claimed
		}
	}
	l.in = input{op: opDropAll, reason: l.engine.stopReason}
	l.apply(now)
	l.engine.sink.Flush(l.index)
}
