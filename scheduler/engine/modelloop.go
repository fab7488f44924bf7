package engine

import (
	"runtime"
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
)

// burst bounds how many inputs of one ring a turn takes, so that timers are
// not late behind a flood.
const burst = 256

// modelLoop drives one shard on one thread.
type modelLoop struct {
	index    int     // Immutable.
	engine   *Engine // Immutable.
	requests *ring.Queue[input]
	commands *ring.Queue[input] // grants, reports, changes: never full (doc.go, rule 2)
	waiter   ring.Waiter

	shard    *shard.Shard // Owned by run.
	out      shard.Out    // Owned by run.
	overruns []*overrun   // Owned by run; by model id.
	in       input        // Owned by run: scratch
	ended    shard.Run    // Owned by run: scratch, what the Sink is told of
	report   Done         // Owned by run: likewise

	stats loopStats    // Shared: written by run.
	stop  atomic.Bool  // Shared.
	used  atomic.Int64 // Shared: requests queued or running.
}

func (l *modelLoop) run() {
	defer l.engine.wait.Done()
	ring.Lock()
	now := mono.Now()
	for {
		busyFrom := now
		worked := l.turn(now)
		if l.stop.Load() && !l.commands.Ready() && !l.requests.Ready() {
			break
		}
		if worked {
			now = mono.Now()
			l.stats.busy.Add(int64(now.Sub(busyFrom)))
			continue
		}
		now = l.idle(busyFrom)
	}
	l.drain(mono.Now())
}

// turn does what is due at now; false when there was nothing.
func (l *modelLoop) turn(now mono.Time) bool {
	l.stats.turns.Add(1)
	worked := l.take(now, l.commands)
	if l.take(now, l.requests) {
		worked = true
	}
	if l.shard.NextWake() <= now {
		l.in = input{op: opWake}
		l.apply(now)
		worked = true
	}
	if worked {
		l.used.Store(int64(l.shard.Used()))
		l.engine.sink.Flush(l.index)
	}
	return worked
}

// take applies up to a burst of a ring's inputs.
func (l *modelLoop) take(now mono.Time, q *ring.Queue[input]) bool {
	n := 0
	for ; n < burst && q.Pop(&l.in); n++ {
		l.apply(now)
	}
	if uint64(n) > l.stats.burstMax.Load() {
		l.stats.burstMax.Store(uint64(n))
	}
	return n > 0
}

// idle sleeps until the next timer or wake-up.
func (l *modelLoop) idle(from mono.Time) mono.Time {
	l.waiter.Arm()
	if l.commands.Ready() || l.requests.Ready() || l.stop.Load() {
		l.waiter.Disarm()
		return mono.Now()
	}
	l.waiter.Wait(l.shard.NextWake())
	return mono.Now()
}

// apply hands l.in to the core and carries out the effects.
func (l *modelLoop) apply(now mono.Time) {
	if l.in.op == opAddModel {
		l.addOverrunLoop()
	}
	run, completed := l.in.apply(now, l.shard, &l.out)
	l.engine.cfg.Record.model(l.index, now, &l.in, &l.out)
	if completed {
		l.completedLoop(now, run)
	}
	l.carryOut(now)
}

// carryOut sends the effects on: batches and drops to the sink, answers and
// candidates to the rank.
func (l *modelLoop) carryOut(now mono.Time) {
	e := l.engine
	for i := range l.out.Drops {
		e.sink.Drop(l.index, &l.out.Drops[i])
	}
	l.stats.drops.Add(uint64(len(l.out.Drops)))
	for i := range l.out.Dispatches {
		d := &l.out.Dispatches[i]
		e.sink.Dispatch(l.index, d)
		l.stats.dispatches.Add(1)
		l.stats.requests.Add(uint64(len(d.Requests)))
	}
	for i := range l.out.Answers {
		a := &l.out.Answers[i]
		e.mail(a.Grant.Model, a, nil)
	}
	for i := range l.out.Candidates {
		c := &l.out.Candidates[i]
		e.mail(c.Model, nil, &c.Candidate)
	}
	l.out.Reset()
}

// completedLoop tells the rank when the GPU really became free, and learns
// from how far the plan was off.
func (l *modelLoop) completedLoop(now mono.Time, run shard.Run) {
	l.ended, l.report = run, l.in.done
	done := &l.report
	l.engine.toRank(&rankInput{op: rankDone, gpu: GPU{run.GPU, run.Life}, batch: done.Batch, at: done.End})
	l.engine.fetches.add(done.Fetch, done.Ran)
	l.engine.sink.Completed(l.index, &l.ended, done)
	o := l.overruns[run.Model]
	if o == nil || !o.add(now, done.End.Sub(run.Until)) {
		return
	}
	l.in = input{op: opSetMargin, model: run.Model, margin: l.engine.cfg.Margin + o.bound()}
	l.in.apply(now, l.shard, &l.out)
	l.engine.cfg.Record.model(l.index, now, &l.in, &l.out)
}

func (l *modelLoop) addOverrunLoop() {
	for int(l.in.model) >= len(l.overruns) {
		l.overruns = append(l.overruns, nil)
	}
	l.overruns[l.in.model] = newOverrun(l.in.config.SLO / 4)
}

// drain answers what is left when the engine stops. The ring is sealed first:
// a Submit that races with Stop is either refused or answered here.
func (l *modelLoop) drain(now mono.Time) {
	l.requests.Seal()
	for l.requests.Len() > 0 {
		if !l.take(now, l.requests) {
			runtime.Gosched() // a producer fills the cell that it claimed
		}
	}
	l.in = input{op: opDropAll, reason: l.engine.stopReason}
	l.apply(now)
	l.engine.sink.Flush(l.index)
}
