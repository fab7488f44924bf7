package profile

import (
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

const ms = mono.Millisecond

// Largest must agree with trying every batch size, for lines and tables.
func TestLargestAgainstTrying(t *testing.T) {
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		p := random(t, r)
		budget, perItem := mono.Dur(r.Int64N(200)), mono.Dur(r.Int64N(4))
		want := 0
		for b := 1; b <= p.MaxBatch(); b++ {
			if p.Latency(b)+perItem*mono.Dur(b) <= budget {
				want = b
			}
		}
		if got := p.Largest(budget, perItem); got != want {
			t.Fatalf("seed %d: %+v: Largest(%d, %d) = %d, want %d", seed, p, budget, perItem, got, want)
		}
	}
}

func random(t *testing.T, r *rand.Rand) *Profile {
	t.Helper()
	var p *Profile
	var err error
	if r.IntN(2) == 0 {
		p, err = Linear(mono.Dur(r.Int64N(5)), mono.Dur(1+r.Int64N(50)), 1+r.IntN(40))
	} else {
		table := make([]mono.Dur, 1+r.IntN(40))
		for i := range table {
			table[i] = mono.Dur(1 + r.Int64N(100))
		}
		p, err = Table(table)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Section 3.3 and Table 2: ResNet50 on 8 GPUs at 25 ms staggers batches of 16.
func TestStaggeredBatchOfTable2(t *testing.T) {
	p, err := Linear(mono.FromMillis(1.053), mono.FromMillis(5.072), 64)
	if err != nil {
		t.Fatal(err)
	}
	if b := p.Staggered(25*ms, 8); b != 16 {
		t.Fatalf("staggered batch %d, want 16", b)
	}
	if b := p.Staggered(ms, 8); b != 1 {
		t.Fatalf("staggered batch of an impossible SLO %d, want 1", b)
	}
}

func TestTableIsMonotone(t *testing.T) {
	p, err := Table([]mono.Dur{5, 4, 7, 6})
	if err != nil {
		t.Fatal(err)
	}
	for b, want := range []mono.Dur{0, 5, 5, 7, 7} {
		if got := p.Latency(b); got != want {
			t.Errorf("l(%d) = %d, want %d", b, got, want)
		}
	}
}

func TestInterpolate(t *testing.T) {
	p, err := Interpolate([]Sample{{1, 10}, {2, 12}, {6, 20}})
	if err != nil {
		t.Fatal(err)
	}
	for b, want := range []mono.Dur{0, 10, 12, 14, 16, 18, 20} {
		if got := p.Latency(b); got != want {
			t.Errorf("l(%d) = %d, want %d", b, got, want)
		}
	}
	if _, err := Interpolate([]Sample{{2, 1}, {2, 1}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("repeated size: %v", err)
	}
}

// A batch between two sizes of a ladder takes what the larger takes.
func TestSteps(t *testing.T) {
	p, err := Steps([]Sample{{1, 10}, {2, 12}, {6, 20}})
	if err != nil {
		t.Fatal(err)
	}
	for b, want := range []mono.Dur{0, 10, 12, 20, 20, 20, 20} {
		if got := p.Latency(b); got != want {
			t.Errorf("l(%d) = %d, want %d", b, got, want)
		}
	}
	if b := p.Largest(20, 0); b != 6 {
		t.Errorf("the largest batch within 20 is %d: a rung is taken whole", b)
	}
	if _, err := Steps([]Sample{{2, 1}, {2, 1}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("repeated size: %v", err)
	}
}

func TestFit(t *testing.T) {
	var samples []Sample
	for b := 1; b <= 16; b++ {
		samples = append(samples, Sample{b, 2*ms*mono.Dur(b) + 5*ms})
	}
	l, err := Fit(samples)
	if err != nil || l.Alpha != 2*ms || l.Beta != 5*ms || l.MaxError > 1 || l.R2 < 0.999999 {
		t.Fatalf("%+v, %v", l, err)
	}
	samples[3].Latency += ms
	if l, _ = Fit(samples); l.MaxError < ms/2 || l.RMSE < ms/10 || l.RMSE > l.MaxError || l.R2 >= 1 {
		t.Fatalf("an outlier of 1 ms is not told: %+v", l)
	}
	if l, _ = Fit([]Sample{{1, 1}, {10, 100}}); l.Beta != 0 || l.Alpha < 9 {
		t.Fatalf("negative beta: %+v", l)
	}
	if _, err := Fit([]Sample{{1, 1}, {1, 2}}); !errors.Is(err, ErrInvalid) {
		t.Fatalf("one batch size: %v", err)
	}
}

func TestRefused(t *testing.T) {
	for name, f := range map[string]func() (*Profile, error){
		"no batch":   func() (*Profile, error) { return Linear(1, 1, 0) },
		"huge batch": func() (*Profile, error) { return Linear(1, 1, BatchMax+1) },
		"negative":   func() (*Profile, error) { return Linear(-1, 1, 1) },
		"zero":       func() (*Profile, error) { return Linear(0, 0, 1) },
		"overflow":   func() (*Profile, error) { return Linear(1<<60, 1, 8) },
		"no table":   func() (*Profile, error) { return Table(nil) },
		"zero entry": func() (*Profile, error) { return Table([]mono.Dur{1, 0}) },
		"document":   func() (*Profile, error) { return FromDoc(catalog.Profile{}, 4) },
	} {
		if p, err := f(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

func TestDocRoundTrip(t *testing.T) {
	line, _ := Linear(3, 4, 8)
	table, _ := Table([]mono.Dur{3, 5, 9})
	for _, p := range []*Profile{line, table} {
		q, err := FromDoc(p.Doc(), p.MaxBatch())
		if err != nil || q.Latency(3) != p.Latency(3) || q.MaxBatch() != p.MaxBatch() {
			t.Errorf("%+v became %+v, %v", p, q, err)
		}
	}
}

// TestSlowest: no faster than either, for each batch that both allow; and one that is slower
// throughout stays what it is.
func TestSlowest(t *testing.T) {
	must := func(p *Profile, err error) *Profile {
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	line, steep := must(Linear(1, 4, 8)), must(Linear(2, 2, 16))
	table := must(Table([]mono.Dur{9, 9, 9}))
	if p := Slowest(line, must(Linear(1, 3, 8))); p != line {
		t.Errorf("%v, want the line itself", p.Doc())
	}
	if p := Slowest(table, line); p.MaxBatch() != 3 || p.Latency(3) != 9 {
		t.Errorf("%v", p.Doc())
	}
	rapid.Check(t, func(r *rapid.T) {
		all := []*Profile{line, steep, table, must(Table([]mono.Dur{3, 6, 7, 30, 31}))}
		a, b := rapid.SampledFrom(all).Draw(r, "a"), rapid.SampledFrom(all).Draw(r, "b")
		p := Slowest(a, b)
		if p.MaxBatch() != min(a.MaxBatch(), b.MaxBatch()) {
			r.Fatalf("max batch %d", p.MaxBatch())
		}
		for n := 1; n <= p.MaxBatch(); n++ {
			if p.Latency(n) != max(a.Latency(n), b.Latency(n)) {
				r.Fatalf("l(%d) = %v", n, p.Latency(n))
			}
		}
	})
}
