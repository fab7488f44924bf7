package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestSparesInNetworksThatAreCut: schedulers of a group, backends and a frontend on hosts of their own,
// between which packets are dropped: of each pair and of pairs of groups, one way and both, one cut and
// several at a time. Whatever each believes meanwhile, no GPU has two drivers, and each request has one answer;
// and when all is healed, one scheduler leads, all backends obey it, and requests are answered.
//
// The flag -cuts.seed repeats a run's cuts (not their moments: those are the machine's).
func TestSparesInNetworksThatAreCut(t *testing.T) {
	beside(t)
	n, bursts, until, longest, rate := 3, 6, time.Duration(0), 700*time.Millisecond, 200.0
	if full() {
		n, bursts, until, longest, rate = 4, 0, *cutsSpan, 10*time.Second, 500
	}
	const shortest = 10 * time.Millisecond
	s := newSpread(t, n, emulated{"m", 1, 5, "500ms"}, emulated{"n", 1, 5, "500ms"})
	c := newCutter(s.lab)
	seed := cutSeed()
	t.Logf("-cuts.seed=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	leader, _ := s.healed(time.Now(), 0)
	f := s.trafficOf(rate, "m", "n")
	time.Sleep(500 * time.Millisecond)
	machine := watch(t)
	began := time.Now()
	var agreed, served, joined []time.Duration
	switches, kind, cuts := 0, rng.IntN(cutKinds), 0
	for burst := 0; burst < bursts || time.Since(began) < until; burst++ {
		var now []cut
		for range 1 + burst%3 {
			k := s.draw(rng, kind%cutKinds, leader, shortest, longest)
			if len(now) > 0 {
				k.after = time.Duration(rng.Int64N(int64(now[0].span)))
			}
			now, kind = append(now, k), kind+1
		}
		healed := c.burst(now)
		at, r := s.healed(healed, span(0, 2500*time.Millisecond))
		f.again(t, healed)
		answered := f.firstAfter(healed)
		pause := machine.longest(healed, time.Now())
		t.Logf("%v: %d led, %d does; all agree after %v (and %v later do not), all are linked after %v, an answer after %v; the machine stood still for %v", now, leader, at, r.agreed, r.later, r.linked, answered, pause)
		if full() && r.agreed+r.later > time.Second+pause {
			t.Errorf("for %v there was not one that led and that all backends obeyed: %v\n%s", r.agreed+r.later, r.why, s.story())
		}
		agreed, served, joined = append(agreed, r.agreed+r.later), append(served, answered), append(joined, r.linked)
		cuts += len(now)
		if at != leader {
			switches++
		}
		leader = at
	}
	f.stop(t)
	t.Logf("%d cuts in %d bursts, %d left another leader; after the last was healed: all agree %s, all are linked %s, an answer %s",
		cuts, len(agreed), switches, quantiles(agreed), quantiles(joined), quantiles(served))
	t.Logf("answers: %v", f.between(time.Time{}, time.Now()))
	batches := 0
	for _, b := range s.witnesses {
		d := checkDrivers(t, b)
		t.Logf("%s: %d batches in %d reigns, each device with one driver", b.name, d.batches, d.promises)
		if batches += d.batches; d.promises == 0 {
			t.Errorf("%s: its log tells of no promise", b.name)
		}
	}
	if batches == 0 {
		t.Error("the backends' logs tell of no batch")
	}
}

// recovery is how long after a network was healed ...
type recovery struct {
	agreed time.Duration // one leads and all obey it
	later  time.Duration // that was not so once more, in all: a link may yet end of what it missed
	why    error         // what was said last when it was not so
	linked time.Duration // all are linked, to the end of the watch
}

// healed waits until one leads, all obey it and all are linked, and for the watch beyond that, in which
// it may change.
func (s *spread) healed(since time.Time, watch time.Duration) (leader int, r recovery) {
	s.cluster.t.Helper()
	leader, r.agreed = -1, -1
	last, good, joined, ever := time.Duration(0), false, false, false
	for time.Since(since) < watch || !good || !ever {
		asked := time.Since(since)
		if asked > time.Minute {
			s.cluster.t.Fatalf("a minute after all was healed: %v, %v", r.why, s.linked())
		}
		at, err := s.converged()
		if err != nil {
			r.why = fmt.Errorf("at %v: %w", asked, err)
		}
		if good = err == nil; good {
			leader = at
		}
		switch {
		case r.agreed < 0 && good:
			r.agreed = asked
		case r.agreed >= 0 && !good:
			r.later += asked - last
		}
		last = asked
		was := joined
		if joined = s.linked() == nil; joined && !was {
			r.linked, ever = asked, true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return leader, r
}

// firstAfter is how long after an instant the first good answer came of a request sent after it.
func (f *traffic) firstAfter(from time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := time.Duration(-1)
	for _, o := range f.answers {
		if at := o.Intended.Std(); o.Answer.Reason == "" && at.After(from) {
			if d := at.Add(o.Latency.Std()).Sub(from); first < 0 || d < first {
				first = d
			}
		}
	}
	return first
}

func quantiles(all []time.Duration) string {
	s := slices.Sorted(slices.Values(all))
	at := func(q float64) time.Duration { return s[int(q*float64(len(s)-1)+0.5)].Round(time.Millisecond) }
	return fmt.Sprintf("p50 %v, p90 %v, p99 %v, most %v", at(0.5), at(0.9), at(0.99), at(1))
}
