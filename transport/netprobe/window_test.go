package netprobe

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// put counts n acknowledgements of a span, as bpf/probe.c does.
func put(c *counters, d mono.Dur, n int) {
	for i := range buckets {
		if low, high := edges(i); low <= d && (d < high || i == buckets-1) {
			c[ackAt+i] += uint32(n)
			c[smoothedAt+i] += uint32(n)
			return
		}
	}
	panic("no bucket")
}

// The buckets are without gap or overlap, and none is wider than 1/16 of what
// it holds.
func TestEdges(t *testing.T) {
	var end mono.Dur
	for i := range buckets {
		low, high := edges(i)
		if low != end || high <= low {
			t.Fatalf("bucket %d is %v to %v, the one before ended at %v", i, low, high, end)
		}
		if width := high - low; width > mono.Microsecond && width*steps > low {
			t.Fatalf("bucket %d: %v wide from %v on", i, width, low)
		}
		end = high
	}
	if end != mono.Microsecond<<spanLog2 {
		t.Errorf("the last ends at %v", end)
	}
}

// Of 1,000 acknowledgements, 20 slow ones are beyond the 98th percentile.
func TestSummary(t *testing.T) {
	var base, now counters
	put(&base, mono.Second, 7)
	now = base
	put(&now, 100*mono.Microsecond, 900)
	put(&now, 200*mono.Microsecond, 80)
	put(&now, 5*mono.Millisecond, 20)
	now[answersAt], now[delayedAt], now[repeatedAt] = 3, 4, 5
	st := summary(&base, &now)
	within := func(name string, got, want mono.Dur) {
		t.Helper()
		if got < want || got > want+want/steps {
			t.Errorf("%s = %v, want %v and at most 1/%d more", name, got, want, steps)
		}
	}
	within("AckP50", st.AckP50, 100*mono.Microsecond)
	within("AckP99", st.AckP99, 5*mono.Millisecond)
	within("SmoothedP99", st.SmoothedP99, 5*mono.Millisecond)
	if st.Least > 100*mono.Microsecond || st.Least < 93*mono.Microsecond {
		t.Errorf("Least = %v, want 100us and at most 1/%d less", st.Least, steps)
	}
	if st.Samples != 1000 || st.Answers != 3 || st.Delayed != 4 || st.Repeated != 5 {
		t.Errorf("counts: %+v", st)
	}
	if got, most := st.DelayBound(), st.AckP99; got >= most || got < most-st.AckP50 {
		t.Errorf("bound %v of %+v", got, st)
	}
	if st := summary(&now, &now); st != (Stats{}) || st.DelayBound() != 0 {
		t.Errorf("of nothing: %+v", st)
	}
}

// A disturbance is in the window while it lasts and leaves it afterwards; the
// counters may wrap meanwhile.
func TestWindowForgets(t *testing.T) {
	w := window{span: 10 * mono.Second}
	var c counters
	now := mono.Time(0)
	w.begin(now)
	for i := range c {
		c[i] = ^uint32(50) // not counted from zero: all of it is one wrap
		for b := range w.bases {
			w.bases[b][i] = c[i]
		}
	}
	var slow, fast mono.Time // when the bound was last seen high, and first low again
	for step := range 400 {
		now = now.Add(200 * mono.Millisecond)
		disturbed := step >= 100 && step < 120 // 20 s to 24 s
		if disturbed {
			put(&c, 20*mono.Millisecond, 10)
		} else {
			put(&c, 100*mono.Microsecond, 10)
		}
		st := w.observe(now, &c)
		if high := st.DelayBound() > 10*mono.Millisecond; high {
			slow = now
		} else if disturbed {
			t.Fatalf("at %v: %+v in a disturbance", now, st)
		} else if fast == 0 && slow != 0 {
			fast = now
		}
		if st.Samples < 10 || st.Samples > 10*10*5 {
			t.Fatalf("at %v: %d samples in the window", now, st.Samples)
		}
	}
	over := mono.Time(24 * mono.Second)
	if slow > fast || fast < over.Add(7*mono.Second) || fast > over.Add(11*mono.Second) {
		t.Errorf("high until %v, low from %v on; the disturbance ended at %v", slow, fast, over)
	}
}

// After a pause of the caller only what came since its last reading counts.
func TestWindowPause(t *testing.T) {
	w := window{span: mono.Second}
	var c counters
	w.begin(0)
	put(&c, 20*mono.Millisecond, 10)
	w.observe(mono.Time(mono.Second), &c)
	put(&c, 100*mono.Microsecond, 10)
	if st := w.observe(mono.Time(60*mono.Second), &c); st.Samples != 10 || st.AckP99 > mono.Millisecond {
		t.Errorf("%+v", st)
	}
}

// Readings are taken of every link, many times a second.
func TestObserveAllocs(t *testing.T) {
	w := window{span: mono.Second}
	var c counters
	now := mono.Time(0)
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(200 * mono.Millisecond)
		w.observe(now, &c)
	}); n != 0 {
		t.Errorf("observe: %v allocations, want 0", n)
	}
}
