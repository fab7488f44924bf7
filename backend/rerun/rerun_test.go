package rerun

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const ms = mono.Millisecond

// outcome is what became of a batch's requests.
type outcome struct {
	runs                          int
	first                         Part
	served, alone, isolated, give map[int]bool
}

// drive runs a batch whose bad requests make each run fail that they are in. Each run takes a millisecond.
func drive(t *testing.T, now *mono.Time, r *Runs, bad func(i int) bool) outcome {
	t.Helper()
	o := outcome{served: map[int]bool{}, alone: map[int]bool{}, isolated: map[int]bool{}, give: map[int]bool{}}
	seen := map[int]bool{}
	into := func(p Part, where map[int]bool) {
		for i := p.From; i < p.To; i++ {
			if seen[i] {
				t.Fatalf("request %d has two ends", i)
			}
			seen[i], where[i] = true, true
		}
	}
	for {
		p, verdict := r.Next(*now)
		switch verdict {
		case End:
			return o
		case Isolate:
			into(p, o.isolated)
			continue
		case GiveUp:
			into(p, o.give)
			continue
		}
		if o.runs++; o.runs == 1 {
			o.first = p
		}
		ok := true
		for i := p.From; i < p.To; i++ {
			ok = ok && !bad(i)
		}
		*now = now.Add(ms)
		switch alone := r.Ended(*now, ok, ms); {
		case ok:
			into(p, o.served)
		case alone:
			into(p, o.alone)
		}
	}
}

// Each request that is not bad is served, and each that is fails alone, wherever they lie.
func TestOnlyCulpritsFail(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		var share Share
		var record Record
		now := mono.Time(1)
		n := 1 + rnd.IntN(40)
		bad, culprits := map[int]bool{}, rnd.IntN(min(n, 8)+1)
		for len(bad) < culprits {
			bad[rnd.IntN(n)] = true
		}
		var r Runs
		r.Begin(now, Counts{n}, mono.Never, &share, &record)
		o := drive(t, &now, &r, func(i int) bool { return bad[i] })
		if len(o.served) != n-culprits || len(o.alone) != culprits || len(o.give)+len(o.isolated) != 0 {
			t.Fatalf("of %d requests with %d bad: %+v", n, culprits, o)
		}
		for i := range o.alone {
			if !bad[i] {
				t.Fatalf("request %d is not bad", i)
			}
		}
	}
}

// One culprit of 16 costs 9 runs at most, and fewer than 8 on average; one in no batch costs one run.
func TestRunsOfOneCulprit(t *testing.T) {
	all := 0
	for at := range 16 {
		var share Share
		var record Record
		var r Runs
		now := mono.Time(1)
		r.Begin(now, Counts{16}, mono.Never, &share, &record)
		o := drive(t, &now, &r, func(i int) bool { return i == at })
		if all += o.runs; o.runs > 9 {
			t.Errorf("culprit at %d: %d runs", at, o.runs)
		}
	}
	if all >= 16*8 {
		t.Errorf("%.1f runs on average", float64(all)/16)
	}
}

// A known culprit costs the others of its batch no run, and its own runs are a few per cent of the time.
func TestSuspectsArePartedWithinTheirShare(t *testing.T) {
	var share Share
	var record Record
	var r Runs
	now, suspects := mono.Time(1), 0
	const batches = 10_000
	for range batches {
		r.Begin(now, Counts{13, 0, 3}, mono.Never, &share, &record)
		o := drive(t, &now, &r, func(i int) bool { return i >= 13 })
		if o.first != (Part{0, 13}) || len(o.served) != 13 {
			t.Fatalf("%+v", o)
		}
		suspects += len(o.alone)
	}
	if part := float64(suspects) / float64(batches+suspects); part > 0.065 || part < 0.03 { // 4 %, and what was saved of it
		t.Errorf("suspects had %.1f %% of the time", 100*part)
	}
}

