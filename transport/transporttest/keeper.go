package transporttest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A Keeper finds a listener that comes late, and finds it again when it went
// away and came back, without any help.
func testKeeper(t *testing.T, f Fixture) {
	o := options(wire.RoleScheduler, "s")
	greeted := NewRecorder()
	accept := func(wire.Hello) (transport.Handler, error) { return greeted, nil }
	s, err := f.Network.Listen(f.Address, o, accept)
	if err != nil {
		t.Fatal(err)
	}
	address := s.Address()
	s.Close()
	var ups, downs, fails atomic.Int64
	rec := NewRecorder()
	k := transport.KeepWith(t.Context(), transport.KeepConfig{Network: f.Network, Address: address, Options: options(wire.RoleFrontend, "f"),
		Handler: rec, Seed: 1,
		OnUp:   func(l transport.Link) { ups.Add(1); l.Send(answer(uint64(ups.Load()))) },
		OnDown: func(error) { downs.Add(1) }, OnFail: func(error) { fails.Add(1) }})
	Until(t, "a failed attempt", func() bool { return fails.Load() == 1 })
	if k.Link() != nil || !errors.Is(k.Send(answer(1)), transport.ErrClosed) {
		t.Error("a link before anybody listens")
	}
	for life := int64(1); life <= 3; life++ {
		if s, err = f.Network.Listen(address, o, accept); err != nil {
			t.Fatal(err)
		}
		Until(t, "the link", func() bool { return ups.Load() == life && k.Link() != nil })
		Until(t, "the first message", func() bool { return greeted.Count() == int(life) })
		s.Close()
		Until(t, "the end", func() bool { return downs.Load() == life })
		if k.Link() != nil {
			t.Error("a link after its end")
		}
	}
	k.Close()
	select {
	case <-k.Done():
	default:
		t.Error("Close returned before the keeper had ended")
	}
	if ups.Load() != 3 || downs.Load() != 3 {
		t.Errorf("%d ups, %d downs", ups.Load(), downs.Load())
	}
}

// A refusal is told once and asked about again and again; when the other side
// changes its mind the link comes up. Nothing is received before OnUp is over.
func testKeeperRefused(t *testing.T, f Fixture) {
	var refuse atomic.Bool
	var asked, upOver atomic.Int64
	refuse.Store(true)
	served := NewRecorder()
	s, err := f.Network.Listen(f.Address, options(wire.RoleScheduler, "s"), func(wire.Hello) (transport.Handler, error) {
		asked.Add(1)
		if refuse.Load() {
			return nil, errors.New("not yet")
		}
		return served, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	served.OnReceive(func(l transport.Link, _ transport.Frame) { l.Send(answer(5)) })
	rec := NewRecorder()
	early := false
	rec.OnReceive(func(transport.Link, transport.Frame) { early = upOver.Load() == 0 })
	var mu sync.Mutex
	var fails []error
	k := transport.Keep(f.Network, s.Address(), options(wire.RoleFrontend, "f"), rec, func(l transport.Link) {
		l.Send(answer(1))
		time.Sleep(20 * time.Millisecond) // the reply is there by now
		upOver.Add(1)
	}, func(err error) {
		mu.Lock()
		defer mu.Unlock()
		fails = append(fails, err)
	})
	Until(t, "several attempts", func() bool { return asked.Load() >= 3 })
	mu.Lock()
	if len(fails) != 1 || !errors.Is(fails[0], transport.ErrRejected) {
		t.Errorf("told of %d failures: %v", len(fails), fails)
	}
	mu.Unlock()
	refuse.Store(false)
	Until(t, "a reply", func() bool { return rec.Count() == 1 })
	k.Close()
	rec.AwaitClosed(t)
	if early {
		t.Error("a frame was received before OnUp was over")
	}
}
