package standby_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const ms = mono.Millisecond

// script drives one scheduler, number 2 of three, and tells what it did in a few words.
type script struct {
	t   *testing.T
	s   *standby.Scheduler
	now mono.Time
	out standby.Effects
}

// newScript is a spare that follows scheduler 1 (life 101, link 1, reign 65537), has heard spare 3
// (life 103, link 3), and is linked with backends 11 and 12, which obey the leader.
func newScript(t *testing.T) *script {
	p := bare(t)
	p.s.PlaceSelf(p.now, 1, &p.out)
	p.s.PeerUp(p.now, 0, 1, 101, &p.out)
	p.s.PeerUp(p.now, 2, 3, 103, &p.out)
	p.leads(1<<16 | 1)
	p.spare(1<<16 | 1)
	for _, b := range []standby.Link{11, 12} {
		p.s.BackendUp(p.now, b, uint64(200+b), &p.out)
		p.s.Promised(p.now, b, wire.Promised{Highest: 1<<16 | 1}, &p.out)
	}
	p.did()
	return p
}

func bare(t *testing.T) *script {
	p := &script{t: t, now: mono.Time(mono.Second)}
	p.s = standby.New(standby.Config{Number: 2, Life: 102, Places: 3}, p.now)
	return p
}

func (p *script) leads(reign wire.Epoch) {
	p.s.Beat(p.now, 1, wire.Beat{Epoch: reign, Leads: true, Number: 1, Every: ms, Backends: 2}, &p.out)
}

func (p *script) spare(reign wire.Epoch) {
	p.s.Beat(p.now, 3, wire.Beat{Epoch: reign, Number: 3, Every: 10 * ms, Backends: 2}, &p.out)
}

// pass lets time go by, with every wake-up on time.
func (p *script) pass(d mono.Dur) {
	end := p.now.Add(d)
	for p.s.NextWake() <= end {
		p.now = max(p.now, p.s.NextWake())
		p.s.Tick(p.now, &p.out)
	}
	p.now = end
}

// did are the effects since, without the beats and the notes.
func (p *script) did() string {
	var words []string
	for _, e := range p.out {
		switch e.Kind {
		case standby.Ask:
			words = append(words, fmt.Sprintf("ask %d", e.Link))
		case standby.Lead:
			words = append(words, "lead")
		case standby.Use:
			words = append(words, fmt.Sprintf("use %d", e.Link))
		case standby.Yield:
			words = append(words, "yield")
		}
	}
	p.out = p.out[:0]
	return strings.Join(words, ", ")
}

func (p *script) want(what, want string) {
	p.t.Helper()
	if got := p.did(); got != want {
		p.t.Fatalf("%s: it did %q, want %q (at %v, %v)", what, got, want, p.now, p.s.Role())
	}
}

// yes is a backend's promise of what is claimed.
func (p *script) yes(link standby.Link) {
	p.s.Promised(p.now, link, wire.Promised{Epoch: p.s.Reign(), Highest: p.s.Reign()}, &p.out)
}

// The fast way: the leader's process has ended, which its host says.
func TestALeaderThatEndedIsFollowedAtOnce(t *testing.T) {
	p := newScript(t)
	p.s.PeerDown(p.now, 1, &p.out)
	p.want("a link alone proves nothing", "")
	p.s.PlaceRefused(p.now, 0, &p.out)
	p.want("its process has ended", "ask 11, ask 12")
	p.yes(11)
	p.want("the other may come", "")
	p.yes(12)
	p.want("all have promised", "lead, use 11, use 12")
	if p.s.Lead() != (wire.Lead{Epoch: p.s.Reign(), Leads: true}) || p.s.Reign()&0xffff != 2 || p.s.Reign() <= 1<<16|1 {
		t.Errorf("it says %+v", p.s.Lead())
	}
}

