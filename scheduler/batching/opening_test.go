package batching

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// learnt feeds the opening starts that come as late after the opened window
// as wait draws, until it has settled, and returns its mean lead afterwards.
func learnt(s start, wait func(*rand.Rand) mono.Dur) mono.Dur {
	var o opening
	r := rand.New(rand.NewPCG(1, 2))
	var sum mono.Dur
	const settle, rounds = 4000, 20000
	for i := range rounds {
		k := s
		k.late = wait(r) - o.lead
		o.learn(k, mono.Second)
		if i >= settle {
			sum += o.lead
		}
	}
	return sum / (rounds - settle)
}

// The lead is the quantile of the waits at 1 - early/late; 0 where early is
// dearer.
func TestOpeningIsAQuantile(t *testing.T) {
	exponential := func(r *rand.Rand) mono.Dur { return mono.Dur(r.ExpFloat64() * float64(mono.Millisecond)) }
	for _, c := range []struct {
		gap  mono.Dur
		want float64 // quantile: with nothing lost, 1 - early/late = 1 - 2*alpha/gap
	}{{4 * mono.Millisecond, 0.5}, {8 * mono.Millisecond, 0.75}, {20 * mono.Millisecond, 0.9}, {mono.Millisecond, 0}} {
		s := start{size: 8, per: 2 * mono.Millisecond, fix: mono.Millisecond, alpha: mono.Millisecond, gap: c.gap, rivals: true}
		got, want := learnt(s, exponential).Millis(), -math.Log(1-c.want)
		if math.Abs(got-want) > 0.12*(want+1) {
			t.Errorf("gap %v: lead %.2f ms, the quantile is %.2f ms", c.gap, got, want)
		}
	}
}

// Where a GPU is always free, the window does not open before frontrun.
func TestNoLeadWhereGPUsAreFree(t *testing.T) {
	s := start{size: 8, per: 2 * mono.Millisecond, fix: mono.Millisecond, alpha: mono.Millisecond, gap: mono.Millisecond, rivals: true}
	if lead := learnt(s, func(*rand.Rand) mono.Dur { return 0 }); lead != 0 {
		t.Errorf("lead %v, want 0", lead)
	}
}

// A model without rivals gains nothing by opening earlier.
func TestNoLeadWithoutRivals(t *testing.T) {
	s := start{size: 8, per: 2 * mono.Millisecond, fix: mono.Millisecond, alpha: mono.Millisecond, gap: mono.Millisecond}
	if lead := learnt(s, func(r *rand.Rand) mono.Dur { return mono.Dur(r.Int64N(int64(mono.Millisecond))) }); lead != 0 {
		t.Errorf("lead %v, want 0", lead)
	}
}

// Lost requests make late starts dearer: the window opens earlier.
func TestLossesOpenEarlier(t *testing.T) {
	var calm, losing opening
	r := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		wait := mono.Dur(r.ExpFloat64() * float64(mono.Millisecond))
		s := start{size: 8, per: 2 * mono.Millisecond, fix: mono.Millisecond, alpha: mono.Millisecond, gap: mono.Millisecond / 4, rivals: true}
		k := s
		s.late, k.late = wait-calm.lead, wait-losing.lead
		calm.learn(s, mono.Second)
		losing.fresh++
		losing.learn(k, mono.Second)
	}
	if losing.lead < 2*calm.lead {
		t.Errorf("lead %v with losses, %v without", losing.lead, calm.lead)
	}
}

// A candidate that no GPU takes in time counts as a late start: a model whose
// window is narrow learns from it, or it would never be granted anything.
func TestMissedCandidateOpensEarlier(t *testing.T) {
	m := example(t, func(c *Config) { c.Window = WindowDeferred })
	m.rivals = true
	for i := range 5 {
		at := float64(100 * i)
		push(t, m, at+12, at+12, at+12)
		m.Update(sec(at), nil)
		m.Update(sec(at+12), nil)
	}
	if m.opening.lead == 0 || m.Len() != 0 {
		t.Errorf("lead %v after five missed candidates, %d wait", m.opening.lead, m.Len())
	}
}

