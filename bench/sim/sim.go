package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/overrun"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// driver is one run.
type driver struct {
	cfg    *Config
	sched  policy.Scheduler
	source Source
	now    mono.Time

	arrival  mono.Time // the next arrival; Never when there are no more
	model    int       // its model
	serial   uint64    // requests so far
	from, to mono.Time // the counted span
	stop     mono.Time // arrivals end here

	gpus   []gpu
	ended  run     // the one that complete is at: an observer is handed it, and it would be allocated
	ends   pq.Heap // GPU -> end of what runs
	events []GPUEvent
	mail   mailbox
	pauses *pauses         // of the scheduler
	pager  *pager          // the GPUs' memory; nil: every model is on every GPU
	loader policy.Loader   // the scheduler, if it loads models
	timed  policy.Timed    // the scheduler, if it learns how long batches take
	closed workload.Closed // the source, if it is to be told of answers
	breach error           // what the scheduler should not have done
	wired  bool            // messages take their way; else they are there at once
	net    *rand.Rand      // draws of the network
	exec   *rand.Rand      // draws of the jitter

	out     policy.Out
	perTurn int      // Steps since the clock last moved
	margins []margin // by model; nil: none are learnt
	late    overrun.Lateness
	latest  mono.Dur // how late the scheduler's timer and orders were at this instant
	result  *Result
	needs   needs
	hopes   *hopes // nil: the run goes on to its end
	failed  bool   // it has none left
}

// Run simulates cfg. The error is that of cfg.Check, of the arrivals, or a
// cancelled run's: stop, if not nil, is asked now and then whether to give up.
func Run(cfg *Config, stop func() bool) (*Result, error) {
	d, err := newRun(cfg)
	if err != nil {
		return nil, err
	}
	if err := d.run(stop); err != nil {
		return nil, err
	}
	return d.result, nil
}

// newRun is the driver of a configuration that has been checked.
func newRun(cfg *Config) (*driver, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	source := cfg.Source
	if source == nil {
		mix, err := cfg.arrivals()
		if err != nil {
			return nil, err
		}
		source = mix
	}
	return newDriver(cfg, source)
}

// ErrStopped is the error of a run that was told to give up.
var ErrStopped = fmt.Errorf("simulation stopped")

func newDriver(cfg *Config, source Source) (*driver, error) {
	d := &driver{cfg: cfg, source: source, pager: newPager(cfg), from: mono.Time(cfg.Warmup), to: mono.Time(cfg.Warmup + cfg.Duration)}
	tail := mono.Dur(0)
	for i := range cfg.Models {
		if cfg.Models[i].Class == wire.ClassLatency {
			tail = max(tail, cfg.Models[i].SLO)
		}
	}
	d.stop = d.to.Add(tail) // what arrives last in the span has company behind it
	d.pauses = newPauses(cfg.Pauses, SchedulerPart, 0, cfg.Seed)
	d.wired = !cfg.Network.none() || !d.pauses.none() // a scheduler that stands still has a mailbox
	d.net = rand.New(rand.NewPCG(cfg.Seed, 0x6e6574))
	d.exec = rand.New(rand.NewPCG(cfg.Seed, 0x65786563))
	d.result = &Result{Span: cfg.Duration, Models: make([]Counts, len(cfg.Models)), Busy: make([]mono.Dur, cfg.GPUs)}
	d.result.Sizes = make([]int64, profile.BatchMax+1)
	d.result.QueueTime = make([]int64, queueUnits)
	if cfg.Margins {
		d.margins = newMargins(cfg.Models)
	}
	d.needs = newNeeds(d)
	d.events = slices.Clone(cfg.Events)
	slices.SortStableFunc(d.events, func(a, b GPUEvent) int { return int(a.At - b.At) })
	d.sched = cfg.NewPolicy(policy.Config{Delay: cfg.Network.Bound, RequestsMax: cfg.open(), Frontends: max(1, cfg.Frontends), Seed: cfg.Seed, Pages: cfg.Paging.Pages})
	if d.loader, _ = d.sched.(policy.Loader); d.loader == nil && d.pager != nil {
		return nil, fmt.Errorf("%w: GPUs with pages, and a policy that does not load models", ErrInvalid)
	}
	d.timed, _ = d.sched.(policy.Timed)
	d.closed, _ = source.(workload.Closed)
	for i := range cfg.Models {
		m := &cfg.Models[i]
		d.sched.AddModel(wire.ModelID(i), policy.Model{Profile: m.Profile, SLO: m.SLO, Rate: m.Stream.Rate, Pages: m.Pages, LoadTime: m.LoadTime})
	}
	for i := range cfg.GPUs {
		d.join(wire.GPUID(i))
	}
	d.apply()
	d.nextArrival()
	return d, nil
}

