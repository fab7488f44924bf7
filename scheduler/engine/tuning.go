package engine

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/tuner"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
	"github.com/symphony-serving/symphony/transport/wire"
)

// tuning runs the engine's tuner, on a thread of its own at a low priority, which is there while
// requests come: the first after a pause starts it. What it is handed may be lost, and its
// choices may come late: nothing waits for it.
//
//	model loops --feeds--> tuner.Tuner --opSetSetting--> model loops
//	                            +-------rankSetting-----> rank loop
//
// The choice is an input of the loops like any other, so that a log of them replays.
type tuning struct {
	engine *Engine
	feeds  []feed        // Immutable; by model loop.
	every  time.Duration // Immutable: between two turns
	ended  chan struct{}
	stop   chan struct{}
	state  atomic.Int32 // Shared: tunerAsleep, tunerAwake, tunerOver

	// Owned by run, which runs once at a time.
	tuner *tuner.Tuner
	names names
	taken []observation
	most  int       // the feed that tells most: its loop's pauses are taken for all of them
	busy  mono.Time // when something came last, or was replayed
	clock mono.Dur  // the thread's, when the tuner was told last what it took

	spent atomic.Int64 // Shared: written by run; ns of a processor

	mu     sync.Mutex // Guards choice.
	choice tuner.Choice
}

// feed is what a model loop tells the tuner: all requests of models that are served are
// counted, and those that it listens for are told, as far as there is room; and the loop's pauses.
type feed struct {
	listens atomic.Bool
	seen    atomic.Uint64
	told    *ring.Growing[observation] // up to feedSize
	known   uint64                     // Owned by run: of seen and told. Ahead of seen by what was told and is not yet counted
	lately  float64                    // Owned by run: seen in a turn
	served  uint64                     // Owned by run: the loop's counters at the last look
	dropped uint64
	_       [64]byte // a loop writes seen in each turn, and must not slow its neighbours
}

// observation is a request, with its deadline less the margins; or a pause of the loop until its deadline, of the model pauseModel.
type observation struct {
	at, deadline mono.Time
	model        wire.ModelID
}

const pauseModel = ^wire.ModelID(0)

func (o observation) pause() bool { return o.model == pauseModel }

const (
	feedSize, feedLeast = 1 << 13, 1 << 8
	// tuningPart is what the tuner takes of its share: the rest is for the runtime, which wakes its
	// thread, and for the last slice of a span.
	tuningPart = 0.95
	// tuningEvery is how often the tuner looks at its feeds. After tuningQuiet in which nothing came
	// its thread ends.
	tuningEvery, tuningQuiet = 20 * time.Millisecond, mono.Second
	// tuningSlice is how many requests are replayed in one go: a millisecond at most, since
	// a thread that the kernel interrupts for long holds up the garbage collector.
	tuningSlice = 2000
	// tuningSliceLeast is what a slice may take. Where a large share is allowed, slices come more often.
	tuningSliceLeast = 400 * time.Microsecond
	// latelyTurns is over how many turns what a loop tells is averaged, and latelyMore times as many as the one that speaks
	// for all, of pauses, another one must have to take its place.
	latelyTurns, latelyMore = 256, 2
	// tuningShareLeast is far below any share of use: it keeps a division within its range.
	tuningShareLeast = 1e-6
)

func newTuning(e *Engine) *tuning {
	c := policy.Config{RequestsMax: e.cfg.RequestsMax * e.cfg.ModelLoops}
	t := &tuning{engine: e, feeds: make([]feed, e.cfg.ModelLoops), ended: make(chan struct{}), stop: make(chan struct{}),
		every: min(tuningEvery, time.Duration(float64(tuningSliceLeast)/max(tuningShareLeast, e.cfg.TunerShare))),
		tuner: tuner.New(tuner.Config{Scheduler: c, Headroom: e.cfg.Headroom, Share: tuningPart * e.cfg.TunerShare})}
	for i := range t.feeds {
		t.feeds[i].told = ring.NewGrowing[observation](feedLeast)
		t.feeds[i].listens.Store(true)
	}
	t.choice = t.tuner.Choice()
	return t
}

const (
	tunerAsleep = iota // it has no thread
	tunerAwake
	tunerOver // for good
)

// wake starts the thread where there is none, after requests were counted in a feed. Any goroutine.
func (t *tuning) wake() {
	if t.state.Load() == tunerAsleep && t.state.CompareAndSwap(tunerAsleep, tunerAwake) {
		t.engine.threads.tuners.Add(1)
		go t.run()
	}
}

// end stops the tuner for good.
func (t *tuning) end() {
	close(t.stop)
	if !t.state.CompareAndSwap(tunerAsleep, tunerOver) {
		<-t.ended // by run, which leaves the state as it is now or finds stop closed
	}
	t.engine.changes.close()
}

// run is the thread.
func (t *tuning) run() {
	ring.Lock() // and not unlocked: the thread ends with its priority
	ring.Background()
	t.clock = ring.ThreadTime() // the thread may have served others before
	t.busy = mono.Now()
	timer := time.NewTimer(t.every)
	defer timer.Stop()
	for {
		select {
		case <-t.stop:
			t.engine.threads.tuners.Add(-1)
			t.state.Store(tunerOver)
			close(t.ended)
			return
		case <-timer.C:
		}
		t.clock = ring.ThreadTime() // a sleep costs nothing, also where this is a clock
		now := mono.Now()
		if t.turn(now) {
			t.busy = now
		}
		if now.Sub(t.busy) > tuningQuiet && t.sleep() {
			return
		}
		timer.Reset(t.every)
	}
}