// The gap of even arrivals is 1/rate (half of it for constant gaps, where the
// next request is never far); that of bursts is longer.
func TestGap(t *testing.T) {
	gap := func(next func(i int, r *rand.Rand) float64) float64 {
		var a arrivals
		r := rand.New(rand.NewPCG(5, 6))
		at := 0.0
		for i := range 200_000 {
			at += next(i, r)
			a.request(mono.Time(at*1e6), mono.Second)
		}
		return a.gap().Millis()
	}
	for _, c := range []struct {
		name string
		next func(i int, r *rand.Rand) float64 // ms
		want float64
	}{
		{"Poisson, 1 per ms", func(_ int, r *rand.Rand) float64 { return r.ExpFloat64() }, 1},
		{"constant, 1 per ms", func(int, *rand.Rand) float64 { return 1 }, 0.5},
		{"ten at once each 10 ms", func(i int, _ *rand.Rand) float64 { return float64(10 * (1 - min(1, i%10))) }, 5},
	} {
		if got := gap(c.next); math.Abs(got-c.want) > 0.15*c.want {
			t.Errorf("%s: gap %.2f ms, want %.2f", c.name, got, c.want)
		}
	}
}

// What was before a long pause, and the pause, are no load; nor is what came
// before the first batch.
func TestRateAfterAPause(t *testing.T) {
	var a arrivals
	at := mono.Time(3600 * mono.Second)
	for range 2000 {
		at = at.Add(10 * mono.Millisecond)
		for range 10 {
			a.request(at, 25*mono.Millisecond)
		}
		a.batch(at, 25*mono.Millisecond)
	}
	rate := func() float64 { return 1e9 * a.rate() }
	if r := rate(); r < 990 || r > 1010 {
		t.Errorf("rate %.0f, want 1000", r)
	}
	a.batch(at.Add(3600*mono.Second), 25*mono.Millisecond)
	if r := rate(); r < 950 {
		t.Errorf("rate %.0f after an hour's pause, want nearly 1000", r)
	}
}

// The target is the smallest batch that carries the arrivals: tried out for
// every size.
func TestTargetSustainsTheLoad(t *testing.T) {
	for _, c := range []struct {
		share Share
		rate  float64 // requests/s
	}{{3 * OneGPU, 0.5}, {3 * OneGPU, 1}, {3 * OneGPU, 1.2}, {3 * OneGPU, 5}, {8 * OneGPU, 3}, {OneGPU / 2, 0.05}} {
		m := example(t, func(k *Config) { k.Share, k.Policy, k.SLO = c.share, PolicyTarget, 40*mono.Second })
		for i := range 3000 { // batches of 4, as fast as the rate has it
			m.arrivals.fresh += 4
			m.arrivals.batch(sec(4*float64(i)/c.rate), 40*mono.Second)
		}
		m.retarget()
		var want int
		for b := 1; b <= m.staggered; b++ {
			carried := float64(c.share) / float64(OneGPU) * float64(b) / m.Profile().Latency(b).Seconds()
			if want = b; carried >= c.rate {
				break
			}
		}
		if !slices.Contains([]int{want - 1, want, want + 1}, m.target) {
			t.Errorf("share %d, %g/s: target %d, want about %d of at most %d", c.share, c.rate, m.target, want, m.staggered)
		}
	}
}

// A batch nearly as efficient as the largest that can be staggered runs at
// once; one far from it waits.
func TestRipeBatchRunsAtOnce(t *testing.T) {
	m := steep(t, func(c *Config) { c.Window, c.SLO = WindowDeferred, 24*mono.Second })
	m.offered(Offer{GPUs: 7}) // pooled: l(b) <= 24*7/8 = 21 s, which is 8
	push(t, m, 24, 24, 24, 24, 24, 24)
	m.Update(0, nil)
	if c := m.Candidate(); c.Exec != sec(24-19) {
		t.Errorf("6 of 8 (93 %% as efficient): exec %v, want frontrun, 5 s", c.Exec)
	}
	push(t, m, 24)
	m.Update(0, nil)
	if c := m.Candidate(); c.Exec != 0 {
		t.Errorf("7 of 8 (97 %%): exec %v, want at once", c.Exec)
	}
}

// Requests whose deadlines nobody could keep are dropped at once and teach
// nothing: one client must not make a model eager for the others.
func TestHopelessRequestsTeachNothing(t *testing.T) {
	m := example(t, func(c *Config) { c.Window = WindowDeferred })
	m.rivals = true
	for i := range 50 {
		at := float64(100 * i)
		push(t, m, at+12)
		m.Update(sec(at), nil)
		push(t, m, at+3) // l(1) is 6
		if drops := m.Update(sec(at), nil); len(drops) != 1 {
			t.Fatalf("round %d: %d dropped, want the hopeless one", i, len(drops))
		}
		if batch, _, _ := m.Take(sec(at+5), Offer{FreeAt: sec(at + 5), Rivals: true}, nil, nil); len(batch) != 1 {
			t.Fatalf("round %d: a batch of %d", i, len(batch))
		}
		m.Update(sec(at+5), nil)
	}
	if m.opening.lead != 0 || m.opening.lost != 0 {
		t.Errorf("lead %v, lost %d after hopeless requests only", m.opening.lead, m.opening.lost)
	}
}