// One that starts again at once is another process: the reign ended with the first.
func TestALeaderThatStartsAgainIsFollowed(t *testing.T) {
	p := newScript(t)
	p.s.PeerUp(p.now, 0, 4, 104, &p.out)
	p.s.Beat(p.now, 4, wire.Beat{Epoch: 1<<16 | 1, Number: 1, Every: 10 * ms}, &p.out)
	p.want("its address leads to another process", "ask 11, ask 12")
}

// Of several spares one goes first: here it is not this one.
func TestSparesTakeTurns(t *testing.T) {
	p := bare(t)
	p.s.PlaceSelf(p.now, 1, &p.out)
	p.s.PeerUp(p.now, 2, 3, 103, &p.out) // the leader is 3
	p.s.PeerUp(p.now, 0, 1, 101, &p.out)
	p.s.Beat(p.now, 3, wire.Beat{Epoch: 3, Leads: true, Number: 3, Every: ms, Backends: 1}, &p.out)
	p.s.Beat(p.now, 1, wire.Beat{Epoch: 3, Number: 1, Every: 10 * ms, Backends: 1}, &p.out)
	p.s.BackendUp(p.now, 11, 211, &p.out)
	p.s.Promised(p.now, 11, wire.Promised{Highest: 3}, &p.out)
	p.s.PeerDown(p.now, 3, &p.out)
	p.s.PlaceRefused(p.now, 2, &p.out)
	p.pass(2 * ms)
	p.want("number 1 is first", "")
	p.pass(2 * ms)
	p.want("it did not come", "ask 11")
}

func TestSilenceIsDoubted(t *testing.T) {
	p := newScript(t)
	p.pass(4 * ms)
	p.want("four beats are missing", "")
	p.pass(3 * ms)
	p.want("seven are", "ask 11, ask 12")

	// One that stood still itself suspects nobody for as long: the beats are in its sockets.
	p = newScript(t)
	p.now = p.now.Add(80 * ms)
	p.s.Tick(p.now, &p.out)
	p.pass(70 * ms)
	p.want("it stood still", "")
	p.leads(1<<16 | 1)
	p.pass(4 * ms)
	p.want("the beats were there", "")

	// But a machine that is always late does not excuse a leader for ever.
	p = newScript(t)
	for range 30 {
		p.now = p.s.NextWake().Add(5 * ms)
		p.s.Tick(p.now, &p.out)
	}
	p.want("always late", "ask 11, ask 12")
}

// A leader whose beats came late lately has longer, until that is forgotten.
func TestLateBeatsAreSilencesMeasure(t *testing.T) {
	p := newScript(t)
	beats := func(n int, every mono.Dur) {
		for range n {
			p.pass(every)
			p.leads(1<<16 | 1)
			p.spare(1<<16 | 1)
		}
	}
	beats(1, 4*ms)
	p.pass(7 * ms)
	p.want("they were 3 ms late: nine are no silence", "")
	p.pass(5 * ms)
	p.want("twelve are", "ask 11, ask 12")

	p = newScript(t)
	beats(1, 4*ms)
	beats(3000, ms)
	p.pass(4 * ms)
	p.want("four beats are missing", "")
	p.pass(3 * ms)
	p.want("seven are, and they were late long ago", "ask 11, ask 12")
}

// Rare beats of a leader that has nothing to do alarm nobody, and it says before that they will be rare.
func TestIdleBeats(t *testing.T) {
	p := newScript(t)
	for range 20 {
		p.s.Beat(p.now, 1, wire.Beat{Epoch: 1<<16 | 1, Leads: true, Number: 1, Every: 10 * ms, Backends: 2}, &p.out)
		p.spare(1<<16 | 1)
		p.pass(40 * ms)
	}
	p.want("three of ten beats are missing", "")
	p.s.PeerDown(p.now, 1, &p.out)
	p.s.PlaceRefused(p.now, 0, &p.out)
	p.yes(11)
	p.yes(12)
	p.out = p.out[:0]
	last, every := p.now, mono.Dur(0)
	for end := p.now.Add(3 * mono.Second); p.now < end; {
		p.pass(ms / 4)
		for _, e := range p.out {
			if e.Kind == standby.SendBeat {
				if late := p.now.Sub(last); every != 0 && late > every+ms {
					t.Fatalf("a beat after %v, and %v was said", late, every)
				}
				last, every = p.now, e.Beat.Every
			}
		}
		p.out = p.out[:0]
	}
	if every != 100*ms {
		t.Errorf("idle, it beats each %v", every)
	}
	p.s.Busy(p.now, &p.out)
	if len(p.out) == 0 || p.out[0].Beat.Every != ms {
		t.Errorf("busy, it says %+v", p.out)
	}
}

