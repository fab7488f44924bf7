package gpu

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// part is one question.
type part struct {
	name   string
	title  string
	budget mono.Dur // its share of the time; what is not used goes to those after it
	uses   holds    // what it has open
	run    func(ctx context.Context, b *bench) (section, error)
}

// holds is what parts open and leave to the next.
type holds uint8

const (
	nothing holds = iota
	direct
	system
)

// parts are all of them. Those that need the same lie together: loading takes long.
func parts() []part {
	const s = mono.Second
	return []part{
		{"discovery", "Devices and NVML", 10 * s, nothing, discover},
		{"conformance", "The driver's conformance suite", 60 * s, nothing, conform},
		{"outputs", "Outputs against the CPU's", 75 * s, direct, compareOutputs},
		{"latency", "l(b)", 80 * s, direct, measureLatency},
		{"spread", "The spread of execution times", 35 * s, direct, measureSpread},
		{"overlap", "Copies beside execution", 25 * s, direct, measureOverlap},
		{"loads", "Loads beside execution", 30 * s, direct, measureLoads},
		{"paging", "Loads and unloads by order", 20 * s, direct, measurePaging},
		{"goodput", "Goodput through the real path", 130 * s, system, measureGoodput},
		{"prediction", "The plan's error", 25 * s, system, measurePrediction},
		{"timeline", "The GPU's time", 10 * s, system, drawTimeline},
		{"scaling", "The scheduler on many cores", 75 * s, nothing, measureScaling},
	}
}

// bench is a run. One goroutine has it: that of the part whose turn it is.
type bench struct {
	o     Options
	m     Machine
	r     *Result
	begin mono.Time

	held   *Direct
	served *System
	rec    *Recorder
	live   *live   // what the live path was measured at, for those after
	best   float64 // highest rate of the last workload that the first policy carried
	blind  bool    // NVML has not answered
	stuck  string  // the part that did not come back, and holds what it held

	closing error // what went wrong when things were closed
}

// all runs the parts; true: each did what was asked.
func (b *bench) all(ctx context.Context) bool {
	var chosen []part
	for _, p := range parts() {
		if len(b.o.Only) == 0 || slices.Contains(b.o.Only, p.name) {
			chosen = append(chosen, p)
		}
	}
	passed := true
	for i, p := range chosen {
		o := Outcome{Part: p.name, Title: p.title}
		switch left := b.left(); {
		case ctx.Err() != nil:
			o.Status, o.Error = Interrupted, "Ctrl-C came before it"
		case left < 2*mono.Second:
			o.Status, o.Error = NotRun, fmt.Sprintf("the %v of all parts were over", b.o.Limit.Std())
		case b.stuck != "" && p.uses != nothing:
			o.Status, o.Error = NotRun, "the part "+b.stuck+" has not come back, and holds the GPU"
		default:
			b.tell("[%d/%d] %s: %s, at most %.0f s\n", i+1, len(chosen), p.name, p.title, b.share(p, chosen[i:]).Seconds())
			b.turn(ctx, p, b.share(p, chosen[i:]), &o)
		}
		b.tell("[%d/%d] %s: %s after %.1f s%s\n", i+1, len(chosen), p.name, o.Status, o.Seconds, b.told(&o))
		passed = passed && (o.Status == Done || o.Status == Skipped)
		b.r.Parts = append(b.r.Parts, o)
	}
	if b.stuck == "" {
		passed = b.end() && passed
	}
	return passed
}

// told is what the progress says of a part beside its status.
func (b *bench) told(o *Outcome) string {
	text := firstLine(o.Error)
	if s := b.r.Sections[o.Part]; s != nil && o.Error == "" {
		text = s.summary()
	}
	if text == "" {
		return ""
	}
	return ": " + text
}

func (b *bench) tell(format string, args ...any) {
	if b.o.Progress != nil {
		fmt.Fprintf(b.o.Progress, format, args...)
	}
}

// left is what parts may still use.
func (b *bench) left() mono.Dur { return b.o.Limit - b.o.reserve - mono.Now().Sub(b.begin) }

// share is what the first of these parts may use: its part of what is left, but no more than
// twice what it was meant to have, however few are run.
func (b *bench) share(p part, rest []part) mono.Dur {
	sum := mono.Dur(0)
	for _, q := range rest {
		sum += q.budget
	}
	return min(b.left(), 2*p.budget, mono.Dur(float64(b.left())*float64(p.budget)/float64(sum)))
}

// graceMax is how long a part may take to notice that its time is over: a run of the device,
// or a model that loads.
const graceMax = 20 * mono.Second