// However wide the window is open, a first request waits for company: for an
// eighth of what a second one saves (l(1) - 2*alpha = 7 - 4 s), and not past
// frontrun.
func TestFirstRequestWaitsForCompany(t *testing.T) {
	m := steep(t, func(c *Config) { c.Window, c.SLO = WindowDeferred, 24*mono.Second })
	m.opening.lead = 24 * mono.Second
	exec := func(now, deadline float64) mono.Time {
		m.Push(sec(now), sec(deadline), 0, 0)
		m.Update(sec(now), nil)
		return m.Candidate().Exec
	}
	if got := exec(1, 25); got != sec(1+3.0/8) {
		t.Errorf("first request: exec %v, want 1.375 s", got)
	}
	if got := exec(1.25, 25.25); got != sec(1+3.0/8) {
		t.Errorf("second one: exec %v, want 1.375 s as before", got)
	}
	if got := exec(2, 26); got != sec(2) {
		t.Errorf("third one, later: exec %v, want at once", got)
	}
	for m.Len() > 0 {
		m.PopAny()
	}
	if got := exec(3, 12.125); got != sec(3.125) { // l(2) is 9 s
		t.Errorf("with little time: exec %v, want frontrun, 3.125 s", got)
	}

	p, err := profile.Linear(3*mono.Second, 2*mono.Second, 8)
	if err != nil {
		t.Fatal(err)
	}
	m = example(t, func(c *Config) { c.Profile, c.Window, c.SLO = p, WindowDeferred, 24*mono.Second })
	m.opening.lead = 24 * mono.Second
	if got := exec(1, 25); got != sec(1) {
		t.Errorf("a model that batches weakly: exec %v, want at once", got)
	}
}

// What was learnt in a surge is forgotten when GPUs are idle for long, also where an
// early start costs next to nothing.
func TestOpeningForgets(t *testing.T) {
	s := start{size: 8, per: mono.Millisecond, fix: mono.Millisecond, alpha: mono.Microsecond, gap: mono.Second, rivals: true}
	var o opening
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 { // the surge: a GPU comes 15 to 25 ms after the window has opened
		s.late = 15*mono.Millisecond + mono.Dur(r.Int64N(int64(10*mono.Millisecond))) - o.lead
		o.learn(s, mono.Second)
	}
	surge := o.lead
	s.idle = true
	calm := func(starts int) mono.Dur {
		for range starts {
			s.late = -o.lead
			o.learn(s, mono.Second)
		}
		return o.lead
	}
	if kept := calm(calmStarts - 1); kept < surge/2 || surge < 15*mono.Millisecond {
		t.Errorf("lead %v after the surge, %v before it may be forgotten", surge, kept)
	}
	if lead := calm(20); lead > mono.Millisecond/10 {
		t.Errorf("lead %v of %v is left", lead, surge)
	}
}

// Rare requests where GPUs are scarce for ever: a late start comes once in
// minutes, and the lead that keeps it so must not be forgotten meanwhile.
func TestScarcityIsNotForgotten(t *testing.T) {
	s := start{size: 2, per: 5 * mono.Millisecond, fix: 4 * mono.Millisecond, alpha: mono.Millisecond, gap: mono.Second, rivals: true}
	r := rand.New(rand.NewPCG(1, 2))
	for _, idle := range []float64{0, 0.9} { // how often a GPU is
		var o opening
		late := 0
		const settle, rounds = 4000, 20000
		for i := range rounds {
			wait := mono.Dur(r.Int64N(int64(30 * mono.Millisecond)))
			if s.idle = r.Float64() < idle; s.idle {
				wait = 0
			}
			if s.late = wait - o.lead; i >= settle && s.late > 0 {
				late++
			}
			o.learn(s, mono.Second)
		}
		if share := float64(late) / (rounds - settle); share > 0.01 {
			t.Errorf("a GPU is idle %.0f %% of the time: %.2f %% of the starts are late", 100*idle, 100*share)
		}
	}
}
