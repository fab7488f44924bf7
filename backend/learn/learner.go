package learn

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	minute = 60 * mono.Second

	// Runs is how many runs a Learner remembers, and runsAge for how long.
	Runs    = 128
	runsAge = minute

	// ownRuns is how many runs of a batch size say what it takes; fewer are put together with those of the next size.
	ownRuns = 3
	// crowdRuns is likewise, while others have the processors: of three runs two may have waited for one.
	crowdRuns = 8
	// crowdUsual replaces usual then: the scheduler's margins take what waiting for processors adds.
	crowdUsual = 0.5
	// usual is the part of the runs that take no longer than the profile says. Where times depend on the inputs
	// half of all batches take longer than the median; what a few take beyond this is the margins' (scheduler/overrun).
	usual = 0.75
	// toldAge is for how long a size counts that is larger than all that run, while the profile is wrong.
	toldAge = 5 * mono.Second
	// agreeing is how many groups of sizes can agree on the profile's shape: those that are off by the same
	// factor, or by up to agree times another one.
	agreeing = 3
	agree    = 1.5
	// firstRuns is how many runs say that a profile is wrong; ownRuns do where they are far longer than it says.
	firstRuns = 5

	// stepUp and stepDown bound a correction: by so much a latency grows or shrinks at a time. From a
	// profile that is 10,000 times too short four corrections lead to the right one.
	stepUp   = 16.0
	stepDown = 4.0

	// Once a profile was found wrong, it follows the runs until it is closer than this.
	closeUp   = 1.1
	closeDown = 0.75
	// fallAfter is for how long runs must say that it is too long by now. Where some inputs take far longer than
	// others a few short runs follow each other; too long a plan costs less than one that is too short.
	fallAfter = 10 * mono.Second
	// settle is how long a profile must have been close before its correction ends; after settleMost it ends in any
	// case: the margins (scheduler/overrun) take what changes without end.
	settle     = 5 * mono.Second
	settleMost = minute
	settleRuns = 32

	// trialFirst and trialMost bound how often a profile by which no request could be served is
	// doubted: after the first span, then after twice as long each time.
	trialFirst = minute
	trialMost  = 60 * minute
)

// Origin is where a profile comes from.
type Origin uint8

// The origins of a profile.
const (
	Given    Origin = iota // a person wrote it, or another host measured it
	Stored                 // it was measured before, and read from a file
	Measured               // measured by this process
	Learnt                 // corrected by what ran
)

// Advice is what a Learner wants.
type Advice uint8

// What a Learner wants.
const (
	Keep    Advice = iota
	Correct        // the profile is wrong: Profile is nearer to what ran
	Try            // by the profile nothing can be served, so nothing would ever show that it is wrong: Profile is to be tried
	Measure        // likewise, and measuring may show it
)

// Learner corrects the profile of one model. One goroutine at a time may call it.
type Learner struct {
	profile *profile.Profile
	slo     mono.Dur
	origin  Origin

	runs  [Runs]run
	n     int       // added so far
	fresh bool      // one was added since the last step
	off   mono.Time // since when the runs say that it is far off; Never: they do not
	long  bool      // likewise: it is too long

	wrong bool
	since mono.Time        // of wrong
	shape *profile.Profile // as it was then
	took  []told           // by batch size less one, since then
	known int              // what is planned of larger batches is a guess
	near  mono.Time        // since when it is close
	low   mono.Time        // since when it is too long; Never: it is not
	falls bool             // it was found too long, and has only fallen since
	count int              // runs since

	doubt mono.Time // when it is doubted next, of one by which nothing can be served
	pause mono.Dur
}

// told is what a batch size was last said to take; the zero one: nothing.
type told struct {
	took mono.Dur
	at   mono.Time
}

type run struct {
	took mono.Dur
	at   mono.Time
	size int
}

// NewLearner begins with a profile. What it says of batches larger than known is a guess; 0: none of it is.
func NewLearner(now mono.Time, p *profile.Profile, slo mono.Dur, origin Origin, known int) *Learner {
	l := &Learner{pause: trialFirst}
	l.Restart(now, p, slo, origin, known)
	return l
}

