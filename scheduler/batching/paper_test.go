package batching

import (
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// example is section 3.3's model: l(b) = b + 5, SLO 12, here in seconds.
func example(t *testing.T, change func(*Config)) *Model {
	t.Helper()
	p, err := profile.Linear(mono.Second, 5*mono.Second, 8)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Profile: p, SLO: 12 * mono.Second, Policy: PolicyHead, QueueMax: 100, Share: 3 * OneGPU, Window: WindowFrontrun}
	if change != nil {
		change(&cfg)
	}
	return NewModel(cfg)
}

func sec(s float64) mono.Time { return mono.Time(s * float64(mono.Second)) }

// push queues requests with these deadlines, in seconds; slots count from 0.
func push(t *testing.T, m *Model, deadlines ...float64) {
	t.Helper()
	for _, d := range deadlines {
		if !m.Push(0, sec(d), 0, uint32(m.Len())) {
			t.Fatal("queue full")
		}
	}
}

// Section 3.1: the schedulable window is [d - l(b+1), d - l(b)].
func TestSchedulableWindow(t *testing.T) {
	m := example(t, nil)
	push(t, m, 12, 12.75, 13.5, 14.25)
	m.Update(0, nil)
	if want := (Candidate{Batch: Batch{Size: 4}, Exec: sec(2), Latest: sec(3)}); m.Candidate() != want {
		t.Fatalf("%+v, want %+v", m.Candidate(), want)
	}
}

// Algorithm 1, line 5: exec is frontrun or now, whichever is later.
func TestExecIsFrontrunOrNow(t *testing.T) {
	m := example(t, nil)
	push(t, m, 12, 12, 12)
	for _, now := range []float64{0, 3, 3.5, 4} {
		m.Update(sec(now), nil)
		if want := max(sec(now), sec(3)); m.Candidate().Exec != want {
			t.Errorf("at %v: exec %v, want %v", now, m.Candidate().Exec, want)
		}
	}
}

// The live engine's lead: at least Lead, and a part of the time left while
// that is more.
func TestLead(t *testing.T) {
	m := example(t, func(c *Config) { c.Window, c.Delay = WindowDeferred, Delay{Lead: sec(0.5).Sub(0), LeadShare: 4} })
	push(t, m, 12) // frontrun 12 - l(2) = 5
	for _, at := range []struct{ now, exec float64 }{{0, 2}, {2, 2.5}, {2.5, 2.625}, {3, 3}, {5.5, 5.5}} {
		m.Update(sec(at.now), nil)
		if m.Candidate().Exec != sec(at.exec) || m.Candidate().Latest != sec(6) {
			t.Errorf("at %v: exec %v, latest %v, want %v and 6 s", at.now, m.Candidate().Exec, m.Candidate().Latest, at.exec)
		}
	}
	m.SetDelay(Delay{Lead: sec(0.5).Sub(0), LeadShare: 100})
	m.Update(sec(0), nil)
	if m.Candidate().Exec != sec(4.5) {
		t.Errorf("exec %v, want 4.5 s: Lead is the more", m.Candidate().Exec)
	}
}

// A GPU granted when the window opens runs the batch at once, although the
// lead, reckoned anew, is shorter by then: the batch is finished, a planned wait
// would only keep the GPU from others.
func TestGrantedBatchDoesNotWait(t *testing.T) {
	m := example(t, func(c *Config) { c.Window, c.Delay = WindowDeferred, Delay{Ctrl: mono.Second / 4, LeadShare: 4} })
	push(t, m, 12)
	m.Update(0, nil)
	now := m.Candidate().Exec.Add(-m.Candidate().Delay)
	batch, _, start := m.Take(now, Offer{FreeAt: mono.Past}, nil, nil)
	if len(batch) != 1 || start != sec(2) {
		t.Errorf("a batch of %d starts at %v, want 1 at 2 s", len(batch), start)
	}
}

// Section 3.1: a batch that cannot grow has nothing to wait for.
func TestFullBatchRunsAtOnce(t *testing.T) {
	m := example(t, nil)
	push(t, m, 100, 100, 100, 100, 100, 100, 100)
	m.Update(0, nil)
	if got := m.Candidate().Exec; got != sec(100-13) {
		t.Fatalf("7 of 8: exec %v, want 87 s", got)
	}
	push(t, m, 100, 100)
	m.Update(0, nil)
	if c := m.Candidate(); c.Size != 8 || c.Exec != 0 {
		t.Fatalf("9 wait, 8 is the largest batch: %+v, want 8 at once", c)
	}
}

// Section 3.4: eager is exec = now.
func TestEagerWindow(t *testing.T) {
	m := example(t, func(c *Config) { c.Window = WindowEager })
	push(t, m, 12)
	m.Update(sec(1), nil)
	if want := (Candidate{Batch: Batch{Size: 1}, Exec: sec(1), Latest: sec(6)}); m.Candidate() != want {
		t.Fatalf("%+v, want %+v", m.Candidate(), want)
	}
}

// Section 3.4: timeout is exec = first arrival + k; the batch is what still
// fits then.
func TestTimeoutWindow(t *testing.T) {
	m := example(t, func(c *Config) { c.Window, c.Timeout = WindowTimeout, sec(2).Sub(0) })
	push(t, m, 12, 12)
	m.Update(0, nil)
	if want := (Candidate{Batch: Batch{Size: 2}, Exec: sec(2), Latest: sec(5)}); m.Candidate() != want {
		t.Errorf("k = 2: %+v, want %+v", m.Candidate(), want)
	}
	m = example(t, func(c *Config) { c.Window, c.Timeout = WindowTimeout, sec(4.5).Sub(0) })
	push(t, m, 12, 12, 12, 12)
	m.Update(0, nil)
	if want := (Candidate{Batch: Batch{Size: 2}, Exec: sec(4.5), Latest: sec(5)}); m.Candidate() != want {
		t.Errorf("k = 4.5: %+v, want %+v", m.Candidate(), want)
	}
}