// A promise counts for the reign that it names.
func TestStalePromises(t *testing.T) {
	p := newScript(t)
	if err := p.s.Promote(p.now, &p.out); err != nil {
		t.Fatal(err)
	}
	first := p.s.Reign()
	p.s.Promised(p.now, 11, wire.Promised{Epoch: first, Highest: first + 5<<16}, &p.out)
	p.want("a later reign was promised", "ask 11, ask 12")
	if p.s.Role() != standby.Spare {
		t.Fatalf("refused, it is a %v", p.s.Role())
	}
	if err := p.s.Promote(p.now, &p.out); err != nil || p.s.Reign() <= first+5<<16 {
		t.Fatalf("%v: reign %d after %d was heard of", err, p.s.Reign(), first+5<<16)
	}
	p.did()
	p.s.Promised(p.now, 12, wire.Promised{Epoch: first, Highest: first}, &p.out)
	p.pass(5 * ms)
	p.want("a promise of the reign before", "")
	p.yes(11)
	p.pass(2 * ms)
	p.want("2 ms after the first of two", "lead, use 11")
	p.yes(12)
	p.want("and the other", "use 12")
	p.s.Promised(p.now, 12, wire.Promised{Epoch: p.s.Reign(), Highest: p.s.Reign() + 1<<16}, &p.out)
	p.want("overtaken", "yield")
}

// A promise that comes when the claim was given up makes a spare lead if no later reign was heard
// of: its backend obeys nobody else. The others are asked (again).
func TestALatePromise(t *testing.T) {
	p := newScript(t)
	_ = p.s.Promote(p.now, &p.out)
	reign := p.s.Reign()
	for p.s.Role() == standby.Candidate && p.now < mono.Time(2*mono.Second) {
		p.pass(10 * ms)
		p.leads(1<<16 | 1)
	}
	p.did()
	p.s.Promised(p.now, 11, wire.Promised{Epoch: reign - 1<<16, Highest: reign - 1<<16}, &p.out)
	p.want("of another reign", "")
	p.s.Promised(p.now, 11, wire.Promised{Epoch: reign, Highest: reign}, &p.out)
	p.want("of the one that it claimed", "lead, use 11, ask 12")
	if p.s.Reign() != reign {
		t.Errorf("it leads with %d, claimed %d", p.s.Reign(), reign)
	}
}

// A reign is not used twice, although a member starts again with its clock set back.
func TestReignsDiffer(t *testing.T) {
	reigns := map[wire.Epoch]bool{}
	for life := range uint64(100) {
		s := standby.New(standby.Config{Number: 2, Life: life, Places: 0, Wall: 5}, 0)
		var out standby.Effects
		s.BackendUp(0, 1, 1, &out)
		s.Promised(0, 1, wire.Promised{Highest: 1 << 60, Lost: true}, &out)
		if s.Tick(0, &out); s.Reign() <= 1<<60 || s.Reign()&0xffff != 2 || reigns[s.Reign()] {
			t.Fatalf("life %d takes reign %d", life, s.Reign())
		}
		reigns[s.Reign()] = true
	}
}

