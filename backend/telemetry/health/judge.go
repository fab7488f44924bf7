package health

import (
	"fmt"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Spans that nobody has had a reason to configure.
const (
	contextSpan = mono.Second        // errors of applications within it are one
	memorySpan  = 10 * mono.Second   // an uncorrectable error shows as XID and as count: one
	memoryAgain = 3600 * mono.Second // the second one within it needs a reset
	noteSpan    = 60 * mono.Second   // a remark is said for so long, and not again meanwhile
	othersSpan  = 10 * mono.Second   // so long an error may be that of a process that is gone
	cappedFor   = 10 * mono.Second   // the power cap is said when it lasts
)

// kind is a reason for a verdict, the gravest first.
type kind int

const (
	gone kind = iota
	fatal
	remap
	memory
	contextLost
	silent
	throttled
	others
	capped
	unseen
	noted
	kinds // how many
)

// mark is a reason that holds now.
type mark struct {
	on     bool
	level  State
	remedy Remedy
	text   string
	until  mono.Time // Never: until something takes it away
}

// Judge is what is known of one GPU.
type Judge struct {
	cfg   Config
	marks [kinds]mark

	// Of the facts.
	at          mono.Time // of the last ones, or of New
	seen        bool      // it was there once
	uncorrected int64     // negative: unknown
	throttle    lasting
	power       lasting
	neighbours  lasting
	othersAt    mono.Time // when a process of others was last seen
	memoryAt    mono.Time // of the last uncorrectable memory error
	missed      string    // why the last sample failed

	// Of the service.
	verdict  Verdict
	out      bool
	clear    mono.Time // since when nothing keeps it out; Never: something does
	hold     mono.Dur
	returned mono.Time // when it last came back; Past: never
}

// New makes the judge of a GPU of which nothing is known yet: it is healthy.
func New(c Config, now mono.Time) *Judge {
	c = c.withDefaults()
	return &Judge{cfg: c, at: now, uncorrected: -1, othersAt: mono.Past, memoryAt: mono.Past, clear: mono.Never, returned: mono.Past,
		throttle: lasting{enter: c.Throttle, slow: 2}, power: lasting{enter: cappedFor, slow: 3}, neighbours: lasting{enter: c.Others, slow: 4}}
}

// Verdict is the last one.
func (j *Judge) Verdict() Verdict { return j.verdict }

// Observe takes a sample; true: the verdict changed.
func (j *Judge) Observe(now mono.Time, f *Facts) (Verdict, bool) {
	dt := now.Sub(j.at)
	j.at, j.missed = now, ""
	if f.Gone != "" {
		j.leave(f.Gone)
		return j.conclude(now)
	}
	if j.marks[gone].on || j.seen && f.Uncorrected >= 0 && f.Uncorrected < j.uncorrected {
		j.wasReset()
	}
	j.seen, j.marks[unseen].on = true, false
	j.observeMemory(now, f)
	j.observeClocks(dt, f)
	j.observeOthers(now, dt, f)
	return j.conclude(now)
}

// XID takes an error that the driver told.
func (j *Judge) XID(now mono.Time, code uint64) (Verdict, bool) {
	what, effect := Explain(code)
	text := fmt.Sprintf("XID %d: %s", code, what)
	switch effect {
	case ContextLost:
		if j.othersAt > now.Add(-othersSpan) {
			j.set(noted, mark{level: Warn, text: text + "; of one of the processes on the GPU (if it is ours, CUDA says so)", until: now.Add(noteSpan)})
		} else {
			j.set(contextLost, mark{level: Out, remedy: NewContext, text: text, until: now.Add(contextSpan)})
		}
	case MemoryError:
		j.memoryError(now, text)
	case NeedsReset:
		j.set(fatal, mark{level: Out, remedy: Reset, text: text, until: mono.Never})
	default:
		j.set(noted, mark{level: Warn, text: text, until: now.Add(noteSpan)})
	}
	return j.conclude(now)
}

// Missed says that a sample could not be had for another reason than that the GPU is gone.
func (j *Judge) Missed(now mono.Time, why string) (Verdict, bool) {
	j.missed = why
	return j.conclude(now)
}

// Tick lets time alone pass.
func (j *Judge) Tick(now mono.Time) (Verdict, bool) { return j.conclude(now) }

// set puts up a mark. One that is up already stays: the first cause is the one that is
// said, and a flood of errors is one line.
func (j *Judge) set(k kind, m mark) {
	if !j.marks[k].on {
		m.on = true
		j.marks[k] = m
	}
}

// keep puts a mark up or takes it away, as the condition is.
func (j *Judge) keep(k kind, here bool, m mark) {
	if !here {
		j.marks[k].on = false
		return
	}
	m.until = mono.Never
	j.set(k, m)
}

// leave: the GPU cannot be reached. One that never was is not out for that: CUDA may reach
// what NVML does not list.
func (j *Judge) leave(why string) {
	if !j.seen {
		j.set(unseen, mark{level: Warn, text: why + ": its health is not watched", until: mono.Never})
		return
	}
	j.set(gone, mark{level: Out, remedy: Reset, text: why, until: mono.Never})
}

// wasReset forgets what a reset heals.
func (j *Judge) wasReset() {
	for _, k := range []kind{gone, fatal, memory} {
		j.marks[k].on = false
	}
	j.uncorrected, j.memoryAt = -1, mono.Past
}

func (j *Judge) observeMemory(now mono.Time, f *Facts) {
	if more := f.Uncorrected - j.uncorrected; f.Uncorrected >= 0 && j.uncorrected >= 0 && more > 0 {
		j.memoryError(now, fmt.Sprintf("%d uncorrectable memory errors (%d since the driver was loaded)", more, f.Uncorrected))
	}
	if f.Uncorrected >= 0 {
		j.uncorrected = f.Uncorrected
	}
	pending := mark{level: Warn, text: "a memory row is to be remapped: reset the GPU when it suits"}
	failed := mark{level: Out, remedy: Reset, text: "a memory row could not be remapped: the GPU is to be replaced"}
	if f.RemapFailed && j.marks[remap].level == Warn {
		j.marks[remap].on = false
	}
	if f.RemapFailed {
		j.keep(remap, true, failed)
	} else {
		j.keep(remap, f.RemapPending, pending)
	}
}

func (j *Judge) memoryError(now mono.Time, text string) {
	again := j.memoryAt > now.Add(-memoryAgain) && j.memoryAt <= now.Add(-memorySpan)
	if again {
		j.set(fatal, mark{level: Out, remedy: Reset, text: text + "; the second within an hour", until: mono.Never})
	}
	j.set(memory, mark{level: Out, remedy: NewContext, text: text, until: now.Add(j.cfg.Probation)})
	if again || j.memoryAt == mono.Past || j.memoryAt <= now.Add(-memorySpan) {
		j.memoryAt = now
	}
}

func (j *Judge) observeClocks(dt mono.Dur, f *Facts) {
	level := Out
	if j.cfg.ThrottleWarns {
		level = Warn
	}
	j.throttle.step(dt, f.Throttle&Slowing != 0)
	j.keep(throttled, j.throttle.on, mark{level: level, text: "it throttles: " + (f.Throttle & Slowing).String() + detail(f)})
	j.power.step(dt, f.Throttle&PowerCap != 0)
	j.keep(capped, j.power.on, mark{level: Warn, text: "its clocks are held down by the power limit" + detail(f)})
}

func detail(f *Facts) string {
	if f.Detail == "" {
		return ""
	}
	return " (" + f.Detail + ")"
}

func (j *Judge) observeOthers(now mono.Time, dt mono.Dur, f *Facts) {
	if f.Others != "" {
		j.othersAt = now
	}
	level := Warn
	if j.cfg.OthersOut {
		level = Out
	}
	j.neighbours.step(dt, f.Others != "")
	j.keep(others, j.neighbours.on, mark{level: level, text: "others compute on it: " + f.Others})
}

// conclude makes the verdict of the marks.
func (j *Judge) conclude(now mono.Time) (Verdict, bool) {
	j.listen(now)
	v := Verdict{}
	for k := range j.marks {
		m := &j.marks[k]
		if m.on = m.on && m.until >= now; m.on {
			v.State, v.Remedy = max(v.State, m.level), max(v.Remedy, m.remedy)
		}
	}
	var causes []string // of the state alone: what only warns is not said of who is out
	for k := range j.marks {
		if m := &j.marks[k]; m.on && m.level == v.State {
			causes = append(causes, m.text)
		}
	}
	v.Cause = strings.Join(causes, "; ")
	if v = j.serve(now, v); v == j.verdict {
		return v, false
	}
	j.verdict = v
	return v, true
}

// listen puts up the mark of silence.
func (j *Judge) listen(now mono.Time) {
	for i, level := range []State{Warn, Out} {
		limit := j.cfg.Silence * mono.Dur(1+4*i)
		if now.Sub(j.at) < limit {
			if i == 0 {
				j.marks[silent].on = false
			}
			return
		}
		if j.marks[silent].on && j.marks[silent].level == level {
			continue
		}
		text := fmt.Sprintf("NVML has not answered for it for %v", limit.Std())
		if j.missed != "" {
			text = fmt.Sprintf("NVML has no answer for it since %v: %s", limit.Std(), j.missed)
		}
		j.marks[silent] = mark{on: true, level: level, text: text, until: mono.Never}
	}
}

// serve keeps who is out until it has been well for the hold.
func (j *Judge) serve(now mono.Time, v Verdict) Verdict {
	if v.State == Out {
		if !j.out {
			j.out = true
			if j.returned != mono.Past && now.Sub(j.returned) < j.cfg.Forget {
				j.hold = min(2*j.hold, j.cfg.HoldMax)
			} else {
				j.hold = j.cfg.Hold
			}
		} else {
			v.Remedy = max(v.Remedy, j.verdict.Remedy)
		}
		j.clear = mono.Never
		return v
	}
	if !j.out {
		return v
	}
	if j.clear == mono.Never {
		j.clear = now
	}
	if now.Sub(j.clear) < j.hold {
		return j.verdict
	}
	j.out, j.returned = false, now
	return v
}