// GETBATCH: "a maximum set of requests that can finish within the deadline",
// with Figure 18's delay(b) = d_ctrl + d_data*b and the GPU's free time:
// compared with trying every size, for mixed deadlines.
func TestLargestBatchThatFits(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 5000 {
		p, _ := profile.Linear(mono.Dur(r.Int64N(20)), mono.Dur(1+r.Int64N(60)), 1+r.IntN(12))
		delay := Delay{Ctrl: mono.Dur(r.Int64N(10)), Data: mono.Dur(r.Int64N(4))}
		m := NewModel(Config{Profile: p, SLO: 200, Policy: PolicyHead, QueueMax: 100, Delay: delay, Share: OneGPU})
		earliestDeadline := mono.Never
		for range 1 + r.IntN(15) {
			d := mono.Time(100 + r.Int64N(150))
			earliestDeadline = min(earliestDeadline, d)
			m.Push(0, d, 0, 0)
		}
		now, free, waiting := mono.Time(r.Int64N(30)), mono.Time(r.Int64N(100)), m.Len()
		alone, want := 0, 0
		for b := 1; b <= min(waiting, p.MaxBatch()); b++ {
			start := now.Add(delay.Of(b))
			if start.Add(p.Latency(b)) <= earliestDeadline {
				alone = b
			}
			if max(start, free).Add(p.Latency(b)) <= earliestDeadline {
				want = b
			}
		}
		if alone == 0 {
			continue // the head is dropped: another test
		}
		m.Update(now, nil)
		if got := int(m.Candidate().Size); got != alone {
			t.Fatalf("seed %d round %d: candidate of %d, want %d", seed, round, got, alone)
		}
		batch, _, exec := m.Take(now, Offer{FreeAt: free}, nil, nil)
		if len(batch) != want {
			t.Fatalf("seed %d round %d: took %d, want %d", seed, round, len(batch), want)
		}
		if want > 0 && (exec < free || exec < now.Add(delay.Of(want)) || exec.Add(p.Latency(want)) > earliestDeadline) {
			t.Fatalf("seed %d round %d: starts at %v, GPU free at %v, due %v", seed, round, exec, free, earliestDeadline)
		}
	}
}

// Figure 18's drop timer: the candidate stands until NextWake and not beyond;
// a head that can no longer make it alone is dropped then, not before.
func TestCandidateExpires(t *testing.T) {
	m := example(t, func(c *Config) { c.Delay = Delay{Ctrl: mono.Second} })
	push(t, m, 12, 12)
	m.Update(0, nil)
	for _, want := range []struct {
		size int
		wake float64
	}{{2, 4}, {1, 5}, {0, 0}} {
		if got := int(m.Candidate().Size); got != want.size {
			t.Fatalf("candidate of %d, want %d", got, want.size)
		}
		if want.size == 0 {
			break
		}
		wake := m.NextWake()
		if wake != sec(want.wake)+1 {
			t.Fatalf("expires at %v, want just after %v s", wake, want.wake)
		}
		if drops := m.Update(wake-1, nil); len(drops) != 0 || int(m.Candidate().Size) != want.size {
			t.Fatalf("changed before it expired: %+v, drops %v", m.Candidate(), drops)
		}
		drops := m.Update(wake, nil)
		if want.size == 1 && (len(drops) != 2 || drops[0].Reason != wire.ReasonDeadline) {
			t.Fatalf("drops %v, want both requests, for deadline", drops)
		}
	}
	if m.NextWake() != mono.Never {
		t.Fatal("a timer without a candidate")
	}
}

// Requests of one model may have different SLOs: those due first go first, and
// the batch's d is the earliest.
func TestMixedSLOs(t *testing.T) {
	m := example(t, nil)
	push(t, m, 30, 12, 20, 12) // slots 0 to 3
	m.Update(0, nil)
	if c := m.Candidate(); c.Size != 4 || c.Latest != sec(12-9) {
		t.Fatalf("%+v, want 4 with latest 3 s", c)
	}
	batch, _, _ := m.Take(sec(5), Offer{FreeAt: sec(5)}, nil, nil) // 7 s are left: 2 fit
	if len(batch) != 2 || batch[0] != 1 || batch[1] != 3 {
		t.Fatalf("took %v, want slots 1 and 3, the first due, in order of arrival", batch)
	}
}

func TestQueueIsBounded(t *testing.T) {
	m := example(t, func(c *Config) { c.QueueMax = 2 })
	push(t, m, 50, 50)
	if m.Push(0, sec(50), 0, 9) {
		t.Fatal("a third request in a queue of two")
	}
}

// A GPU that is free too late for the head is left alone; the head stays.
func TestGPUTooLate(t *testing.T) {
	m := example(t, nil)
	push(t, m, 12)
	batch, drops, _ := m.Take(0, Offer{FreeAt: sec(7)}, nil, nil)
	if len(batch)+len(drops) != 0 || m.Len() != 1 {
		t.Fatalf("took %v, dropped %v, %d left", batch, drops, m.Len())
	}
}