// Where all are under suspicion nothing is gained by parting them; weak suspects that the share does not afford run with the others.
func TestSuspectsAmongThemselves(t *testing.T) {
	good := func(int) bool { return false }
	for _, c := range []struct {
		counts Counts
		spent  mono.Dur
		runs   int
		first  Part
	}{
		{Counts{0, 4, 0}, 0, 1, Part{0, 4}}, {Counts{0, 0, 4}, 0, 1, Part{0, 4}}, {Counts{0, 3, 1}, 0, 2, Part{0, 3}},
		{Counts{4, 2, 0}, 0, 2, Part{0, 4}}, {Counts{4, 2, 0}, mono.Second, 1, Part{0, 6}}, {Counts{4, 2, 2}, 0, 4, Part{0, 4}},
	} {
		var share Share
		var record Record
		var r Runs
		now := mono.Time(1)
		share.Affords(now)
		share.spend(c.spent)
		r.Begin(now, c.counts, mono.Never, &share, &record)
		if o := drive(t, &now, &r, good); o.runs != c.runs || o.first != c.first {
			t.Errorf("%+v: %d runs, the first of %v, want %d and %v", c, o.runs, o.first, c.runs, c.first)
		}
	}
	var share Share
	var record Record
	var r Runs
	now := mono.Time(1)
	share.Affords(now)
	share.spend(mono.Second)
	r.Begin(now, Counts{4, 0, wire.BatchMax}, mono.Never, &share, &record)
	if o := drive(t, &now, &r, good); o.runs != 1 || len(o.isolated) != wire.BatchMax {
		t.Errorf("%d runs, %d isolated", o.runs, len(o.isolated))
	}
}

// Weak suspects are not refused for what one of them did, whether the share is used up or not; strong ones are, also among themselves.
func TestOnlyStrongSuspectsAreRefused(t *testing.T) {
	var share Share
	var record Record
	var r Runs
	now := mono.Time(1)
	for range 200 {
		r.Begin(now, Counts{8, 8}, mono.Never, &share, &record)
		if o := drive(t, &now, &r, func(i int) bool { return i == 9 }); len(o.served) != 15 || len(o.alone) != 1 {
			t.Fatalf("%+v", o)
		}
	}
	refused := 0
	for range 200 {
		r.Begin(now, Counts{0, 0, 8}, mono.Never, &share, &record)
		o := drive(t, &now, &r, func(i int) bool { return i < 4 })
		if refused += len(o.isolated); len(o.give) > 0 {
			t.Fatalf("%+v", o)
		}
	}
	if refused < 200*7 {
		t.Errorf("%d of %d strong suspects were refused", refused, 200*8)
	}
}

// A model that does nothing but fail costs one run a batch, and a few more each second.
func TestHopelessModel(t *testing.T) {
	var share Share
	var record Record
	var r Runs
	now, runs := mono.Time(1), 0
	const batches = 1000
	for range batches {
		r.Begin(now, Counts{16}, mono.Never, &share, &record)
		o := drive(t, &now, &r, func(int) bool { return true })
		if runs += o.runs; len(o.alone)+len(o.give) != 16 {
			t.Fatalf("%+v", o)
		}
	}
	if runs > batches+2*16 { // the first batch is run apart, and each second some of one
		t.Errorf("%d runs of %d batches", runs, batches)
	}
	record.Served()
	r.Begin(now, Counts{16}, mono.Never, &share, &record)
	if o := drive(t, &now, &r, func(i int) bool { return i == 3 }); len(o.served) != 15 {
		t.Errorf("once it ran well: %+v", o)
	}
}

// No run begins after the limit but the first.
func TestLimit(t *testing.T) {
	var share Share
	var record Record
	var r Runs
	now := mono.Time(10 * ms)
	r.Begin(now, Counts{16}, now.Add(2*ms), &share, &record)
	if o := drive(t, &now, &r, func(i int) bool { return i == 0 }); o.runs != 3 || len(o.give) != 16 {
		t.Errorf("%+v", o)
	}
	r.Begin(now, Counts{4, 0, 2}, now-1, &share, &record)
	if o := drive(t, &now, &r, func(i int) bool { return false }); o.runs != 1 || len(o.served) != 4 || len(o.isolated) != 2 {
		t.Errorf("%+v", o)
	}
}

func TestAllocatesNothing(t *testing.T) {
	var share Share
	var record Record
	var r Runs
	now := mono.Time(1)
	step := func() {
		r.Begin(now, Counts{12, 2, 2}, mono.Never, &share, &record)
		for {
			p, verdict := r.Next(now)
			if verdict == End {
				return
			}
			if verdict == Run {
				now = now.Add(ms)
				r.Ended(now, p.From > 3, ms)
			}
		}
	}
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