// stopEvery is how many instants pass between two questions whether to stop.
const stopEvery = 1 << 14

// run does one instant after the other until nothing is left.
func (d *driver) run(stop func() bool) error {
	for !d.failed {
		now := d.next()
		if now == mono.Never {
			break
		}
		if now > d.now {
			d.perTurn = 0
		}
		if d.perTurn++; d.perTurn > 1_000_000 {
			return fmt.Errorf("simulation: the policy is due for ever at %v: a bug in it", d.now)
		}
		d.now = max(d.now, now)
		d.instant()
		if d.breach != nil {
			return d.breach
		}
		if d.result.Steps++; d.result.Steps%stopEvery == 0 && stop != nil && stop() {
			return ErrStopped
		}
	}
	if d.balance(); d.breach != nil {
		return d.breach
	}
	d.result.Scheduler = d.sched
	d.needs.until(d.to, d)
	for i := range d.result.Models {
		d.result.All.add(&d.result.Models[i])
		d.result.ByClass[d.cfg.Models[i].Class].add(&d.result.Models[i])
	}
	return nil
}

// next is the instant of what happens next.
func (d *driver) next() mono.Time {
	t := min(d.sched.NextWake(), d.mail.next())
	if !d.pauses.none() {
		t = d.pauses.after(max(t, d.now))
	}
	if d.closed != nil {
		d.nextArrival() // an answer may have brought one that comes first
	}
	t = min(t, d.arrival, d.pager.next())
	if d.ends.Len() > 0 {
		_, at := d.ends.Min()
		t = min(t, mono.Time(at))
	}
	// Past the last arrival, GPUs that come and go matter only to what is open.
	if len(d.events) > 0 && (t != mono.Never || d.events[0].At < d.to) {
		t = min(t, d.events[0].At)
	}
	return t
}

// instant does what is due at now, in the order that doc.go has.
func (d *driver) instant() {
	d.pauses.forget(d.now)
	back := d.pauses.after(d.now)
	for len(d.events) > 0 && d.events[0].At <= d.now {
		if e := d.events[0]; back > d.now && e.Kind != Fail {
			d.hold(e.GPU, back)
			continue
		}
		d.event(d.events[0])
		d.events = d.events[1:]
	}
	if wake := d.sched.NextWake(); back == d.now && wake < d.now {
		d.woke(wake) // before the mailbox: what comes may take the place of what the timer was for
	}
	d.complete()
	d.copies()
	for back == d.now && d.mail.next() <= d.now {
		d.receive(d.mail.pop())
	}
	for d.arrival <= d.now {
		if d.closed != nil {
			d.closed.Next()
		}
		d.arrive()
		d.nextArrival()
	}
	if back == d.now && d.sched.NextWake() <= d.now {
		d.sched.Step(d.now, &d.out)
	}
	d.apply()
	if back == d.now {
		d.turned()
	}
}

func (d *driver) nextArrival() {
	next := d.source.Next
	if d.closed != nil {
		next = d.closed.Peek
	}
	at, model, ok := next()
	if !ok || at >= d.stop {
		at = mono.Never
	}
	d.arrival, d.model = at, model
}

