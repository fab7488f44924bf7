package drivertest

import (
	"bytes"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/cuda"
)

// Fixture is what the suite needs.
type Fixture struct {
	Driver cuda.Driver
	Device int // index
	// Execute makes what queues about 2 ms of execution, no copy, on a stream. nil: there
	// is nothing to execute, and overlap is that of copies alone.
	Execute func(t *testing.T, c cuda.Context, s cuda.Stream) func() error
	// Leaks says what was left open, nil: nothing. A nil Leaks: nobody can know.
	Leaks func() error
}

// Run passes a Driver through all cases.
func Run(t *testing.T, make func(t *testing.T) Fixture) {
	cases := []struct {
		name string
		run  func(*testing.T, Fixture)
	}{
		{"devices", testDevices}, {"bad index", testBadIndex}, {"one context", testOneContext},
		{"round trip", testRoundTrip}, {"order in a stream", testOrder}, {"waits across streams", testWaits},
		{"wait for no mark", testWaitForNothing}, {"marks", testMarks}, {"times", testTimes}, {"another thread waits", testThreads},
		{"two threads at once", testTwoThreads}, {"overlap", testOverlap}, {"turns", testTurns}, {"end of no capture", testEndCapture}, {"nothing on the heap", testHeap},
		{"memory", testMemory}, {"too much memory", testTooMuch}, {"pinned", testPinned}, {"registered", testRegistered},
		{"registered twice", testRegisteredTwice}, {"not pinned", testUnpinned}, {"a thousand rounds", testRounds},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ignore := goleak.IgnoreCurrent()
			f := make(t)
			t.Cleanup(func() { // runs after the case's own: all is closed
				if f.Leaks != nil {
					if err := f.Leaks(); err != nil {
						t.Errorf("left open: %v", err)
					}
				}
				goleak.VerifyNone(t, ignore)
			})
			c.run(t, f)
		})
	}
}

// rig is an open device; the test's goroutine keeps its thread, which has entered it.
// What it makes is closed when the test ends, and each failure ends the test.
type rig struct {
	t *testing.T
	f Fixture
	c cuda.Context
}

func open(t *testing.T, f Fixture) rig {
	t.Helper()
	c, err := f.Driver.Open(f.Device)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, c.Close()) })
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	must(t, c.Enter())
	return rig{t, f, c}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r rig) stream() cuda.Stream {
	r.t.Helper()
	s, err := r.c.NewStream(false)
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, s.Close()) })
	return s
}

func (r rig) event() cuda.Event {
	r.t.Helper()
	e, err := r.c.NewEvent()
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, e.Close()) })
	return e
}

func (r rig) events(n int) []cuda.Event {
	all := make([]cuda.Event, n)
	for i := range all {
		all[i] = r.event()
	}
	return all
}

func (r rig) alloc(n int64) cuda.Ptr {
	r.t.Helper()
	p, err := r.c.Alloc(n)
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, r.c.Free(p)) })
	return p
}

func (r rig) pinned(n int) []byte {
	r.t.Helper()
	m, err := r.c.HostAlloc(n)
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, r.c.HostFree(m)) })
	return m
}

// pattern fills memory with what tells places and seeds apart.
func pattern(m []byte, seed int) []byte {
	x := uint32(seed)*2654435761 + 12345
	for i := range m {
		x = x*1664525 + 1013904223
		m[i] = byte(x >> 24)
	}
	return m
}

func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		i := 0
		for i < min(len(got), len(want)) && got[i] == want[i] {
			i++
		}
		t.Fatalf("%s: %d and %d bytes differ from byte %d on", what, len(got), len(want), i)
	}
}
