package health

import (
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

const ms = mono.Millisecond

// bench is a judge under a virtual clock: samples every 500 ms, as in service.
type bench struct {
	t    *testing.T
	j    *Judge
	now  mono.Time
	f    Facts
	mute bool // NVML is silent
	said []string
}

func newBench(t *testing.T, c Config) *bench {
	start := mono.Time(0)
	b := &bench{t: t, j: New(c, start), now: start}
	b.run(mono.Second)
	return b
}

func (b *bench) note(v Verdict, changed bool) {
	if changed {
		b.said = append(b.said, fmt.Sprintf("%v %v %s", b.now, v.State, v.Cause))
	}
}

// run lets time pass.
func (b *bench) run(d mono.Dur) {
	for end := b.now.Add(d); b.now < end; {
		b.now = b.now.Add(500 * ms)
		if b.mute {
			b.note(b.j.Tick(b.now))
			continue
		}
		f := b.f
		b.note(b.j.Observe(b.now, &f))
	}
}

func (b *bench) xid(code uint64) { b.note(b.j.XID(b.now, code)) }

// want is the state, and a word of the cause.
func (b *bench) want(s State, word string) {
	b.t.Helper()
	if v := b.j.Verdict(); v.State != s || !strings.Contains(v.Cause, word) || (s == Healthy) != (v.Cause == "") {
		b.t.Fatalf("at %v: %v %q, want %v with %q; said:\n%s", b.now, v.State, v.Cause, s, word, strings.Join(b.said, "\n"))
	}
}

func (b *bench) wantRemedy(r Remedy) {
	b.t.Helper()
	if v := b.j.Verdict(); v.Remedy != r {
		b.t.Fatalf("at %v: remedy %v, want %v (%s)", b.now, v.Remedy, r, v.Cause)
	}
}

// Each cause leads to its verdict within two seconds, and to the remedy that it needs; and
// where it ends by itself, the GPU is back after the hold.
func TestReactions(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		break_ func(b *bench)
		state  State
		word   string
		remedy Remedy
		heal   func(b *bench)
		after  mono.Dur // that it takes at most to be healthy; 0: it stays
	}{
		{"hardware slowdown", Config{}, throttle(HWSlowdown), Out, "hardware slowdown", Wait, throttle(0), 8 * mono.Second},
		{"hardware thermal", Config{}, throttle(HWSlowdown | HWThermal), Out, "hardware thermal", Wait, throttle(0), 8 * mono.Second},
		{"software thermal", Config{}, throttle(SWThermal), Out, "software thermal", Wait, throttle(0), 8 * mono.Second},
		{"power brake", Config{}, throttle(HWSlowdown | PowerBrake), Out, "power brake", Wait, throttle(0), 8 * mono.Second},
		{"throttling only warns", Config{ThrottleWarns: true}, throttle(SWThermal), Warn, "software thermal", Wait, throttle(0), 3 * mono.Second},
		{"fallen off the bus", Config{}, func(b *bench) { b.f.Gone = "it is lost" }, Out, "it is lost", Reset, func(b *bench) { b.f.Gone = "" }, 6 * mono.Second},
		{"silence", Config{}, func(b *bench) { b.mute = true }, Warn, "not answered", Wait, func(b *bench) { b.mute = false }, mono.Second},
		{"uncorrectable error counted", Config{}, func(b *bench) { b.f.Uncorrected += 2 }, Out, "2 uncorrectable", NewContext, func(*bench) {}, 70 * mono.Second},
		{"row not remapped", Config{}, func(b *bench) { b.f.RemapFailed = true }, Out, "could not be remapped", Reset, nil, 0},
		{"row to be remapped", Config{}, func(b *bench) { b.f.RemapPending = true }, Warn, "to be remapped", Wait, func(b *bench) { b.f.RemapPending = false }, mono.Second},
		{"others", Config{}, func(b *bench) { b.f.Others = "process 7" }, Warn, "process 7", Wait, func(b *bench) { b.f.Others = "" }, 5 * mono.Second},
		{"others, out", Config{OthersOut: true}, func(b *bench) { b.f.Others = "process 7" }, Out, "process 7", Wait, func(b *bench) { b.f.Others = "" }, 10 * mono.Second},
		{"XID 13", Config{}, xid(13), Out, "XID 13", NewContext, func(*bench) {}, 7 * mono.Second},
		{"XID 31", Config{}, xid(31), Out, "XID 31", NewContext, func(*bench) {}, 7 * mono.Second},
		{"XID 43", Config{}, xid(43), Out, "XID 43", NewContext, func(*bench) {}, 7 * mono.Second},
		{"XID 45", Config{}, xid(45), Out, "XID 45", NewContext, func(*bench) {}, 7 * mono.Second},
		{"XID 48", Config{}, xid(48), Out, "XID 48", NewContext, func(*bench) {}, 70 * mono.Second},
		{"XID 94", Config{}, xid(94), Out, "contained", NewContext, func(*bench) {}, 70 * mono.Second},
		{"XID 64", Config{}, xid(64), Out, "XID 64", Reset, nil, 0},
		{"XID 74", Config{}, xid(74), Out, "NVLink", Reset, nil, 0},
		{"XID 79", Config{}, xid(79), Out, "off the bus", Reset, nil, 0},
		{"XID 95", Config{}, xid(95), Out, "uncontained", Reset, nil, 0},
		{"XID 63", Config{}, xid(63), Warn, "XID 63", Wait, func(*bench) {}, 62 * mono.Second},
		{"XID unknown", Config{}, xid(9999), Warn, "XID 9999", Wait, func(*bench) {}, 62 * mono.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, c.config)
			b.want(Healthy, "")
			c.break_(b)
			b.run(2 * mono.Second)
			b.want(c.state, c.word)
			b.wantRemedy(c.remedy)
			if c.heal == nil {
				b.run(1000 * mono.Second)
				b.want(c.state, c.word)
				return
			}
			c.heal(b)
			b.run(c.after)
			b.want(Healthy, "")
			if n := len(b.said); n > 3 {
				t.Errorf("%d verdicts for one event:\n%s", n, strings.Join(b.said, "\n"))
			}
		})
	}
}

