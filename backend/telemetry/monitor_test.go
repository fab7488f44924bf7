package telemetry_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/telemetry"
	"github.com/symphony-serving/symphony/backend/telemetry/fakenvml"
	"github.com/symphony-serving/symphony/backend/telemetry/health"
	"github.com/symphony-serving/symphony/transport/mono"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	soon = 20 * time.Second // a generous bound: the machine may stand still
	gpu0 = "GPU-00000000-0000-0000-0000-000000000000"
	gpu1 = "GPU-00000001-0000-0000-0000-000000000000"
)

// rig is a Monitor over a fake, with all that it says.
type rig struct {
	t        *testing.T
	fake     *fakenvml.Fake
	m        *telemetry.Monitor
	registry *prometheus.Registry
	log      *lines
	verdicts map[string]chan health.Verdict
}

// lines is a log, safe to read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(word string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, word) {
			n++
		}
	}
	return n
}

// quick judges as in service, but a hundred times faster, with a silence that a machine
// under load does not reach.
func quick() health.Config {
	return health.Config{Throttle: 10 * mono.Millisecond, Hold: 50 * mono.Millisecond, Probation: 50 * mono.Millisecond, Others: 10 * mono.Millisecond, Silence: 20 * mono.Second}
}

func start(t *testing.T, fake *fakenvml.Fake, change func(c *telemetry.Config)) *rig {
	t.Helper()
	r := &rig{t: t, fake: fake, registry: prometheus.NewRegistry(), log: &lines{}, verdicts: map[string]chan health.Verdict{}}
	c := telemetry.Config{NVML: fake, Interval: 5 * mono.Millisecond, Health: quick(), Logger: zerolog.New(r.log), Metrics: r.registry}
	if change != nil {
		change(&c)
	}
	var err error
	if r.m, err = telemetry.Start(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.m.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, d := range r.m.Devices() {
		got := make(chan health.Verdict, 1000)
		r.verdicts[d.UUID] = got
		if !r.m.Watch(d.UUID, func(v health.Verdict) { got <- v }) {
			t.Fatalf("%s is not watched", d.UUID)
		}
	}
	return r
}

// await is the next verdict of a state; others before it are let go.
func (r *rig) await(uuid string, s health.State, word string) health.Verdict {
	r.t.Helper()
	limit := time.After(soon)
	for {
		select {
		case v := <-r.verdicts[uuid]:
			if v.State == s && strings.Contains(v.Cause, word) {
				return v
			}
		case <-limit:
			r.t.Fatalf("no verdict %v with %q; the log:\n%s", s, word, r.log.text.String())
		}
	}
}

// quiet says that no verdict came.
func (r *rig) quiet(uuid string) {
	r.t.Helper()
	select {
	case v := <-r.verdicts[uuid]:
		r.t.Errorf("%s: %v %s", uuid, v.State, v.Cause)
	default:
	}
}

// sampled waits until a device was asked some times more.
func (r *rig) sampled(uuid string, times int) {
	r.t.Helper()
	for limit, until := time.Now().Add(soon), r.fake.Asked(uuid)+times; r.fake.Asked(uuid) < until; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			r.t.Fatal("it is not asked any more")
		}
	}
}

