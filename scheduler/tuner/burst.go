package tuner

import "github.com/symphony-serving/symphony/transport/mono"

// burst is what a Tuner needs to hear bursts as they are, and to remember them.
//
// Where there is no time for all arrivals a pass is some thousand of them: a tenth of a second of a burst, in which no
// queue grows long enough for anything to be lost. So while arrivals come more often than usual a pass goes on,
// and what its replay costs is paid by hearing less afterwards. A burst is heard whole, then, and the quiet time in
// part: what is heard in a burst counts for as many requests as came, by what a request of the quiet time counts for.
//
// A burst is no other load: when what was before it is back, so is what was seen of it.
type burst struct {
	heard  bool // in the next pass
	aside  bool // the tallies before the last jump are put aside
	back   bool // to be taken back before the next pass
	dreams bool // what dreams are drawn from is put aside
	jumped bool // Tuner.news says loadOther only for what the load did
	came   int  // requests since the last pass was made
	over   int  // arrivals that were heard of this burst in passes that were full

	usualCame, usualReplayed float64 // in passes without bursts, older ones counting for less
}

const (
	// burstTimes as many arrivals as a pass has may be heard of a burst beyond.
	burstTimes = 3
	// burstPasses is how many passes make what a request of the quiet time counts for.
	burstPasses = 64
	// burstWeight bounds by how much more or less a request counts.
	burstWeight = 16
)

// listensOn tells whether a pass that has so many arrivals as it may have goes on.
func (t *Tuner) listensOn(now mono.Time, limit int) bool {
	b := &t.burst
	if len(t.next) >= passMost || b.over >= burstTimes*limit || !t.load.surges(now) {
		return false
	}
	b.heard = true
	b.over++
	return true
}

// hear ends deafness when a burst begins.
func (t *Tuner) hear(now mono.Time) {
	if t.deaf && t.listensOn(now, t.passLimit()) {
		t.deaf, t.resumed = false, true
		t.dreams.missed()
	}
}

// other notes that the load is another one. A burst of which no pass has begun leaves nothing of that.
func (t *Tuner) other() {
	t.burst.jumped = t.burst.jumped || t.news < loadOther
	t.news = loadOther
}

// changed notes that what serves the load is another, so what was before does not come back.
func (t *Tuner) changed(news loadChange) {
	t.news, t.load.left, t.burst.jumped = max(t.news, news), 0, false
}

// heed takes a change of the load.
func (t *Tuner) heed(change loadChange) {
	b := &t.burst
	if t.load.left == 0 && change != loadBack && !b.back {
		b.aside, b.dreams = false, false // it did not come back in time
	}
	switch change {
	case loadBack:
		if b.back = b.aside; b.jumped {
			t.news, b.jumped = loadSame, false
		}
		if b.dreams {
			t.dreams.takeBack()
		}
		b.dreams = false
	case loadOther:
		if t.other(); b.dreams {
			t.dreams.forget()
		} else {
			t.dreams.putAside()
		}
		b.dreams = true
	default:
		t.news = max(t.news, change)
	}
}

// putAside keeps what forget takes, where the load may come back.
func (t *Tuner) putAside() {
	if t.load.left == 0 || t.burst.aside {
		return
	}
	t.burst.aside = true
	part := 1 - float64(t.recalled(t.otherPart()))
	for _, s := range t.shadows {
		s.tally.putAside(part)
	}
}

// takeBack adds what was put aside to what was seen since, once the load is back.
func (t *Tuner) takeBack() {
	b := &t.burst
	if b.back {
		for _, s := range t.shadows {
			s.tally.takeBack()
		}
		b.back, b.aside = false, false
	}
}

// weigh says what a request of the next pass, which has so many, counts for.
func (t *Tuner) weigh(replayed int) {
	b := &t.burst
	weight, usual := 1.0, 1.0
	if b.usualCame > 0 {
		usual = b.usualReplayed / b.usualCame
	}
	if b.heard {
		weight = min(burstWeight, max(1.0/burstWeight, usual*float64(b.came)/float64(max(1, replayed))))
	} else {
		const keep = 1 - 1.0/burstPasses
		b.usualCame = float64(keep*b.usualCame) + float64(b.came)
		b.usualReplayed = float64(keep*b.usualReplayed) + float64(replayed)
	}
	for _, s := range t.shadows {
		s.tally.more = weight - 1
	}
	if b.came, b.heard = 0, false; t.load.left == 0 {
		b.over = 0
	}
}