func throttle(r Reasons) func(b *bench) { return func(b *bench) { b.f.Throttle = r } }
func xid(code uint64) func(b *bench)    { return func(b *bench) { b.xid(code) } }

// A moment of slowdown, as when clocks change, is nothing; one that comes every second
// sample is, after a while.
func TestThrottlingMustLast(t *testing.T) {
	b := newBench(t, Config{})
	for range 20 {
		b.f.Throttle = HWSlowdown
		b.run(500 * ms)
		b.f.Throttle = 0
		b.run(2 * mono.Second)
	}
	b.want(Healthy, "")
	for range 8 {
		b.f.Throttle = HWSlowdown
		b.run(500 * ms)
		b.f.Throttle = 0
		b.run(500 * ms)
	}
	b.want(Out, "slowdown")
}

// One look after a long time shows nothing that lasts.
func TestOneLookIsNoProof(t *testing.T) {
	b := newBench(t, Config{Silence: 100 * mono.Second})
	b.mute = true
	b.run(50 * mono.Second)
	b.mute, b.f.Throttle = false, HWThermal
	b.run(500 * ms)
	b.want(Healthy, "")
	b.run(500 * ms)
	b.want(Out, "thermal")
}

// The power limit is met every day: it is said when it lasts, and never ends service.
func TestPowerCapWarns(t *testing.T) {
	b := newBench(t, Config{})
	b.f.Throttle = PowerCap
	b.run(5 * mono.Second)
	b.want(Healthy, "")
	b.run(10 * mono.Second)
	b.want(Warn, "power limit")
	for range 100 { // it comes and goes: one line
		b.f.Throttle ^= PowerCap
		b.run(500 * ms)
	}
	b.want(Warn, "power limit")
	if len(b.said) != 1 {
		t.Errorf("said:\n%s", strings.Join(b.said, "\n"))
	}
}

// Who relapses stays out for longer each time, and is forgiven after a long time.
func TestBackOff(t *testing.T) {
	b := newBench(t, Config{})
	outFor := func() mono.Dur {
		b.f.Throttle = HWThermal
		b.run(2 * mono.Second)
		b.want(Out, "thermal")
		b.f.Throttle = 0
		from := b.now
		for b.j.Verdict().State == Out {
			b.run(500 * ms)
			if b.now.Sub(from) > 400*mono.Second {
				t.Fatal("it never returns")
			}
		}
		return b.now.Sub(from)
	}
	last := outFor()
	for range 4 {
		b.run(3 * mono.Second)
		span := outFor()
		if span < 2*last-3*mono.Second {
			t.Fatalf("out for %v after %v", span, last)
		}
		last = span
	}
	for range 4 {
		last = outFor()
	}
	if last > 305*mono.Second {
		t.Errorf("out for %v: above the bound", last)
	}
	b.run(601 * mono.Second)
	if span := outFor(); span > 8*mono.Second {
		t.Errorf("out for %v after ten good minutes", span)
	}
}

// A new reason in the hold begins it anew.
func TestHoldBeginsAnew(t *testing.T) {
	b := newBench(t, Config{})
	b.xid(31)
	b.run(5 * mono.Second)
	b.want(Out, "XID 31")
	b.xid(13)
	b.run(5 * mono.Second)
	b.want(Out, "XID 13")
	b.run(2 * mono.Second)
	b.want(Healthy, "")
}