// Throttling, memory errors, XIDs and a vanished GPU lead to a verdict, and to service
// again when they are over; the neighbour is not touched by any of it.
func TestReactions(t *testing.T) {
	fake := fakenvml.New(fakenvml.GPU(0), fakenvml.GPU(1))
	r := start(t, fake, nil)
	r.sampled(gpu0, 3)
	r.quiet(gpu0)

	fake.Set(gpu0, func(s *telemetry.Sample) {
		s.Throttle, s.Temperature = telemetry.Known(health.HWThermal), telemetry.Known(93)
	})
	if v := r.await(gpu0, health.Out, "hardware thermal slowdown"); !strings.Contains(v.Cause, "93 C") || v.Remedy != health.Wait {
		t.Error(v)
	}
	fake.Set(gpu0, func(s *telemetry.Sample) { s.Throttle = telemetry.Known(health.Idle) })
	r.await(gpu0, health.Healthy, "")

	fake.Set(gpu0, func(s *telemetry.Sample) { s.UncorrectedVolatile.Value++ })
	if v := r.await(gpu0, health.Out, "uncorrectable"); v.Remedy != health.NewContext {
		t.Error(v)
	}
	r.await(gpu0, health.Healthy, "")

	fake.XID(gpu0, 31)
	if v := r.await(gpu0, health.Out, "XID 31"); v.Remedy != health.NewContext {
		t.Error(v)
	}
	r.await(gpu0, health.Healthy, "")

	fake.XID(gpu0, 79)
	fake.Vanish(gpu0)
	if v := r.await(gpu0, health.Out, "fallen off the bus"); v.Remedy != health.Reset {
		t.Error(v)
	}
	if _, ok := r.m.Sample(gpu0); ok && r.fake.Asked(gpu0) > 0 {
		r.await(gpu0, health.Out, "it has fallen off the bus")
	}
	fake.Return(gpu0)
	r.await(gpu0, health.Healthy, "")
	if s, ok := r.m.Sample(gpu1); !ok || s.Temperature.Value != 34 {
		t.Error(s, ok)
	}
	r.quiet(gpu1)
	if n := r.log.count("out of service"); n < 4 || n > 8 {
		t.Errorf("%d lines for four times out of service:\n%s", n, r.log.text.String())
	}
}

// With the intervals of service a reaction takes less than two seconds of NVML's and the
// judge's time: two samples. (The clock's reading is not asserted, but the samples'.)
func TestReactionInService(t *testing.T) {
	fake := fakenvml.New(fakenvml.GPU(0))
	r := start(t, fake, func(c *telemetry.Config) { c.Interval, c.Health = 0, health.Config{} })
	r.sampled(gpu0, 1)
	before := fake.Asked(gpu0)
	fake.Set(gpu0, func(s *telemetry.Sample) { s.Throttle = telemetry.Known(health.PowerBrake) })
	r.await(gpu0, health.Out, "power brake")
	if n := fake.Asked(gpu0) - before; n > 4 {
		t.Errorf("%d samples of 500 ms until the verdict: more than 2 s", n)
	}
}

// A device that hangs in the driver is silent: a warning, then out; the others go on.
func TestHang(t *testing.T) {
	fake := fakenvml.New(fakenvml.GPU(0), fakenvml.GPU(1))
	r := start(t, fake, func(c *telemetry.Config) { c.Health.Silence = 40 * mono.Millisecond })
	r.sampled(gpu0, 2)
	release := fake.Hang(gpu0)
	r.await(gpu0, health.Out, "not answered")
	r.sampled(gpu1, 5)
	release()
	r.await(gpu0, health.Healthy, "")

	fake.Fail(gpu0, errors.New("unknown error"))
	r.await(gpu0, health.Out, "unknown error")
	fake.Fail(gpu0, nil)
	r.await(gpu0, health.Healthy, "")
}

