package telemetry

import (
	"errors"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/backend/telemetry/health"
	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	// throughputEvery is between two measurements of the PCIe link, in samples: each takes
	// the driver 40 ms.
	throughputEvery = 10
	// freshFor is how long a sample is true, in intervals.
	freshFor = 4
	// reportsMax is how many reports wait for a judge; who finds it full waits for it, but
	// for XIDs: a flood of them says no more than its beginning.
	reportsMax = 64
)

// unit is one device and its judge.
type unit struct {
	m         *Monitor // Immutable, as what follows
	device    *Device
	processes processes
	reports   chan report

	mu  sync.Mutex // Guards what follows
	now reading

	judge    *health.Judge // Owned by judgeLoop, as what follows
	watchers []func(health.Verdict)
}

// report is news for the judge: one of them.
type report struct {
	facts  *health.Facts
	missed string // why there is no sample
	xid    uint64
	watch  func(health.Verdict)
}

// reading is what is known of a device now.
type reading struct {
	sample     Sample
	at         mono.Time // of the sample; Past: none
	throughput Throughput
	verdict    health.Verdict
	xid        uint64 // the last one; 0: none
	fresh      bool   // the sample is true still
}

func newUnit(m *Monitor, d *Device, p processes) *unit {
	return &unit{m: m, device: d, processes: p, reports: make(chan report, reportsMax), now: reading{at: mono.Past},
		judge: health.New(m.cfg.Health, mono.Now())}
}

func (u *unit) snapshot() reading {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.now
	r.fresh = r.at > mono.Now().Add(-freshFor*u.m.cfg.Interval)
	return r
}

func (u *unit) change(f func(r *reading)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f(&u.now)
}

func (u *unit) report(r report) {
	if r.xid != 0 {
		u.change(func(now *reading) { now.xid = r.xid })
		select {
		case u.reports <- r:
		default:
		}
		return
	}
	select {
	case u.reports <- r:
	case <-u.m.quit:
	}
}

// sampleLoop asks NVML, and does nothing else: it may hang there.
func (u *unit) sampleLoop() {
	defer u.m.asking.Done()
	tick := time.NewTicker(u.m.cfg.Interval.Std())
	defer tick.Stop()
	for n := 0; ; n++ {
		u.sample()
		if n%throughputEvery == 0 && u.device.Parent == "" {
			if t, err := u.m.cfg.NVML.Throughput(u.device.UUID); err == nil {
				u.change(func(now *reading) { now.throughput = t })
			}
		}
		select {
		case <-u.m.quit:
			return
		case <-tick.C:
		}
	}
}

func (u *unit) sample() {
	s, err := u.m.cfg.NVML.Sample(u.device.UUID)
	switch {
	case err == nil:
		u.change(func(now *reading) { now.sample, now.at = s, mono.Now() })
		u.report(report{facts: factsOf(&s, u.device, u.processes)})
	case errors.Is(err, ErrGone):
		u.change(func(now *reading) { now.at = mono.Past })
		u.report(report{facts: &health.Facts{Gone: err.Error()}})
	default:
		u.report(report{missed: err.Error()})
	}
}

// judgeLoop makes verdicts of reports and of time.
func (u *unit) judgeLoop() {
	defer u.m.judging.Done()
	tick := time.NewTicker(u.m.cfg.Interval.Std())
	defer tick.Stop()
	for {
		var v health.Verdict
		var changed bool
		select {
		case <-u.m.quit:
			return
		case <-tick.C:
			v, changed = u.judge.Tick(mono.Now())
		case r := <-u.reports:
			v, changed = u.takeLoop(r)
		}
		if changed {
			u.tellLoop(v)
		}
	}
}

func (u *unit) takeLoop(r report) (health.Verdict, bool) {
	now := mono.Now()
	switch {
	case r.facts != nil:
		return u.judge.Observe(now, r.facts)
	case r.missed != "":
		return u.judge.Missed(now, r.missed)
	case r.xid != 0:
		return u.judge.XID(now, r.xid)
	case r.watch != nil:
		u.watchers = append(u.watchers, r.watch)
		if v := u.judge.Verdict(); v.State != health.Healthy {
			r.watch(v)
		}
	}
	return health.Verdict{}, false
}

// tellLoop says a new verdict: once to the log, and to all watchers.
func (u *unit) tellLoop(v health.Verdict) {
	u.change(func(now *reading) { now.verdict = v })
	e := u.m.log.Info()
	text := "GPU is healthy again"
	switch v.State {
	case health.Warn:
		e, text = u.m.log.Warn(), "GPU: a warning"
	case health.Out:
		e, text = u.m.log.Error(), "GPU cannot be trusted: out of service"
	}
	if v.State != health.Healthy {
		e = e.Str("cause", v.Cause)
	}
	if v.State == health.Out {
		e = e.Stringer("needs", v.Remedy)
	}
	e.Int("index", u.device.Index).Str("uuid", u.device.UUID).Str("name", u.device.Name).Str("pci", u.device.PCI).Msg(text)
	for _, f := range u.watchers {
		f(v)
	}
}