// A spare that is cut off claims nothing, and one that is overtaken by a reign it does not hear
// waits longer each time.
func TestWhoIsCutOffWaits(t *testing.T) {
	p := bare(t)
	p.pass(5 * mono.Second)
	if p.s.Role() != standby.Spare {
		t.Fatalf("without a backend, and with nobody heard, it is a %v", p.s.Role())
	}
	p.s.BackendUp(p.now, 11, 211, &p.out)
	p.s.Promised(p.now, 11, wire.Promised{Highest: 1<<40 | 1}, &p.out)
	var waits []mono.Dur
	for since := p.now; len(waits) < 6; {
		p.pass(ms)
		if p.s.Role() != standby.Candidate {
			if p.now.Sub(since) > 10*mono.Second {
				t.Fatalf("it waits for ever, after %v", waits)
			}
			continue
		}
		waits = append(waits, p.now.Sub(since))
		p.yes(11)
		p.s.Promised(p.now, 11, wire.Promised{Epoch: p.s.Reign(), Highest: (p.s.Reign()+1<<16)&^0xffff | 1}, &p.out)
		since = p.now
	}
	for i, w := range waits[2:] {
		if before := waits[i+1]; w < before || i < 2 && w < before*3/2 || w > 5*mono.Second {
			t.Errorf("waits of %v", waits)
		}
	}
	// Unless its backend says that it has lost that one.
	p.s.Promised(p.now, 11, wire.Promised{Highest: p.s.Lead().Epoch, Lost: true}, &p.out)
	p.did()
	p.pass(15 * ms)
	p.want("the backend lost its leader", "ask 11")
}

// So does a process that led meanwhile, and begins anew as a spare.
func TestWhoBeginsAnewWaits(t *testing.T) {
	unheard, last := 0, mono.Dur(0)
	for i := range 7 {
		p := bare(t)
		p.s = standby.New(standby.Config{Number: 2, Life: 102, Places: 3, Unheard: unheard}, p.now)
		p.s.BackendUp(p.now, 11, 211, &p.out)
		p.s.Promised(p.now, 11, wire.Promised{Highest: 1<<40 | 1}, &p.out)
		began := p.now
		for p.s.Role() == standby.Spare {
			p.pass(ms)
		}
		waited := p.now.Sub(began)
		if waited < last || waited < mono.Second || waited > 5*mono.Second {
			t.Errorf("the %d. waits %v, after %v", i, waited, last)
		}
		last = waited
		p.yes(11)
		p.s.Promised(p.now, 11, wire.Promised{Epoch: p.s.Reign(), Highest: (p.s.Reign()+1<<16)&^0xffff | 1}, &p.out)
		unheard = p.s.Unheard()
	}
	if last < 3*mono.Second {
		t.Errorf("after %d times it waits %v", unheard, last)
	}
}

func TestAPlannedSwitch(t *testing.T) {
	p := newScript(t)
	if err := p.s.StepDown(p.now, &p.out); !errors.Is(err, standby.ErrNotLead) {
		t.Fatalf("a spare steps down: %v", err)
	}
	p.s.Beat(p.now, 1, wire.Beat{Epoch: 1<<16 | 1, Leads: true, Number: 1, Every: ms, Backends: 2, Yields: true}, &p.out)
	for _, e := range p.out {
		if e.Kind == standby.Ask && !e.Promise.Keep {
			t.Errorf("asks with %+v", e.Promise)
		}
	}
	p.want("the leader yields", "ask 11, ask 12")
	p.yes(11)
	p.yes(12)
	p.want("both promised", "lead, use 11, use 12")
	if err := p.s.Promote(p.now, &p.out); !errors.Is(err, standby.ErrLeads) {
		t.Fatalf("a leader is promoted: %v", err)
	}
	p.s.PeerDown(p.now, 3, &p.out)
	p.s.Beat(p.now, 1, wire.Beat{Epoch: p.s.Reign(), Number: 1, Every: 10 * ms, Backends: 2}, &p.out)
	if err := p.s.StepDown(p.now, &p.out); err != nil {
		t.Fatal(err)
	}
	asked := false
	for _, e := range p.out {
		asked = asked || e.Kind == standby.SendBeat && e.Link == 1 && e.Beat.Yields
	}
	if !asked || p.s.Role() != standby.Leader {
		t.Errorf("asked %v, as %v", asked, p.s.Role())
	}
	p.did()
	p.s.Beat(p.now, 1, wire.Beat{Epoch: p.s.Reign() + 1<<16, Leads: true, Number: 1, Every: ms, Backends: 1}, &p.out)
	p.want("the successor leads", "yield")
}