// turn runs a part.
func (b *bench) turn(ctx context.Context, p part, budget mono.Dur, o *Outcome) {
	o.Budget = budget.Seconds()
	begin := mono.Now()
	bounded, cancel := context.WithTimeout(ctx, budget.Std())
	defer cancel()
	type answer struct {
		s   section
		err error
	}
	done := make(chan answer, 1)
	o.Before = b.look()
	go func() {
		var a answer
		defer func() {
			if v := recover(); v != nil { // a part's bug is a part's failure: the report has the others
				a.err = fmt.Errorf("panic: %v", v)
				b.tell("%s", debug.Stack())
			}
			done <- a
		}()
		b.release(p.uses)
		a.s, a.err = p.run(bounded, b)
	}()
	grace := min(graceMax, b.left()-budget+b.o.reserve/2)
	late := time.NewTimer((budget + grace).Std())
	defer late.Stop()
	var a answer
	select {
	case a = <-done:
	case <-late.C:
		b.stuck = p.name
		a.err = fmt.Errorf("it did not come back within %.0f s after its %.0f s were over: the GPU, or a library, hangs", grace.Seconds(), budget.Seconds())
	}
	o.Seconds = mono.Now().Sub(begin).Seconds()
	if a.s != nil {
		b.r.Sections[p.name] = a.s
	}
	o.After = b.look()
	o.judge(ctx, a.err)
}

// judge tells how a part ended from its error.
func (o *Outcome) judge(ctx context.Context, err error) {
	switch {
	case errors.Is(err, errSkip):
		o.Status, o.Error = Skipped, strings.TrimPrefix(err.Error(), errSkip.Error()+": ")
	case ctx.Err() != nil:
		o.Status, o.Error = Interrupted, "Ctrl-C came while it ran: this is what it had by then"
	case errors.Is(err, context.DeadlineExceeded):
		o.Status, o.Error = Failed, "its time was over before there was enough to tell: give a longer --limit, or fewer parts by --only"
	case err != nil:
		o.Status, o.Error = Failed, err.Error()
	default:
		o.Status = Done
	}
}

// lookMax is how long NVML may take: a driver that hangs takes it along.
const lookMax = 3 * time.Second

// look reads the GPUs; nothing where that is not possible, which discovery says.
func (b *bench) look() []Reading {
	if b.m.Look == nil || b.blind {
		return nil
	}
	seen := make(chan []Reading, 1)
	go func() {
		all, err := b.m.Look()
		if err != nil {
			all = nil
		}
		seen <- all
	}()
	late := time.NewTimer(lookMax)
	defer late.Stop()
	select {
	case all := <-seen:
		return all
	case <-late.C:
		b.blind = true
		b.tell("  NVML does not answer: it is asked no more\n")
		return nil
	}
}

// release closes what the next part does not use. What goes wrong is no fault of that part.
func (b *bench) release(keep holds) {
	if b.held != nil && keep != direct {
		b.closing = errors.Join(b.closing, b.held.Close())
		b.held = nil
	}
	if b.served != nil && keep != system {
		b.closing = errors.Join(b.closing, b.served.Close())
		b.served = nil
	}
}

// end closes everything. It waits no longer than there is time.
func (b *bench) end() bool {
	o := Outcome{Part: "closing", Title: "Closing devices", Status: Failed}
	begin, done := mono.Now(), make(chan struct{})
	go func() {
		defer close(done)
		b.release(nothing)
	}()
	select {
	case <-done:
		if b.closing == nil {
			return true
		}
		o.Error = b.closing.Error()
	case <-time.After((b.o.reserve / 2).Std()):
		o.Error = "it does not come back: the GPU, or a library, hangs"
	}
	o.Seconds = mono.Now().Sub(begin).Seconds()
	b.tell("%s: %s\n", o.Part, o.Error)
	b.r.Parts = append(b.r.Parts, o)
	return false
}

// open gives the models on the device.
func (b *bench) open(ctx context.Context) (*Direct, error) {
	if b.held != nil {
		return b.held, nil
	}
	if b.m.Open == nil {
		return nil, errors.New("nothing loads models here: this binary was built without CUDA")
	}
	b.tell("  loading the models ...\n")
	d, err := b.m.Open(ctx)
	if err != nil {
		return nil, err
	}
	if len(d.Models) == 0 {
		return nil, errors.Join(append(d.Refused, errors.New("there is no model to measure: run `make models zoo` first"), d.Close())...)
	}
	b.held = d
	return d, nil
}

// serve gives the whole system.
func (b *bench) serve(ctx context.Context) (*System, error) {
	if b.served != nil {
		return b.served, nil
	}
	if b.m.Serve == nil {
		return nil, errors.New("nothing serves models here: this binary was built without CUDA")
	}
	b.tell("  starting the system ...\n")
	b.rec = &Recorder{}
	s, err := b.m.Serve(ctx, b.rec)
	if err != nil {
		return nil, err
	}
	if len(s.Workloads) == 0 || len(s.Policies) == 0 {
		return nil, errors.Join(errors.New("the system serves no model"), s.Close())
	}
	b.served = s
	return s, nil
}

// leftOf is how long a part has.
func leftOf(ctx context.Context) mono.Dur {
	end, ok := ctx.Deadline()
	if !ok {
		return 3600 * mono.Second
	}
	return max(0, mono.Dur(time.Until(end)))
}

// planned is what a part that measures until its time is over may plan with. The last tenth is
// kept: what comes to its end with the deadline, on a busy machine comes a moment after it, and
// the part would fail with everything measured.
func planned(ctx context.Context) mono.Dur { return leftOf(ctx) * 9 / 10 }