// arrive is a request at its frontend; its record goes to the scheduler.
func (d *driver) arrive() {
	m := &d.cfg.Models[d.model]
	d.serial++
	r := batching.Request{ID: wire.RequestID(d.serial), Arrival: d.now, Deadline: d.now.Add(m.SLO), Class: m.Class}
	r.Input.Length = uint32(d.model) // no inputs here: it tells the model of a drop
	if d.cfg.Frontends > 1 {
		r.Frontend = wire.FrontendID(d.serial % uint64(d.cfg.Frontends))
	}
	if d.counted(d.now) {
		d.result.Models[d.model].Arrived++
		d.needs.until(d.now, d)
		if m.Class == wire.ClassLatency {
			d.needs.arrived[d.model]++
		}
	}
	if d.pager.cold(d.model) {
		d.cold()
	}
	if f := d.cfg.Observer.Arrive; f != nil {
		f(d.now, wire.ModelID(d.model))
	}
	if !d.wired {
		d.tighten(wire.ModelID(d.model), &r)
		d.sched.Submit(d.now, wire.ModelID(d.model), r, &d.out)
		return
	}
	// The answer must be back by the deadline: its way is taken off for the
	// scheduler.
	r.Deadline = r.Deadline.Add(-d.cfg.Network.Bound.Ctrl)
	at := d.now.Add(d.cfg.Network.Ctrl.draw(d.net))
	if d.counted(d.now) && d.pauses.after(at).Add(d.cfg.Network.Bound.Of(1)+m.Profile.Latency(1)) > r.Deadline {
		d.result.Hopeless++
	}
	d.mail.send(message{at: at, kind: submitted, model: wire.ModelID(d.model), request: r})
}

// cold counts a request whose model is on no GPU.
func (d *driver) cold() {
	if d.counted(d.now) {
		d.result.Models[d.model].Cold++
	}
	if f := d.cfg.Observer.Cold; f != nil {
		f(d.now, wire.ModelID(d.model))
	}
}

// answered tells a source that waits for answers.
func (d *driver) answered(at mono.Time, model int) {
	if d.closed != nil {
		d.closed.Answered(at, model)
	}
}

func (d *driver) counted(arrival mono.Time) bool { return arrival >= d.from && arrival < d.to }

// receive handles a message whose way has ended.
func (d *driver) receive(m message) {
	switch m.kind {
	case submitted:
		d.tighten(m.model, &m.request)
		d.sched.Submit(d.now, m.model, m.request, &d.out)
	case reported:
		d.report(&m)
	case failed:
		d.detected(m.gpu, m.life)
	case loaded:
		d.hear(&m)
	}
}

// apply carries out what the scheduler decided.
func (d *driver) apply() {
	for !d.out.Empty() {
		for i := range d.out.Drops {
			d.dropped(&d.out.Drops[i])
		}
		for i := range d.out.Preempts {
			d.preempt(&d.out.Preempts[i])
		}
		for i := range d.out.Unloads {
			d.unload(&d.out.Unloads[i])
		}
		for i := range d.out.Loads {
			d.load(&d.out.Loads[i])
		}
		for i := range d.out.Dispatches {
			if f := d.cfg.Observer.Dispatched; f != nil {
				f(d.now, &d.out.Dispatches[i])
			}
			d.ordered(&d.out.Dispatches[i])
			d.launch(&d.out.Dispatches[i])
		}
		d.out.Reset()
	}
}

func (d *driver) dropped(k *batching.Drop) {
	if d.closed != nil {
		d.answered(d.now.Add(d.ctrl()), int(k.Request.Input.Length))
	}
	if d.counted(k.Request.Arrival) {
		d.result.Models[k.Request.Input.Length].Dropped[k.Reason]++
		d.bad(int(k.Request.Input.Length))
	}
	if f := d.cfg.Observer.Drop; f != nil {
		f(d.now, k)
	}
}

// bad is a request that was counted as late or dropped.
func (d *driver) bad(model int) {
	if d.hopes != nil && d.hopes.hopeless(model) {
		d.failed = true
	}
}
