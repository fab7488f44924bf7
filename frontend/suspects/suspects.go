// Package suspects tells which requests of a model are likely to make their batch fail, by what became of requests like
// them: those of the same source (a client's connection), and those with the same input.
//
//	request --Grade--> wire.Suspicion --> scheduler --> backend, which runs suspects apart
//	its answer --Failed, Served--> Table
//
// # Invariants
//
//  1. Only a request on which the model failed when it ran alone speaks against its input, and against its source where
//     the input has not failed lately: a proxy's connection is not to blame for one client that sends the same again.
//  2. A source is judged by the part of its requests that fail, not by their number: a gateway of which one request in a
//     hundred fails is above suspicion. One whose requests succeed is cleared.
//  3. What is known decays by half every five seconds. A Table has a fixed size: of sources beyond it those are forgotten
//     that failed least and longest ago.
//
// Sources that are not known yet (clients that connect for each request) are judged together, as strangers: they can be
// parted from those that are known to be good, and are never refused for what others did.
//
// # Rejected
//
// The client's address as its identity: clients behind one proxy, or on one host, would be cut off together.
package suspects

import (
	"math"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	sets, ways = 128, 4
	halfLife   = 5 * mono.Second
	// most is what an entry counts at most: beyond it both its counts are halved, and their ratio stays.
	most = 32
	// someFrom and strongFrom are how many failures speak for a suspicion. With that, a fifth of the requests must have
	// failed, or half of them.
	someFrom, strongFrom = 0.5, 2.5
)

// Keys are what requests are alike by; 0: not told.
type Keys struct {
	Source uint64
	Input  uint64
}

// entry is what became of requests with one key.
type entry struct {
	key            uint64 // 0: free
	failed, served float64
	at             mono.Time
}

// Table is what is known of a model's requests. The zero Table knows nothing.
type Table struct {
	entries   [sets][ways]entry
	strangers entry
}

// salt keeps inputs apart from sources.
const salt = 0x9e3779b97f4a7c15

func mix(key uint64) uint64 {
	key ^= key >> 31
	key *= 0xbf58476d1ce4e5b9
	return max(1, key^key>>29)
}

func (k Keys) source() uint64 { return mix(k.Source + 1) }
func (k Keys) input() uint64  { return mix(k.Input ^ salt) }

// Grade is the suspicion against a request. stranger: its source is not known.
func (t *Table) Grade(now mono.Time, k Keys) (s wire.Suspicion, stranger bool) {
	if e := t.find(k.source()); e != nil {
		s = e.grade(now)
	} else {
		stranger = true
		s = min(wire.SuspicionSome, t.strangers.grade(now))
	}
	if k.Input != 0 {
		if e := t.find(k.input()); e != nil {
			s = max(s, e.grade(now))
		}
	}
	return s, stranger
}

// Failed notes that the model failed on a request alone.
func (t *Table) Failed(now mono.Time, k Keys, stranger bool) {
	known := false
	if k.Input != 0 {
		e := t.find(k.input())
		known = e != nil && e.grade(now) > wire.SuspicionNone
		t.have(now, k.input()).add(now, 1, 0)
	}
	if known { // its input is reason enough
		return
	}
	t.have(now, k.source()).add(now, 1, 0)
	if stranger {
		t.strangers.add(now, 1, 0)
	}
}

// Served notes that a request was served.
func (t *Table) Served(now mono.Time, k Keys, stranger bool) {
	if k.Input != 0 {
		if e := t.find(k.input()); e != nil {
			e.add(now, 0, 1)
		}
	}
	t.have(now, k.source()).add(now, 0, 1)
	if stranger {
		t.strangers.add(now, 0, 1)
	}
}

func (t *Table) find(key uint64) *entry {
	set := &t.entries[key%sets]
	for i := range set {
		if set[i].key == key {
			return &set[i]
		}
	}
	return nil
}

// have finds a key's entry, or makes it in place of the one that is worth least.
func (t *Table) have(now mono.Time, key uint64) *entry {
	if e := t.find(key); e != nil {
		return e
	}
	set := &t.entries[key%sets]
	least := &set[0]
	for i := range set {
		if e := &set[i]; e.worth(now) < least.worth(now) {
			least = e
		}
	}
	*least = entry{key: key, at: now}
	return least
}

// worth is why to keep an entry: how often it was seen lately. Failures weigh more, but a source that failed once does not
// push out one that is known to be good.
func (e *entry) worth(now mono.Time) float64 {
	return (float64(4*e.failed) + e.served) * weight(now.Sub(e.at))
}

func (e *entry) add(now mono.Time, failed, served float64) {
	w := weight(now.Sub(e.at))
	e.at = now
	e.failed, e.served = float64(e.failed*w)+failed, float64(e.served*w)+served
	if e.failed+e.served > most {
		e.failed, e.served = e.failed/2, e.served/2
	}
}

// weight is what is left of a count after a while.
func weight(d mono.Dur) float64 { return math.Exp2(-float64(max(0, d)) / float64(halfLife)) }

func (e *entry) grade(now mono.Time) wire.Suspicion {
	w := weight(now.Sub(e.at))
	failed, served := e.failed*w, e.served*w
	switch {
	case failed >= strongFrom && failed >= served:
		return wire.SuspicionStrong
	case failed >= someFrom && 4*failed >= served:
		return wire.SuspicionSome
	}
	return wire.SuspicionNone
}
