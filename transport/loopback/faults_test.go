package loopback_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/transporttest"
	"github.com/symphony-serving/symphony/transport/wire"
)

// The suite holds on a slow network too.
func TestConformanceDelayed(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transporttest.Fixture {
		n := loopback.NewFaulty(loopback.Faults{Seed: 1, DelayMin: 200 * mono.Microsecond, DelayMax: mono.Millisecond})
		return transporttest.Fixture{Network: n, Address: "inproc:", Cable: func(t *testing.T, address string) transporttest.Cable {
			return cable{n, address}
		}}
	})
}

// A delay is what the heartbeats measure, and Shift stays exactly 0.
func TestDelayIsMeasured(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	const delay = 5 * mono.Millisecond
	n := loopback.NewFaulty(loopback.Faults{DelayMin: delay, DelayMax: delay})
	s, l, mine := join(t, n)
	transporttest.Until(t, "samples", func() bool { return l.Stats().Samples >= 3 })
	if st := l.Stats(); st.RTT < 2*delay || st.DelayBound < delay || l.Shift() != 0 {
		t.Errorf("%+v, shift %v", st, l.Shift())
	}
	l.Close(nil)
	mine.AwaitClosed(t)
	s.Close()
}

func join(t *testing.T, n *loopback.Network) (transport.Listener, transport.Link, *transporttest.Recorder) {
	t.Helper()
	o := transport.Options{Hello: wire.Hello{Role: wire.RoleScheduler}, Heartbeat: 10 * mono.Millisecond}
	s, err := n.Listen("inproc:x", o, func(wire.Hello) (transport.Handler, error) { return transporttest.NewRecorder(), nil })
	if err != nil {
		t.Fatal(err)
	}
	mine := transporttest.NewRecorder()
	l, err := n.Dial(t.Context(), "inproc:x", o, mine)
	if err != nil {
		t.Fatal(err)
	}
	return s, l, mine
}

// Links that break at random: what arrives is a prefix of what was sent, each
// payload is released once, and the keeper brings the next link up.
func TestBreaks(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	n := loopback.NewFaulty(loopback.Faults{Seed: seed, Break: 0.02})
	o := transport.Options{Hello: wire.Hello{Role: wire.RoleScheduler}}
	s, err := n.Listen("inproc:x", o, func(wire.Hello) (transport.Handler, error) { return transporttest.NewRecorder(), nil })
	if err != nil {
		t.Fatal(err)
	}
	lives := make(chan error, 100)
	k := transport.KeepWith(t.Context(), transport.KeepConfig{Network: n, Address: "inproc:x", Options: o, Handler: transporttest.NewRecorder(), Seed: seed,
		OnDown: func(err error) { lives <- err }})
	var payloads, released int
	back := make(chan struct{}, 1<<16)
	for ended := 0; ended < 3; {
		frame := (&wire.Output{}).Append(nil, 10)
		if l := k.Link(); l != nil {
			payloads++
			l.SendPayload(frame, make([]byte, 10), func() { back <- struct{}{} })
		}
		time.Sleep(100 * time.Microsecond)
		select {
		case err := <-lives:
			ended++
			if !errors.Is(err, transport.ErrClosed) {
				t.Errorf("a link ended with %v", err)
			}
		default:
		}
	}
	k.Close()
	s.Close()
	for len(back) > 0 {
		<-back
		released++
	}
	if released != payloads {
		t.Errorf("%d of %d payloads released", released, payloads)
	}
}

// A name is one listener's, and a network one's own.
func TestNames(t *testing.T) {
	n := loopback.New()
	accept := func(wire.Hello) (transport.Handler, error) { return nil, errors.New("no") }
	s, err := n.Listen("inproc:a", transport.Options{}, accept)
	if err != nil || s.Address() != "inproc:a" {
		t.Fatal(s, err)
	}
	if _, err := n.Listen("inproc:a", transport.Options{}, accept); err == nil {
		t.Error("two listeners of one name")
	}
	if _, err := loopback.New().Dial(t.Context(), "inproc:a", transport.Options{}, nil); !errors.Is(err, transport.ErrUnreachable) {
		t.Errorf("another network's name: %v", err)
	}
	a, _ := n.Listen("inproc:", transport.Options{}, accept)
	b, _ := n.Listen("inproc:", transport.Options{}, accept)
	if a.Address() == b.Address() {
		t.Error("free names collide")
	}
}
