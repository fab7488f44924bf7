package tuner

import (
	"math/rand/v2"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// LimitedSettings are those that a Tuner tries where only some GPUs may take early batches: finer
// steps, since what is sought is the shortest wait that these GPUs bear.
func LimitedSettings() []batching.Setting {
	const all = batching.HasteAll
	return []batching.Setting{{Haste: all, Alone: true}, {Haste: all}, {Haste: 14}, {Haste: 12}, {Haste: 11}, {Haste: 10}, {Haste: 9}, {Haste: 8}, {Haste: 4}, {Cheap: true}, {}}
}

// Settings are those that a Tuner tries, chosen from 43 by how little the best of them loses, mix by mix, over 121 random
// mixes of models (docs/decisions/0032-caps-and-early-drops.md), one that leaves GPUs to tight models (0051), and one that gives up the
// dearest models in an overload (0070). The first is in force until something is known, and
// while all are equal: of those that do not wait it loses least in a surge.
func Settings() []batching.Setting {
	const all = batching.HasteAll
	return []batching.Setting{
		{Haste: all, Alone: true},
		{Haste: all, Cap: 92},
		{Haste: 12, Cap: 95},
		{Haste: 12, Frontrun: true, ByLatest: true},
		{Haste: 8},
		{Haste: 4},
		{Frontrun: true},
		{Frontrun: true, Shed: true},
		{Head: true},
		{Haste: all, Cap: 92, Room: true},
		{Cheap: true},
		{},
	}
}

const (
	// Turn is how often a Tuner should be asked to work and to choose.
	Turn = 100 * mono.Millisecond
	// ReplaysPerSecond is how many requests one shadow replays in a second of a processor's
	// time, for who simulates and has no clock.
	ReplaysPerSecond = 3_500_000
	// ShareDefault is how much of a processor a Tuner takes.
	ShareDefault = 0.02
)

// Config of a Tuner.
type Config struct {
	Scheduler policy.Config
	Headroom  rank.Headroom
	Settings  []batching.Setting // nil: Settings() or LimitedSettings()
	Share     float64            // of a processor's time; 0: ShareDefault
}

// Tuner is the shadows and what they are handed.
type Tuner struct {
	cfg     Config
	shadows []*shadow // one for each setting, and the mirror
	mirror  *shadow
	since   mono.Time // mirror's time when its setting changed
	looked  mono.Time // when debts faded last
	gpus    int
	served  []*profile.Profile // by model; nil: it is not served
	bytes   []int              // by model, of an item's inputs
	delay   batching.Delay     // but for Late
	late    mono.Dur
	// delaySeen is the delay that most of what the tallies hold was seen under.
	delaySeen batching.Delay
	news      loadChange // of what was before the next pass
	dreams    dreams
	load      load
	alarm     alarm
	burst     burst
	begins    mono.Time // when the first arrival came
	started   mono.Time // the same, in shadow time
	longest   mono.Dur  // a request's budget, of all so far
	work      float64   // that full batches of what was told of since would take, in ns of a GPU
	choice    Choice

	// The pass under way: its arrivals, and how far the shadows have come.
	pass   []arrival
	shadow int // the one that replays
	at     int // its next arrival

	// The next pass.
	next  []arrival
	marks int       // of them are pauses
	clock mono.Time // shadow time of the last arrival
	last  mono.Time // of the same, as it really was
	stood mono.Time // the end of the last pause
	deaf  bool      // there is no time for more
	// resumed: arrivals were left out before the next one. The shadows' clock stood still meanwhile.
	resumed bool
	begun   mono.Time // when the last pass began, as it really was

	// Time, in seconds of a processor.
	credit float64 // allowed and not spent
	funded mono.Time
	each   float64 // what a replay takes
	done   int     // replays since the last Spent
}

const (
	// passTime is how long a Tuner may work on one pass: so long it takes to notice anything
	// where there is no time for all arrivals.
	passTime            = mono.Second / 2
	passLeast, passMost = 1 << 8, 1 << 15 // arrivals
	// openMax bounds a shadow's requests, queued or running.
	openMax = 1 << 15
)

// New makes a Tuner without models or GPUs.
func New(cfg Config) *Tuner {
	if cfg.Settings == nil {
		cfg.Settings = Settings()
		if cfg.Headroom.Limited {
			cfg.Settings = LimitedSettings()
		}
	}
	if cfg.Share == 0 {
		cfg.Share = ShareDefault
	}
	cfg.Scheduler.RequestsMax = min(cfg.Scheduler.RequestsMax, openMax)
	t := &Tuner{cfg: cfg, each: 1.0 / ReplaysPerSecond}
	for _, set := range cfg.Settings {
		t.shadows = append(t.shadows, &shadow{setting: set, stands: mono.Past, sched: deferred.New(cfg.Scheduler, deferred.Options{Setting: set, Headroom: cfg.Headroom})})
	}
	t.mirror = &shadow{setting: cfg.Settings[0], stands: mono.Past, sched: deferred.New(cfg.Scheduler, deferred.Options{Setting: cfg.Settings[0], Headroom: cfg.Headroom})}
	t.shadows = append(t.shadows, t.mirror)
	t.pair()
	t.dreams.rng = rand.New(rand.NewPCG(1, 0x647265616d))
	t.choice.Setting = cfg.Settings[0]
	return t
}

// AddModel begins to serve a model, or changes its profile or SLO.
func (t *Tuner) AddModel(id wire.ModelID, m policy.Model) {
	for int(id) >= len(t.served) {
		t.served, t.bytes = append(t.served, nil), append(t.bytes, 0)
	}
	if t.served[id] != nil {
		t.changed(loadDrifted) // what was seen was seen with another
	}
	t.served[id], t.bytes[id] = m.Profile, m.Bytes
	for _, s := range t.shadows {
		s.sched.AddModel(id, m)
	}
}

// RemoveModel ends a model. What waits for it is nobody's loss, nor what is left of its
// arrivals in a pass that has begun: some shadows have replayed it, others have not.
func (t *Tuner) RemoveModel(id wire.ModelID) {
	if !t.serves(id) {
		return
	}
	t.served[id] = nil
	for _, s := range t.shadows {
		s.sched.RemoveModel(id, &s.out)
		s.out.Drops = s.out.Drops[:0]
		s.apply()
		s.tally.remove(id)
	}
	t.dreams.remove(id)
	if int(id) < len(t.dreams.models) {
		t.dreams.models[id] = memory{} // what comes before and after it is back makes no gap
	}
}

func (t *Tuner) serves(id wire.ModelID) bool { return int(id) < len(t.served) && t.served[id] != nil }

// SetDelay replaces the network's delay bound. What was seen under the one before counts less
// only once they differ by what matters: bounds that are measured move every second.
func (t *Tuner) SetDelay(d batching.Delay) {
	if d == t.delay {
		return
	}
	t.delay = d
	if t.matters(d) {
		t.delaySeen = d
		t.changed(loadDrifted)
	}
	t.tellDelay()
}

// SetLate says for how long the scheduler's loops reckon to stand still (batching.Delay.Late). Whole milliseconds count: each change
// has all shadows form their candidates anew.
func (t *Tuner) SetLate(late mono.Dur) {
	if late -= late % mono.Millisecond; late != t.late {
		t.late = late
		t.tellDelay()
	}
}

func (t *Tuner) tellDelay() {
	d := t.delay
	d.Late = t.late
	for _, s := range t.shadows {
		s.sched.SetDelay(s.now, d, &s.out)
		s.apply()
	}
}

// matters tells whether a delay differs, for any model, by more than a part of a batch from the
// one that the past was seen under.
func (t *Tuner) matters(d batching.Delay) bool {
	for i, p := range t.served {
		if p == nil {
			continue
		}
		now, seen := d.Sized(t.bytes[i]), t.delaySeen.Sized(t.bytes[i])
		for _, b := range [...]int{1, p.MaxBatch()} {
			if away(now.Of(b), seen.Of(b), p.Latency(b)) {
				return true
			}
		}
	}
	return false
}

// awayPart of a batch's latency is a difference that matters.
const awayPart = 8

func away(a, b, latency mono.Dur) bool { return awayPart*max(a-b, b-a) > latency }

// SetGPUs tells how many GPUs there are.
func (t *Tuner) SetGPUs(n int) {
	if n != t.gpus {
		t.changed(loadOther)
	}
	for _, s := range t.shadows {
		if n != t.gpus {
			s.peak = 0 // what other GPUs lost, or none, is not to be expected of these
		}
		for id := t.gpus; id < n; id++ {
			s.sched.AddGPU(s.now, wire.GPUID(id), &s.out)
		}
		for id := t.gpus - 1; id >= n; id-- {
			s.sched.RemoveGPU(s.now, wire.GPUID(id), &s.out)
		}
		s.sched.TellGPUs(s.now, &s.out) // there may be other models to share them
		s.apply()
	}
	t.gpus = n
}

// Listens tells whether arrivals are wanted. Those that are not are counted by Missed.
func (t *Tuner) Listens() bool { return !t.deaf }

// Answered counts requests that the real scheduler served and dropped.
func (t *Tuner) Answered(served, dropped int) { t.alarm.add(served, dropped) }

// Missed counts arrivals that were not handed in.
func (t *Tuner) Missed(n int) {
	t.load.count += n
	t.burst.came += n
	if n > 0 && !t.deaf { // there was no room to tell of them
		t.resumed = true
		t.dreams.missed()
	}
}

// Arrive takes a request that comes now, with its deadline less the margins. Those of models
// that are not served do not count.
func (t *Tuner) Arrive(now mono.Time, id wire.ModelID, deadline mono.Time) {
	if !t.serves(id) {
		return
	}
	t.load.arrive(now)
	p := t.served[id]
	t.work += float64(p.Latency(p.MaxBatch())) / float64(p.MaxBatch())
	t.burst.came++
	if t.deaf {
		t.hear(now)
	}
	if t.deaf || !t.tells(id, deadline.Sub(now)) {
		return
	}
	if t.resumed {
		t.last, t.resumed = now, false
	}
	if limit := t.passLimit(); len(t.next) >= limit && !t.listensOn(now, limit) {
		t.deaf = true
		return
	}
	budget := deadline.Sub(now)
	if now > t.stood {
		t.dreams.observe(now, id, budget)
	} else {
		t.dreams.missedOf(id) // it came before, and had more time
	}
	t.clock = t.clock.Add(max(0, now.Sub(t.last)))
	t.last = max(t.last, now)
	t.longest = max(t.longest, budget)
	if t.begins == 0 {
		t.begins, t.started = now, t.clock
	}
	t.next = append(t.next, arrival{t.clock, budget, id})
}

// passLimit is how many arrivals a pass may have.
func (t *Tuner) passLimit() int {
	affordable := float64(t.cfg.Share*passTime.Seconds()) / t.each / float64(t.awake())
	return min(passMost, max(int(affordable), passLeast))
}

// Spent says how much of a processor's time, in seconds, the last Work took.
func (t *Tuner) Spent(seconds float64) {
	t.credit -= seconds
	if t.done > 0 {
		t.each += float64((seconds/float64(t.done) - t.each) / 16)
		t.done = 0
	}
}

// Work replays up to so many requests, and tells how many; 0 when there is nothing to do, or
// no time allowed for it yet.
func (t *Tuner) Work(now mono.Time, most int) (replayed int) {
	if t.funded == 0 {
		t.funded = now
	}
	allowed := float64(t.cfg.Share * min(passTime, now.Sub(t.funded)).Seconds())
	t.credit = min(t.credit+allowed, float64(t.cfg.Share*passTime.Seconds()))
	t.funded = now
	if t.credit <= 0 || t.shadow == len(t.shadows) {
		return 0 // Choose has not looked at the last pass yet
	}
	if len(t.pass) == 0 && !t.begin(now) {
		return 0
	}
	for t.shadow < len(t.shadows) && replayed < most {
		s := t.shadows[t.shadow]
		if s.rest.now { // never the last one, the mirror
			t.shadow++
			continue
		}
		n := min(most-replayed, len(t.pass)-t.at)
		for i := range n {
			t.hand(s, &t.pass[t.at+i])
		}
		replayed += n
		if t.at += n; t.at == len(t.pass) {
			s.look()
			t.shadow, t.at = t.shadow+1, 0
		}
	}
	if t.shadow == len(t.shadows) {
		t.match()
	}
	t.done += replayed
	return replayed
}

// age lets the past count for less, where the load, or what serves it, has changed. Only between
// two passes: in the midst of one some shadows would have it faded, and others not.
func (t *Tuner) age() {
	t.takeBack()
	switch t.news {
	case loadOther:
		t.putAside()
		t.forget()
	case loadDrifted:
		t.recall(fadeDrifted)
	}
	t.news, t.burst.jumped = loadSame, false
}

const (
	// Dreams take no more than dreamTimes the time that really passed, and dreamMost at once: requests
	// that come once an hour would make the shadows' clock run out.
	dreamTimes = 1000
	dreamMost  = 3600 * mono.Second
	dreamsEnd  = mono.Never / 2
	// dreamRest: once the tallies are half full dreams take one part in so many of what is left of the
	// share at a turn. (Up to passTime of it is saved, so that is more than an eighth of the share.)
	dreamRest = 8
)

// begin makes the next pass of what came, and of dreams, where there is time left for them.
func (t *Tuner) begin(now mono.Time) bool {
	if len(t.next) == t.marks {
		return false // nothing came
	}
	t.age()
	t.wake()
	spare := int(t.credit/t.each/float64(t.awake())) - len(t.next)
	if t.mirror.tally.requests() > memoryLong*t.memory()/2 {
		spare /= dreamRest
	}
	span := min(dreamMost, dreamTimes*now.Sub(t.begun))
	t.begun = now
	if spare > 0 && !t.deaf && !t.burst.heard && t.clock < dreamsEnd {
		real := len(t.next)
		t.next = t.dreams.append(t.next, now, t.clock, span, min(spare, passMost-real))
		if n := len(t.next); n > real {
			t.clock = t.next[n-1].at
		}
	}
	t.weigh(len(t.next))
	t.pass, t.next, t.marks = t.next, t.pass[:0], 0
	if t.deaf {
		t.deaf, t.resumed = false, true
		t.dreams.missed()
	}
	return len(t.pass) > 0
}
