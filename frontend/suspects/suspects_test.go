package suspects

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	ms    = mono.Millisecond
	start = mono.Time(mono.Second)
)

// tell notes what became of a request, as a frontend does.
func tell(t *Table, now mono.Time, k Keys, bad bool) wire.Suspicion {
	s, stranger := t.Grade(now, k)
	if bad {
		t.Failed(now, k, stranger)
	} else {
		t.Served(now, k, stranger)
	}
	return s
}

// A source whose requests all fail is a strong suspect after three; one that then succeeds is cleared, and so is one that
// has been silent for a while. Others are above suspicion throughout.
func TestACulprit(t *testing.T) {
	var table Table
	now := start
	for i := range 10 {
		now = now.Add(20 * ms)
		got := tell(&table, now, Keys{Source: 1, Input: uint64(100 + i)}, true)
		if want := wire.Suspicion(min(2, (i+1)/2)); i != 2 && got != want && i < 4 || i >= 4 && got != wire.SuspicionStrong {
			t.Errorf("request %d: %d", i, got)
		}
		if got := tell(&table, now, Keys{Source: 2, Input: 7}, false); i > 0 && got != wire.SuspicionNone {
			t.Errorf("another source: %d", got)
		}
	}
	for i := range 80 {
		now = now.Add(20 * ms)
		got := tell(&table, now, Keys{Source: 1, Input: 8}, false)
		if i > 20 && got == wire.SuspicionStrong || i > 60 && got != wire.SuspicionNone {
			t.Errorf("after %d that were served: %d", i, got)
		}
	}
	for range 10 {
		tell(&table, now, Keys{Source: 3}, true)
	}
	if got, _ := table.Grade(now.Add(60*mono.Second), Keys{Source: 3}); got != wire.SuspicionNone {
		t.Errorf("a minute later: %d", got)
	}
}

// A gateway is above suspicion for one bad request in a hundred, or ten, however many it sends.
func TestAGateway(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	for _, part := range []float64{0.01, 0.05} {
		for _, each := range []mono.Dur{100 * 1000, ms, 50 * ms} {
			var table Table
			now, strong, some := start, 0, 0
			const requests = 20_000
			for i := range requests {
				now = now.Add(each)
				switch s := tell(&table, now, Keys{Source: 1, Input: rnd.Uint64()}, rnd.Float64() < part); {
				case i < 32:
				case s == wire.SuspicionStrong:
					strong++
				case s == wire.SuspicionSome:
					some++
				}
			}
			if strong > 0 || some > requests/50 {
				t.Errorf("%v bad, one each %v: strong %d times, some %d", part, each, strong, some)
			}
		}
	}
}

// Clients share a proxy's connection, and one of them sends the same bad input many times as often as the others send
// good ones: the input is a strong suspect, and the connection is none.
func TestOneInputOnASharedConnection(t *testing.T) {
	var table Table
	now := start
	for i := range 500 {
		for range 16 {
			now = now.Add(ms)
			if s := tell(&table, now, Keys{Source: 1, Input: 99}, true); i > 0 && s != wire.SuspicionStrong {
				t.Fatalf("round %d: the input: %d", i, s)
			}
		}
		now = now.Add(ms)
		if s := tell(&table, now, Keys{Source: 1, Input: uint64(100 + i)}, false); i > 4 && s != wire.SuspicionNone {
			t.Fatalf("round %d: the others on its connection: %d", i, s)
		}
	}
}

// A client that connects for each request is known by its input, and by that strangers fail; those that are known to be good are
// above suspicion, and strangers are never strong suspects for what other strangers did.
func TestStrangers(t *testing.T) {
	var table Table
	now, source := start, uint64(1000)
	for i := range 100 {
		now = now.Add(10 * ms)
		for good := range uint64(16) {
			if s := tell(&table, now, Keys{Source: 1 + good, Input: good + 1}, false); i > 1 && s != wire.SuspicionNone {
				t.Fatalf("round %d: a known source: %d", i, s)
			}
		}
		source++
		if s := tell(&table, now, Keys{Source: source, Input: 99}, true); i > 4 && s != wire.SuspicionStrong {
			t.Errorf("round %d: a known input: %d", i, s)
		}
		source++
		if s := tell(&table, now, Keys{Source: source, Input: 1 << 40 * source}, true); i > 10 && s != wire.SuspicionSome {
			t.Errorf("round %d: a stranger: %d", i, s)
		}
	}
}

// Sources beyond a table's size push out those that have not failed first.
func TestFull(t *testing.T) {
	var table Table
	now := start
	for range 5 {
		tell(&table, now, Keys{Source: 7}, true)
	}
	for i := range uint64(100_000) {
		tell(&table, now.Add(mono.Dur(i)*1000), Keys{Source: 1000 + i}, false)
	}
	if s, _ := table.Grade(now.Add(100*ms), Keys{Source: 7}); s != wire.SuspicionStrong {
		t.Errorf("the culprit was forgotten: %d", s)
	}
}

func TestAllocatesNothing(t *testing.T) {
	var table Table
	now := start
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(ms)
		tell(&table, now, Keys{Source: uint64(now), Input: 9}, now%3 == 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