// Of two that lead after a split the one with the lower reign ends, and one without GPUs ends nobody's.
func TestTwoLeaders(t *testing.T) {
	p := newScript(t)
	_ = p.s.Promote(p.now, &p.out)
	p.yes(11)
	p.yes(12)
	p.did()
	p.s.Beat(p.now, 1, wire.Beat{Epoch: p.s.Reign() - 1<<16, Leads: true, Number: 1, Every: ms, Backends: 5}, &p.out)
	p.want("a lower one", "")
	p.s.Beat(p.now, 1, wire.Beat{Epoch: p.s.Reign() + 1<<16, Leads: true, Number: 1, Every: ms}, &p.out)
	p.want("a higher one without GPUs", "")
	p.s.Beat(p.now, 1, wire.Beat{Epoch: p.s.Reign() + 1<<16, Leads: true, Number: 1, Every: ms, Backends: 1}, &p.out)
	p.want("a higher one", "yield")
}

// A leader that backends do not reach yields to a spare that they do.
func TestALeaderWithoutBackendsYields(t *testing.T) {
	p := newScript(t)
	_ = p.s.Promote(p.now, &p.out)
	p.yes(11)
	p.yes(12)
	p.s.BackendDown(p.now, 11, &p.out)
	p.s.BackendDown(p.now, 12, &p.out)
	p.did()
	yields := 0
	for range 50 {
		p.spare(p.s.Reign())
		p.pass(10 * ms)
		for _, e := range p.out {
			if e.Kind == standby.SendBeat && e.Beat.Yields {
				if yields++; e.Link != 3 {
					t.Fatalf("yields to the peer on link %d", e.Link)
				}
			}
		}
		p.out = p.out[:0]
	}
	if yields == 0 {
		t.Error("it goes on without any")
	}
}

// A scheduler without a group leads as soon as it is there.
func TestAGroupOfOne(t *testing.T) {
	s := standby.New(standby.Config{Number: 1, Life: 7}, 5)
	var out standby.Effects
	s.Tick(5, &out)
	if s.Role() != standby.Leader {
		t.Fatalf("it is a %v", s.Role())
	}
	s.BackendUp(6, 1, 70, &out)
	s.Promised(7, 1, wire.Promised{Highest: 1 << 50}, &out) // of its life before, which it has not noticed to end
	for s.Role() != standby.Candidate && s.NextWake() < mono.Time(mono.Second) {
		s.Tick(s.NextWake(), &out)
	}
	if s.Reign() <= 1<<50 {
		t.Errorf("reign %d is below what was promised", s.Reign())
	}
}

// Heartbeats come a thousand times a second.
func TestBeatsAllocateNothing(t *testing.T) {
	p := newScript(t)
	beat := func() {
		p.now = p.now.Add(ms)
		p.leads(1<<16 | 1)
		p.s.Tick(p.now, &p.out)
		p.out = p.out[:0]
	}
	beat()
	if n := testing.AllocsPerRun(100, beat); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// That nobody listens where the others should be is no proof that nobody leads while backends obey somebody: a
// firewall refuses, too. Two that cannot reach each other would take the backends from each other at once.
func TestRefusedDialsAreNoProofAgainstBackends(t *testing.T) {
	p := bare(t)
	p.s.PlaceSelf(p.now, 1, &p.out)
	p.s.PlaceRefused(p.now, 0, &p.out)
	p.s.BackendUp(p.now, 11, 211, &p.out)
	p.s.Promised(p.now, 11, wire.Promised{Highest: 3<<16 | 3}, &p.out)
	p.s.PlaceRefused(p.now, 2, &p.out)
	p.pass(500 * ms)
	p.want("somebody drives", "")
	p.pass(600 * ms)
	p.want("and was not heard for a second", "ask 11")
}