// What ends a context of somebody else may not have touched ours: CUDA knows.
func TestApplicationErrorBesideOthers(t *testing.T) {
	b := newBench(t, Config{})
	b.f.Others = "process 7"
	b.run(2 * mono.Second)
	b.f.Others = "" // it crashes, and is gone before its error is told
	b.run(mono.Second)
	b.xid(31)
	b.want(Warn, "XID 31")
	b.run(100 * mono.Second)
	b.xid(31)
	b.want(Out, "XID 31")
}

// The second uncorrectable error within an hour needs a reset. Count and XID of one error
// are one.
func TestMemoryErrors(t *testing.T) {
	b := newBench(t, Config{})
	b.xid(48)
	b.f.Uncorrected++
	b.run(mono.Second)
	b.xid(94)
	b.run(mono.Second)
	b.wantRemedy(NewContext)
	b.run(70 * mono.Second)
	b.want(Healthy, "")

	b.f.Uncorrected++
	b.run(mono.Second)
	b.want(Out, "second within an hour")
	b.wantRemedy(Reset)
	b.run(4000 * mono.Second)
	b.want(Out, "second within an hour")

	b.f.Uncorrected = 0 // a reset clears the counter
	b.run(20 * mono.Second)
	b.want(Healthy, "")
}

// What was counted before we came is no event.
func TestOldErrors(t *testing.T) {
	b := newBench(t, Config{})
	b.j = New(Config{}, b.now)
	b.f.Uncorrected = 17
	b.run(5 * mono.Second)
	b.want(Healthy, "")
	b.f.Uncorrected = -1 // unknown for a while
	b.run(mono.Second)
	b.f.Uncorrected = 17
	b.run(mono.Second)
	b.want(Healthy, "")
	b.f.Uncorrected = 18
	b.run(mono.Second)
	b.want(Out, "1 uncorrectable memory errors (18")
}

// A fatal XID is healed by nothing but a reset, which shows as absence.
func TestFatalUntilReset(t *testing.T) {
	b := newBench(t, Config{})
	b.xid(95)
	b.run(4000 * mono.Second)
	b.want(Out, "XID 95")
	b.f.Gone = "it is lost"
	b.run(5 * mono.Second)
	b.want(Out, "it is lost")
	b.f.Gone = ""
	b.run(6 * mono.Second)
	b.want(Healthy, "")
}

// Silence is a warning, then out; a GPU that NVML never knew is not out for that.
func TestSilence(t *testing.T) {
	b := newBench(t, Config{})
	b.mute = true
	b.run(3 * mono.Second)
	b.want(Warn, "not answered")
	b.note(b.j.Missed(b.now, "timeout"))
	b.run(8 * mono.Second)
	b.want(Out, "timeout")
	b.mute = false
	b.run(6 * mono.Second)
	b.want(Healthy, "")

	b = &bench{t: t, j: New(Config{}, b.now), now: b.now, f: Facts{Gone: "not in the list"}}
	b.run(100 * mono.Second)
	b.want(Warn, "not watched")
	b.f.Gone = ""
	b.run(mono.Second)
	b.want(Healthy, "")
}

// While out, a flood of errors is a line a second at most, and the larger remedy stays.
func TestFlood(t *testing.T) {
	b := newBench(t, Config{})
	for i := range 10_000 {
		b.now = b.now.Add(ms)
		b.xid([]uint64{13, 31, 43, 45, 63, 92, 9999}[i%7])
	}
	if n := len(b.said); n > 12 {
		t.Errorf("%d lines in 10 s", n)
	}
	b.want(Out, "XID")
	b.f.Throttle = HWThermal
	b.run(3 * mono.Second)
	b.want(Out, "thermal")
	b.wantRemedy(NewContext)
}

// Every code has words, and the causes name it.
func TestExplain(t *testing.T) {
	for code := range uint64(300) {
		if what, e := Explain(code); what == "" || e > NeedsReset {
			t.Errorf("XID %d: %q, %d", code, what, e)
		}
	}
	for code, want := range map[uint64]Effect{13: ContextLost, 31: ContextLost, 43: ContextLost, 45: ContextLost, 109: ContextLost,
		48: MemoryError, 94: MemoryError, 64: NeedsReset, 74: NeedsReset, 79: NeedsReset, 95: NeedsReset, 119: NeedsReset, 63: Noted, 92: Noted, 68: Noted, 0: Noted} {
		if _, e := Explain(code); e != want {
			t.Errorf("XID %d: %d, want %d", code, e, want)
		}
	}
}

func TestReasons(t *testing.T) {
	for r, want := range map[Reasons]string{0: "none", HWSlowdown | HWThermal: "hardware thermal slowdown", HWSlowdown: "hardware slowdown",
		PowerCap | Idle: "power cap, idle", HWSlowdown | PowerBrake | SWThermal: "power brake, software thermal slowdown", 1 << 40: "none"} {
		if got := r.String(); got != want {
			t.Errorf("%#x: %q, want %q", uint64(r), got, want)
		}
	}
}
