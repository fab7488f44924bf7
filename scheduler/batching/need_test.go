package batching

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// between is f at a real x, on the line between its neighbours.
func between(f func(int) float64, x float64) float64 {
	b := int(x)
	if float64(b) == x {
		return f(b)
	}
	return f(b) + (x-float64(b))*(f(b+1)-f(b))
}

// slowNeed solves b = 1 + r*(SLO - l(b)) by halving, over real b.
func slowNeed(p *profile.Profile, slo mono.Dur, perNano float64) float64 {
	latency := func(b int) float64 { return float64(p.Latency(b)) }
	low, high := 1.0, float64(p.MaxBatch())
	for range 100 {
		if mid := (low + high) / 2; mid <= 1+perNano*(float64(slo)-between(latency, mid)) {
			low = mid
		} else {
			high = mid
		}
	}
	return perNano * between(func(b int) float64 { return latency(b) / float64(b) }, low)
}

// anyProfile is a line, or a table with steps and flat parts.
func anyProfile(t *testing.T, r *rand.Rand) *profile.Profile {
	n := 1 + r.IntN(100)
	p, err := profile.Linear(mono.Dur(r.Int64N(int64(3*mono.Millisecond))), 1+mono.Dur(r.Int64N(int64(20*mono.Millisecond))), n)
	if r.IntN(2) == 0 {
		table, at := make([]mono.Dur, n), mono.Dur(0)
		for i := range table {
			if r.IntN(3) > 0 || i == 0 {
				at += 1 + mono.Dur(r.Int64N(int64(4*mono.Millisecond)))
			}
			table[i] = at
		}
		p, err = profile.Table(table)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNeedAgainstBruteForce(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 4))
	for round := range 20_000 {
		p := anyProfile(t, r)
		slo := mono.Dur(float64(p.Latency(1)) * (0.5 + 20*r.Float64()))
		rate := math.Exp(12*r.Float64()-2) / float64(mono.Second)
		if got, want := Need(p, slo, rate), slowNeed(p, slo, rate); math.Abs(got-want) > 1e-6*want {
			t.Fatalf("seed %d, round %d: SLO %v, %v at %g/s: need %g, want %g", seed, round, slo, p.Doc(), rate*1e9, got, want)
		}
	}
}

func TestNeedByHand(t *testing.T) {
	p, err := profile.Linear(mono.Millisecond, 5*mono.Millisecond, 8)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ slo, perSecond, want float64 }{
		{12, 0, 0},
		{5, 100, 0.6},                // batches of one, though even they are too late
		{12, 1e-3, 6e-6},             // nobody else comes
		{12, 1000, 1000 * 0.009 / 4}, // 4 = 1 + 12 - l(4)
		{12, 1e6, 1e6 * 0.012 / 7},   // l(7) is 12: the longest that the SLO allows
		{20, 1e6, 1e6 * 0.013 / 8},   // no batch is larger than 8
	} {
		got := Need(p, mono.FromMillis(c.slo), c.perSecond/1e9)
		if math.Abs(got-c.want) > 0.01*c.want {
			t.Errorf("SLO %v ms, %v/s: need %g, want %g", c.slo, c.perSecond, got, c.want)
		}
	}
}

// More requests never need less, where larger batches are not less efficient: each request
// takes some time, also the one that makes the others' batch larger.
func TestNeedGrowsWithTheRate(t *testing.T) {
	const seed = 2
	r := rand.New(rand.NewPCG(seed, 5))
	for round := range 300 {
		p := anyProfile(t, r)
		slo := mono.Dur(float64(p.Latency(1)) * (0.5 + 20*r.Float64()))
		before, rate := 0.0, 0.01/float64(mono.Second)
		for rate < 1e6/float64(mono.Second) {
			n := Need(p, slo, rate)
			if n < before*(1-1e-9) {
				t.Fatalf("seed %d, round %d: SLO %v, %v: need %g at %g/s and %g with less", seed, round, slo, p.Doc(), n, rate*1e9, before)
			}
			before, rate = n, rate*1.03
		}
	}
}

// rated feeds the spans arrivals at even distances from a first to a last instant (seconds, half open).
func rated(s *spans, from, to, perSecond float64) {
	for i := 0; ; i++ {
		at := from + (float64(i)+0.5)/perSecond
		if at >= to {
			return
		}
		s.request(sec(at))
	}
}

func perSecond(s *spans) float64 { return s.perNano() * float64(mono.Second) }

func TestSpans(t *testing.T) {
	for _, c := range []struct {
		what string
		feed func(*spans)
		want float64
	}{
		{"nothing came", func(*spans) {}, 0},
		{"a first partial span tells nothing", func(s *spans) { rated(s, 10.7, 12, 1000) }, 0},
		{"nor does it count later", func(s *spans) { rated(s, 10.7, 11, 1000); rated(s, 11, 14, 100) }, 100},
		{"constant", func(s *spans) { rated(s, 10, 40, 100) }, 100},
		{"three times as much, four spans ago", func(s *spans) { rated(s, 10, 60, 100); rated(s, 60, 65, 300) }, 100 + 200*(1-math.Pow(0.8, 4))},
		{"a third, four spans ago", func(s *spans) { rated(s, 10, 60, 300); rated(s, 60, 65, 100) }, 300 - 200*(1-math.Pow(0.8, 4))},
		{"three silent spans", func(s *spans) { rated(s, 10, 60, 100); s.request(sec(63.5)) }, 100 * math.Pow(0.8, 3)},
		{"an hour of silence", func(s *spans) { rated(s, 10, 60, 100); s.request(sec(3700)) }, 0},
	} {
		var s spans
		c.feed(&s)
		if got := perSecond(&s); math.Abs(got-c.want) > 0.01*c.want+1e-3 {
			t.Errorf("%s: %.2f/s, want %.2f", c.what, got, c.want)
		}
	}
}

// A span's end is told once, with the request that comes first after it.
func TestSpansEnd(t *testing.T) {
	var s spans
	for _, c := range []struct {
		at   float64
		want bool
	}{{10.5, false}, {11.0, false}, {11.99, false}, {12.0, true}, {12.5, false}, {15.5, true}, {15.6, false}} {
		if got := s.request(sec(c.at)); got != c.want {
			t.Errorf("at %v: a span has ended: %v, want %v", c.at, got, c.want)
		}
	}
}

// The model's need follows what arrives, whatever the setting and whether anything is served.
func TestModelNeed(t *testing.T) {
	for _, set := range []Setting{{}, {Haste: HasteAll, Alone: true}} {
		m := example(t, func(c *Config) { c.Window = WindowDeferred })
		m.SetSetting(set)
		for i := range 200 {
			now := sec(100 + float64(i)/10)
			m.Push(now, now.Add(12*mono.Second), 0, 0)
			m.Update(now, nil)
			if i%4 == 0 {
				m.Take(now, Offer{FreeAt: now}, nil, nil)
				m.Update(now, nil)
			}
		}
		if want := Need(m.Profile(), 12*mono.Second, 10/float64(mono.Second)); math.Abs(m.Need()-want) > 0.01*want {
			t.Errorf("%v: need %v, want %v", set, m.Need(), want)
		}
	}
}