// Close does not wait for ever for a driver that hangs, and says so.
func TestCloseWhileItHangs(t *testing.T) {
	fake := fakenvml.New(fakenvml.GPU(0))
	m, err := telemetry.Start(telemetry.Config{NVML: fake, Interval: 5 * mono.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	release := fake.Hang(gpu0)
	for before := -1; before != fake.Asked(gpu0); time.Sleep(50 * time.Millisecond) {
		before = fake.Asked(gpu0)
	}
	if err := m.Close(); err == nil {
		t.Error("closed as if nothing were left")
	}
	release() // goleak sees that the goroutine ends then
	if err := m.Close(); err == nil {
		t.Error("the second Close forgot")
	}
}

// A process that is not ours is said, and ends service only where it is configured so.
func TestOthers(t *testing.T) {
	own := telemetry.Process{PID: os.Getpid(), Memory: telemetry.Known[uint64](1 << 30)}
	parent := telemetry.Process{PID: os.Getppid(), Memory: telemetry.Known[uint64](3174 << 20)}
	for _, out := range []bool{false, true} {
		fake := fakenvml.New(fakenvml.GPU(0))
		fake.Set(gpu0, func(s *telemetry.Sample) { s.Processes.Value = []telemetry.Process{own} })
		r := start(t, fake, func(c *telemetry.Config) { c.Health.OthersOut = out })
		r.sampled(gpu0, 3)
		r.quiet(gpu0)
		fake.Set(gpu0, func(s *telemetry.Sample) { s.Processes.Value = []telemetry.Process{own, parent} })
		name, _ := telemetry.ProcessName(parent.PID)
		want := health.Warn
		if out {
			want = health.Out
		}
		r.await(gpu0, want, fmt.Sprintf("process %d (%s, 3174 MiB)", parent.PID, name))
		fake.Set(gpu0, func(s *telemetry.Sample) { s.Processes.Value = []telemetry.Process{own} })
		r.await(gpu0, health.Healthy, "")
	}
}

// Errors of a MIG instance concern it alone, those of its GPU all instances.
func TestMIG(t *testing.T) {
	gpu := fakenvml.GPU(0)
	gpu.MIG = true
	a, b := fakenvml.Instance(gpu, 1), fakenvml.Instance(gpu, 2)
	fake := fakenvml.New(gpu, a, b)
	r := start(t, fake, func(c *telemetry.Config) { c.Devices = []string{b.UUID, a.UUID} })
	if d := r.m.Devices(); len(d) != 2 || d[0].UUID != a.UUID {
		t.Fatal(d)
	}
	fake.InstanceXID(gpu.UUID, 2, 13)
	r.await(b.UUID, health.Out, "XID 13")
	r.await(b.UUID, health.Healthy, "")
	r.quiet(a.UUID)
	fake.XID(gpu.UUID, 95)
	r.await(a.UUID, health.Out, "XID 95")
	r.await(b.UUID, health.Out, "XID 95")
}

// Who is watched late hears what is wrong at once; who is not there is told.
func TestWatch(t *testing.T) {
	fake := fakenvml.New(fakenvml.GPU(0))
	r := start(t, fake, func(c *telemetry.Config) { c.Devices = []string{gpu0, "GPU-none"} })
	if v := r.await("GPU-none", health.Warn, "not watched"); v.Remedy != health.Wait {
		t.Error(v)
	}
	fake.XID(gpu0, 64)
	r.await(gpu0, health.Out, "XID 64")
	late := make(chan health.Verdict, 10)
	r.m.Watch(gpu0, func(v health.Verdict) { late <- v })
	select {
	case v := <-late:
		if v.State != health.Out {
			t.Error(v)
		}
	case <-time.After(soon):
		t.Error("not told what it is now")
	}
	if v, ok := r.m.Verdict(gpu0); !ok || v.State != health.Out {
		t.Error(v, ok)
	}
	if r.m.Watch(gpu1, func(health.Verdict) {}) {
		t.Error("a device that is not watched")
	}
	if _, ok := r.m.Verdict(gpu1); ok {
		t.Error("a device that is not watched")
	}
}

// Where XIDs cannot be had that is a line, and the rest goes on; an error that passes is
// a line, too.
func TestNoXIDs(t *testing.T) {
	fake := fakenvml.New(fakenvml.GPU(0))
	fake.NoXIDs(&telemetry.UnsupportedError{What: "no events", Need: "nothing"})
	r := start(t, fake, nil)
	r.sampled(gpu0, 10)
	if n := r.log.count("XIDs"); n != 1 {
		t.Errorf("%d lines", n)
	}
	fake.Set(gpu0, func(s *telemetry.Sample) { s.Throttle = telemetry.Known(health.HWSlowdown) })
	r.await(gpu0, health.Out, "slowdown")

	fake = fakenvml.New(fakenvml.GPU(0))
	fake.NoXIDs(errors.New("for a while"))
	r = start(t, fake, nil)
	r.sampled(gpu0, 10)
	fake.NoXIDs(nil)
	fake.XID(gpu0, 79)
	r.await(gpu0, health.Out, "XID 79")
	if n := r.log.count("for a while"); n != 1 {
		t.Errorf("%d lines", n)
	}
}

// Without NVML there is no Monitor, and the reason is the library's.
func TestAbsent(t *testing.T) {
	fake := fakenvml.New()
	fake.Absent(&telemetry.UnsupportedError{What: "libnvidia-ml.so.1 is not here", Need: "install it"})
	if _, err := telemetry.Start(telemetry.Config{NVML: fake}); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