// Restart goes on with another profile or SLO. What ran is forgotten, and what is doubted is not
// doubted sooner for it.
func (l *Learner) Restart(now mono.Time, p *profile.Profile, slo mono.Dur, origin Origin, known int) {
	if known == 0 {
		known = p.MaxBatch()
	}
	other := l.profile == nil || slo != l.slo
	l.profile, l.slo, l.origin = p, slo, origin
	l.n, l.fresh, l.off, l.wrong, l.known = 0, false, mono.Never, false, known
	if l.doubt = now.Add(l.pause); other && (origin == Given || origin == Stored) {
		l.doubt = now // it may have been measured elsewhere, or long ago
	}
}

// Profile is what the model is taken to need now.
func (l *Learner) Profile() *profile.Profile { return l.profile }

// Knows reports whether a profile and an SLO are those that it has.
func (l *Learner) Knows(p *profile.Profile, slo mono.Dur) bool {
	return slo == l.slo && p.Alike(l.profile)
}

// Origin is where it comes from.
func (l *Learner) Origin() Origin { return l.origin }

// Learning reports whether the profile is being corrected.
func (l *Learner) Learning() bool { return l.wrong }

// Known is the largest batch of which it knows what it takes.
func (l *Learner) Known() int { return l.known }

// Runs is how many runs a correction rests on.
func (l *Learner) Runs() int { return min(l.n, Runs) }

// Add takes a run.
func (l *Learner) Add(now mono.Time, size int, took mono.Dur) {
	if size < 1 || size > l.profile.MaxBatch() || took <= 0 {
		return
	}
	l.runs[l.n%Runs] = run{took, now, size}
	l.n++
	l.count++
	l.fresh = true
}

// Step looks at what has run; call it about twice a second. crowded: others have had the device's processors since
// the last look, and what ran waited for them. Then only what is out of all reason shows that a profile is wrong.
func (l *Learner) Step(now mono.Time, crowded bool) Advice {
	if l.starved(now) {
		if now >= l.doubt {
			return l.doubts(now)
		}
	} else if l.pause > trialFirst && now >= l.doubt.Add(l.pause) { // it has served for long: what comes is news
		l.pause = trialFirst
	}
	if !l.fresh && !l.wrong {
		return Keep
	}
	l.fresh = false
	if crowded {
		l.near = mono.Never // runs that waited for processors do not show that it is right
	}
	if !l.wrong {
		far := l.farOff(now, crowded)
		if !far && (crowded || !l.misguessed(now)) {
			return Keep
		}
		known := l.known
		if l.correct(now); far {
			l.falls = l.long
		} else { // it was wrong only about batches larger than known
			for b := 1; b <= known; b++ {
				l.took[b-1] = told{l.profile.Latency(b), now}
			}
		}
	}
	if all := l.recent(now); len(all) >= ownRuns {
		if crowded {
			return l.follow(now, groups(all, crowdRuns, crowdUsual))
		}
		return l.follow(now, groups(all, ownRuns, usual))
	}
	return Keep
}

// starved reports whether nothing can be served by the profile: a request alone takes longer than its SLO, or so
// nearly as long that with the network's delays none has made it.
func (l *Learner) starved(now mono.Time) bool {
	alone := l.profile.Latency(1)
	idle := l.n == 0 || now.Sub(l.runs[(l.n-1)%Runs].at) > runsAge
	return alone > l.slo || alone > l.slo/10*9 && idle
}

// doubts asks for a profile to be shown right by which nothing can be served.
func (l *Learner) doubts(now mono.Time) Advice {
	l.pause = min(2*l.pause, trialMost)
	l.doubt = now.Add(l.pause)
	if l.origin != Learnt {
		return Measure
	}
	// Half of the SLO: a request that waited for a batch before it is tried as well.
	by := float64(l.slo) / 2 / float64(l.profile.Latency(1))
	p := made(l.profile.MaxBatch(), func(b int) float64 { return by * float64(l.profile.Latency(b)) })
	if p == nil {
		return Measure
	}
	l.profile, l.n = p, 0
	l.correct(now)
	return Try
}

// correct begins to.
func (l *Learner) correct(now mono.Time) {
	l.wrong, l.since, l.near, l.low, l.count, l.falls = true, now, mono.Never, mono.Never, 0, false
	l.shape, l.took = l.profile, make([]told, l.profile.MaxBatch())
}

