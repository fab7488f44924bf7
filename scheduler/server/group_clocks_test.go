package server

import (
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Hosts whose clocks are an hour fast or slow: who takes over has the higher reign all the same, from
// leaders that die and from those that stand still, and each request has its output.
func TestClocksApart(t *testing.T) {
	s := newScene(t, 3, 2, 2, single("m", 2*mono.Millisecond))
	reign := uint64(0)
	rises := func(it *member) {
		t.Helper()
		if now := it.current.Load().reign.Load(); now > reign {
			reign = now
		} else {
			t.Errorf("reign %d after %d", now, reign)
		}
	}
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, 0, time.Hour, -time.Hour} {
		it := s.settled()
		rises(it)
		s.ask(30, "m")
		it.kill()
		it.ahead = ahead // the clock jumps while it is away
		it.start()
		s.ask(30, "m")
		s.front.served("after the death of a leader")
	}
	for range 3 {
		it := s.settled()
		rises(it)
		it.host.pause(true)
		leader(t, without(s.all, it))
		s.ask(30, "m")
		s.front.served("while the old leader stands still")
		began := it.servers.Load()
		it.host.pause(false)
		until(t, "the old leader begins anew", func() bool { return it.servers.Load() > began })
	}
	s.settled()
}

// All schedulers die, and one comes back alone whose clock is behind the reigns before: it leads above
// what the backends have promised, though it hears of that from them alone.
func TestTheOnlyOneThatComesBackIsBehind(t *testing.T) {
	s := newScene(t, 2, 2, 2, single("m", 2*mono.Millisecond))
	it := s.settled()
	for _, m := range s.all {
		m.kill()
	}
	it.ahead = -time.Hour
	began := it.servers.Load()
	it.start()
	s.ask(30, "m")
	s.front.served("by the only one that came back")
	if n := it.servers.Load() - began; n > 4 { // the one that is overtaken by a promise, and the next; two to spare
		t.Errorf("it began %d times", n)
	}
}
