package rdmalink

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/wire"
)

// wheel makes links and ends them: two hosts, a listener on one.
type wheel struct {
	fabric   *fakeverbs.Fabric
	nics     [2]*rdma.NIC
	nets     [2]*Network
	listener transport.Listener
	accepted atomic.Int64 // links at the listener that have ended
}

// end is a Handler that waits for the first frame, and for the end.
type end struct {
	wheel  *wheel // of an accepted link; else nil
	frame  chan struct{}
	closed chan error
}

func (*end) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

func (e *end) Receive(l transport.Link, f transport.Frame) {
	if e.wheel != nil {
		_ = l.Send((&wire.Leave{Epoch: 2}).Append(nil))
		return
	}
	e.frame <- struct{}{}
}

func (e *end) Closed(_ transport.Link, err error) {
	if e.wheel != nil {
		e.wheel.accepted.Add(1)
		return
	}
	e.closed <- err
}

func newWheel() (*wheel, error) {
	w := &wheel{fabric: fakeverbs.New(fakeverbs.Config{})}
	for i, host := range []string{"a", "b"} {
		var err error
		if w.nics[i], err = rdma.Open(w.fabric.Host(host), rdma.Config{GIDIndex: -1}); err != nil {
			return nil, err
		}
		w.nets[i] = New(Config{TCP: tcp.New(), NIC: w.nics[i]})
	}
	var err error
	w.listener, err = w.nets[1].Listen("tcp:127.0.0.1:0", transport.Options{Hello: wire.Hello{Role: wire.RoleScheduler}},
		func(wire.Hello) (transport.Handler, error) { return &end{wheel: w}, nil })
	return w, err
}

func (w *wheel) close() error {
	errs := []error{w.listener.Close()}
	for i := range w.nets {
		errs = append(errs, w.nets[i].Close(), w.nics[i].Close())
	}
	if open := w.fabric.Open(); open != (fakeverbs.Counts{}) {
		errs = append(errs, fmt.Errorf("left open: %+v", open))
	}
	return errors.Join(errs...)
}

// turn is one cycle: a link whose lane comes up, a frame there and one back, the
// end. e is the dialler's handler, used again.
func (w *wheel) turn(t testing.TB, e *end) error {
	l, err := w.nets[0].Dial(t.Context(), w.listener.Address(), transport.Options{Hello: wire.Hello{Role: wire.RoleBackend}}, e)
	if err != nil {
		return err
	}
	if err = l.Send((&wire.Leave{Epoch: 1}).Append(nil)); err == nil {
		<-e.frame
	}
	l.Close(nil)
	if why := <-e.closed; !errors.Is(why, transport.ErrClosed) {
		err = errors.Join(err, why)
	}
	return err
}

func newEnd() *end { return &end{frame: make(chan struct{}, 1), closed: make(chan error, 1)} }

// footprint is what this process holds. maps leaves out those of threads: a busy machine has the runtime begin more of them.
type footprint struct {
	maps, resident, goroutines, threads int
}

// mapsOfThread is how many mappings the C library makes for one: stack and arena, and what guards each.
const mapsOfThread = 4

func measure(t *testing.T) footprint {
	t.Helper()
	runtime.GC()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	f := footprint{maps: bytes.Count(maps, []byte("\n")), goroutines: runtime.NumGoroutine()}
	for line := range strings.Lines(string(status)) {
		fmt.Sscanf(line, "VmRSS: %d kB", &f.resident)
		fmt.Sscanf(line, "Threads: %d", &f.threads)
	}
	f.maps -= mapsOfThread * f.threads
	return f
}

// Links that come and go for a long time leave nothing behind: no object of the
// device, no memory, no goroutine. Each lane came up and carried frames.
func TestCycles(t *testing.T) {
	cycles, limit := int64(5000), 180*time.Second
	if testing.Short() {
		cycles = 500
	} else if raced() {
		cycles = 2000
	}
	w, err := newWheel()
	if err != nil {
		t.Fatal(err)
	}
	run := func(n int64) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for e := newEnd(); atomic.AddInt64(&n, -1) >= 0; {
					if err := w.turn(t, e); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	}
	settled := func(want int64) { // the listener's ends have ended, too
		for begin := time.Now(); w.accepted.Load() != want; time.Sleep(time.Millisecond) {
			if time.Since(begin) > 10*time.Second {
				t.Fatalf("%d of %d links have ended at the listener; open: %+v", w.accepted.Load(), want, w.fabric.Open())
			}
		}
		// A NIC keeps its CQ: one for all these lanes.
		if open := w.fabric.Open(); open != (fakeverbs.Counts{Devices: 2, Channels: 2, CQs: 2}) {
			t.Errorf("open after %d links: %+v", want, open)
		}
	}
	const first = 100 // until everything that grows once has grown
	run(first)
	settled(first)
	a := measure(t)
	begin := time.Now()
	run(cycles)
	took := time.Since(begin)
	settled(first + cycles)
	b := measure(t)
	t.Logf("%d cycles in %v; before %+v, after %+v", cycles, took, a, b)
	if took > limit {
		t.Errorf("%d cycles took %v", cycles, took)
	}
	// One mapping per 250 cycles would be seen, and two KiB per cycle.
	if b.goroutines > a.goroutines+5 || !raced() && (b.maps > a.maps+20 || b.resident > a.resident+(8<<10)) {
		t.Errorf("before %+v, after %d cycles %+v", a, cycles, b)
	}
	for i, n := range w.nets {
		// The listener's answer may be ahead of the word that the lane is up: over TCP, then.
		if st := n.Stats(); st.LanesUp != first+cycles || st.LinksRDMA != 0 || st.LinksTCP != 0 || i == 0 && st.Sends < uint64(cycles) {
			t.Errorf("network %d: %+v", i, st)
		}
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
}

// BenchmarkCycle is one link: dialled, its lane brought up, a frame there and back,
// closed.
func BenchmarkCycle(b *testing.B) {
	w, err := newWheel()
	if err != nil {
		b.Fatal(err)
	}
	e := newEnd()
	b.ReportAllocs()
	for b.Loop() {
		if err := w.turn(b, e); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		b.Error(err)
	}
}

// threadStack is what the C library maps for a thread: they come and go.
const threadStack = 8 << 20

// mapped is how many bytes of this process's address space can be written and are
// not the Go runtime's. (What is only reserved, as a thread's share for malloc, does
// not count.)
func mapped(t testing.TB) int {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	sum := 0
	for line := range strings.Lines(string(b)) {
		var from, to int
		var rights string
		fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights)
		if rights == "rw-p" && to-from != threadStack {
			sum += to - from
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return sum - int(m.Sys)
}

// raced reports whether the race detector is on, which maps memory of its own.
func raced() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