// recent are the runs that count, in rising order of size and then of length.
func (l *Learner) recent(now mono.Time) []run {
	all := make([]run, 0, Runs)
	for i := range l.runs[:min(l.n, Runs)] {
		if r := &l.runs[i]; now.Sub(r.at) <= runsAge {
			all = append(all, *r)
		}
	}
	slices.SortFunc(all, func(a, b run) int {
		if a.size != b.size {
			return a.size - b.size
		}
		return int(max(-1, min(1, a.took-b.took)))
	})
	return all
}

// far says how far off a profile must be to be called wrong: by a factor, and by a span, and for how long.
type far struct {
	crowd  bool    // it counts also where others have the processors
	runs   int     // at least
	part   float64 // of the runs that may be quicker (slower, where it is too long)
	factor float64
	span   mono.Dur
	lasts  mono.Dur
}

// farOff reports whether the profile is wrong, as the runs have said for long enough.
func (l *Learner) farOff(now mono.Time, crowded bool) bool {
	lasts := mono.Dur(-1)
	for _, f := range [...]far{
		{true, ownRuns, 0.01, 30, l.slo / 8, 0},
		{true, firstRuns, 0.25, 30, max(l.slo/50, mono.Millisecond), 500 * mono.Millisecond},
		{false, firstRuns, 0.25, 30, mono.Millisecond, 5 * mono.Second},
		{false, firstRuns, 0.25, 5, l.slo / 8, 5 * mono.Second},
		{false, firstRuns, 0.25, 1.75, l.slo / 4, 5 * mono.Second}, // more than the scheduler's margins take
		{false, firstRuns, 0.75, 4, l.slo / 4, 5 * mono.Second},    // right for most, and wrong for many
	} {
		if (f.crowd || !crowded) && l.exceeds(now, f, false) && (lasts < 0 || f.lasts < lasts) {
			lasts, l.long = f.lasts, false
		}
	}
	for _, f := range [...]far{
		{true, firstRuns, 0.25, 30, max(l.slo/50, mono.Millisecond), 500 * mono.Millisecond},
		{false, firstRuns, 0.25, 8, l.slo / 4, 10 * mono.Second}, // a plan that is too long costs little beside one that is too short
	} {
		if (f.crowd || !crowded) && l.exceeds(now, f, true) && (lasts < 0 || f.lasts < lasts) {
			lasts, l.long = f.lasts, true
		}
	}
	if lasts < 0 {
		l.off = mono.Never
		return false
	}
	l.off = min(l.off, now)
	return now.Sub(l.off) >= lasts
}

// misguessed reports whether batches run that are larger than all that was learnt of, and take longer than was guessed.
func (l *Learner) misguessed(now mono.Time) bool {
	n, of := 0, 0
	for i := range l.runs[:min(l.n, Runs)] {
		if r := &l.runs[i]; r.size > l.known && now.Sub(r.at) <= runsAge {
			if of++; float64(r.took) > agree*float64(l.profile.Latency(r.size)) {
				n++
			}
		}
	}
	return of >= ownRuns && 4*n > 3*of
}

// exceeds reports whether all but a part of the runs are so far above what was planned, or below.
func (l *Learner) exceeds(now mono.Time, f far, below bool) bool {
	n, of := 0, 0
	for i := range l.runs[:min(l.n, Runs)] {
		r := &l.runs[i]
		if now.Sub(r.at) > runsAge {
			continue
		}
		of++
		plan, took := l.profile.Latency(r.size), r.took
		if below {
			plan, took = took, plan
		}
		if float64(took) > f.factor*float64(plan) && took-plan > f.span {
			n++
		}
	}
	return of >= f.runs && float64(n) > (1-f.part)*float64(of)
}