// sleep ends the thread, unless something came just now.
func (t *tuning) sleep() bool {
	known, seen := uint64(0), uint64(0)
	for i := range t.feeds {
		known += t.feeds[i].known
	}
	t.state.Store(tunerAsleep) // from here on another thread may begin: nothing of run's is touched
	for i := range t.feeds {
		seen += t.feeds[i].seen.Load() // after the store: who counts a request after this look wakes
	}
	news := seen > known
	select {
	case <-t.stop:
		news = true // end may be waiting
	default:
	}
	if news && t.state.CompareAndSwap(tunerAsleep, tunerAwake) {
		return false
	}
	t.engine.threads.tuners.Add(-1) // or another thread has begun, which was counted, or it is over
	return true
}

// turn does what there is to do; false when there was nothing.
func (t *tuning) turn(now mono.Time) bool {
	t.engine.changes.take(t.tuner, &t.names)
	came := t.listen()
	t.paid() // apart from the replays: it must not count as what they take
	replayed := t.tuner.Work(now, tuningSlice)
	t.paid()
	if t.tuner.Choose(now) {
		t.engine.setSetting(t.tuner.Choice().Setting)
	}
	listens := t.tuner.Listens()
	for i := range t.feeds {
		if f := &t.feeds[i]; f.listens.Load() != listens {
			f.listens.Store(listens)
		}
	}
	t.mu.Lock()
	t.choice = t.tuner.Choice()
	t.mu.Unlock()
	return came || replayed > 0
}

// paid tells the tuner what was taken of the processor since the last time.
func (t *tuning) paid() {
	clock := ring.ThreadTime()
	took := clock - t.clock
	t.clock = clock
	t.tuner.Spent(took.Seconds() * t.engine.threads.tunerWeight())
	t.spent.Add(int64(took))
}

// listen hands the tuner what came, in the order of time.
func (t *tuning) listen() bool {
	t.taken = t.taken[:0]
	missed := 0
	served, dropped := 0, 0
	most := t.most
	for i := range t.feeds {
		f, stats := &t.feeds[i], &t.engine.loops[i].stats
		s, d := stats.requests.Load(), stats.lost.Load()
		served, dropped = served+int(s-f.served), dropped+int(d-f.dropped)
		f.served, f.dropped = s, d
		from, known := len(t.taken), f.known
		if missed += f.take(&t.taken); i != most {
			t.taken = append(t.taken[:from], slices.DeleteFunc(t.taken[from:], observation.pause)...)
		}
		if f.lately += (float64(f.known-known) - f.lately) / latelyTurns; f.lately > latelyMore*t.feeds[t.most].lately {
			t.most = i
		}
	}
	t.tuner.SetLate(mono.Dur(t.engine.loops[t.most].stats.reckoned.Load()))
	slices.SortStableFunc(t.taken, func(a, b observation) int { return cmp.Compare(a.at, b.at) }) // of one loop, too: pauses are told at their ends
	pauses := 0
	for i := range t.taken {
		o := &t.taken[i]
		if o.pause() {
			pauses++
			t.tuner.Paused(o.at, o.deadline)
		} else if id, ok := t.names.of(o.model); ok {
			t.tuner.Arrive(o.at, id, o.deadline)
		}
	}
	t.tuner.Missed(missed)
	t.tuner.Answered(served, dropped)
	return len(t.taken) > pauses || missed > 0
}

// take appends what the loop has told, a ring of it at most, and returns how many requests
// came that it did not tell of.
func (f *feed) take(to *[]observation) (missed int) {
	seen := f.seen.Load() // first: of what it counts nothing is told later
	for n := 0; n < feedSize; n++ {
		o := f.told.Next()
		if o == nil {
			break
		}
		*to = append(*to, *o)
		if !o.pause() { // which nobody counts
			f.known++
		}
	}
	f.told.Release()
	if seen <= f.known {
		return 0
	}
	missed = int(seen - f.known)
	f.known = seen
	return missed
}

// tell says what a request was, where there is room.
func (f *feed) tell(o *observation) bool {
	for !f.told.Push(o) {
		n := f.told.Cap()
		if n >= feedSize {
			return false
		}
		f.told.Grow(2 * n)
	}
	return true
}

// paused tells of a pause of a loop, if it is one and somebody is there.
func (t *tuning) paused(f *feed, from, to mono.Time) {
	if to.Sub(from) >= tuner.PauseLeast && t.state.Load() == tunerAwake && f.listens.Load() {
		f.tell(&observation{from, to, pauseModel})
	}
}

// setSetting is the tuner's choice, on its way to all loops.
func (e *Engine) setSetting(s batching.Setting) {
	for _, l := range e.loops {
		e.order(l, &input{op: opSetSetting, setting: s})
	}
	e.orderRank(&rankEvent{op: rankSetting, byLatest: s.ByLatest, room: s.Room, cheap: s.Cheap})
}

// Tuning is what the tuner has chosen, and what it took of a processor so far. False where
// there is none: the whole deferral is spent, always.
func (e *Engine) Tuning() (choice tuner.Choice, spent mono.Dur, ok bool) {
	t := e.tuning
	if t == nil {
		return tuner.Choice{}, 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.choice, mono.Dur(t.spent.Load()), true
}