// follow brings a wrong profile nearer to what ran, or calls it right.
func (l *Learner) follow(now mono.Time, ran []group) Advice {
	for _, g := range ran {
		l.took[g.size-1] = told{g.took, now}
	}
	for i := ran[len(ran)-1].size; i < len(l.took); i++ { // larger ones that were slow once may be tried again
		if now.Sub(l.took[i].at) > toldAge {
			l.took[i] = told{}
		}
	}
	largest := l.profile.MaxBatch()
	target := made(largest, l.target())
	if target == nil {
		return Keep
	}
	least, most := 1.0, 1.0 // by what factor batches take longer than planned
	for b := 1; b <= largest; b++ {
		by := float64(target.Latency(b)) / float64(l.profile.Latency(b))
		least, most = min(least, by), max(most, by)
	}
	if least >= closeDown {
		l.low = mono.Never
	} else {
		l.low = min(l.low, now)
	}
	falls := l.falls || now.Sub(l.low) >= fallAfter
	switch {
	case most > closeUp:
		l.near, l.falls = mono.Never, false
	case least < closeDown:
		if l.near = mono.Never; !falls {
			return Keep
		}
	default:
		l.near = min(l.near, now)
		settled := now.Sub(l.near) >= settle && l.count >= settleRuns
		if !settled && now.Sub(l.since) < settleMost {
			return Keep
		}
		l.wrong, l.off, l.took, l.shape = false, mono.Never, nil, nil
		if most < closeUp && least > 1/closeUp {
			return Keep
		}
	}
	next := made(largest, func(b int) float64 {
		was := float64(l.profile.Latency(b))
		least := was
		if falls || !l.wrong {
			least /= stepDown
		}
		return max(least, min(was*stepUp, float64(target.Latency(b))))
	})
	if next == nil {
		return Keep
	}
	l.profile, l.origin = next, Learnt
	return Correct
}

// group is runs of one batch size, or of a few sizes of which none has enough alone.
type group struct {
	size int // the largest
	took mono.Dur
}

// groups divides runs, which are in rising order of size, into groups of at least own. A group takes as long as a
// part of its runs at most do.
func groups(all []run, own int, part float64) (out []group) {
	for from := 0; from < len(all); {
		end := min(from+own, len(all))
		for end < len(all) && all[end].size == all[end-1].size {
			end++
		}
		if len(all)-end < own {
			end = len(all) // the few that are left speak with these
		}
		lengths := make([]mono.Dur, 0, end-from)
		for i := range all[from:end] {
			lengths = append(lengths, all[from+i].took)
		}
		slices.Sort(lengths)
		out = append(out, group{all[end-1].size, lengths[int(float64(len(lengths)-1)*part)]})
		from = end
	}
	return out
}

// target is what the runs say that batches take. What lies between two sizes that ran keeps the shape that the
// profile had, and so does what is smaller than all of them. What is larger does if several sizes agree on the
// shape. If not, up to twice the largest batch that ran is taken to need no more than that one: so it is tried,
// and what it takes is seen. What is taken to be too long never runs, and nothing would ever show that it is not.
func (l *Learner) target() func(b int) float64 {
	by := func(size int) float64 { return float64(l.took[size-1].took) / float64(l.shape.Latency(size)) }
	var ran []int
	least, most := 0.0, 0.0
	for i := range l.took {
		if l.took[i].took == 0 {
			continue
		}
		if ran = append(ran, i+1); len(ran) == 1 {
			least, most = by(i+1), by(i+1)
		}
		least, most = min(least, by(i+1)), max(most, by(i+1))
	}
	last := ran[len(ran)-1]
	agreed := len(ran) >= agreeing && most <= agree*least
	if l.known = last; agreed {
		l.known = l.shape.MaxBatch()
	}
	return func(b int) float64 {
		i, is := slices.BinarySearch(ran, b)
		shape := float64(l.shape.Latency(b))
		switch {
		case is || i == 0:
			return shape * by(ran[i])
		case i < len(ran):
			low, high := ran[i-1], ran[i]
			part := float64(b-low) / float64(high-low)
			return shape * (by(low) + float64((by(high)-by(low))*part))
		case b <= 2*last && !agreed:
			return float64(l.took[last-1].took)
		}
		return shape * by(last)
	}
}

// latencyMost bounds what is learnt; the profile package refuses what is over an hour.
const latencyMost = 60 * minute

// made is a profile of latencies in ns, a larger batch's being no less than a smaller one's; nil: it cannot be.
func made(maxBatch int, latency func(b int) float64) *profile.Profile {
	table := make([]mono.Dur, maxBatch)
	for i := range table {
		table[i] = mono.Dur(max(1, min(float64(latencyMost), latency(i+1))))
	}
	out, err := profile.Table(table)
	if err != nil {
		return nil
	}
	return out
}
