package workload

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

func newMix(t testing.TB, streams []Stream, seed uint64) *Mix {
	t.Helper()
	m, err := NewMix(streams, seed)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func profileOf(t testing.TB, text string) *Profile {
	t.Helper()
	p, err := ParseProfile(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// digest hashes the first n arrivals, and checks their order.
func digest(t *testing.T, s Source, n int) uint64 {
	t.Helper()
	h, last := fnv.New64a(), mono.Time(0)
	for range n {
		at, model, ok := s.Next()
		if !ok {
			break
		}
		if at < last {
			t.Fatalf("%d ns comes after %d", at, last)
		}
		last = at
		var b [12]byte
		for i := range 8 {
			b[i] = byte(at >> (8 * i))
		}
		for i := range 4 {
			b[8+i] = byte(model >> (8 * i))
		}
		h.Write(b[:])
	}
	return h.Sum64()
}

// generatorSource adds up a Generator's gaps.
type generatorSource struct {
	g  *Generator
	at mono.Time
}

func (s *generatorSource) Next() (mono.Time, int, bool) {
	gap, model := s.g.Next()
	s.at = s.at.Add(gap)
	return s.at, model, true
}

// The first 100,000 arrivals, to the nanosecond, on every machine. A change of
// these numbers changes every published simulation: say so in CHANGELOG.
func TestGolden(t *testing.T) {
	streams := func(p Process, shape float64, profile *Profile) Source {
		var out []Stream
		for i := range 9 {
			out = append(out, Stream{p, shape, float64(10 + 7*i), profile})
		}
		return newMix(t, out, 42)
	}
	swing := profileOf(t, "diurnal:period=61s,depth=0.7*burst:period=7s,length=1s,height=5*ramp:0s=0.1,100s=2*step:50s=0.5")
	generator, err := New(Config{Process: Gamma, Shape: 0.2, Rate: 1000, Profile: swing, Models: 9, Popularity: "zipf:0.9", Seed: 42})
	if err != nil {
		t.Fatal(err)
	}
	trace, err := NewTrace(strings.NewReader(manyLines(1000)), TraceConfig{Index: index(3), Rate: 777, Speed: 1.7, Loop: true, Seed: 42})
	if err != nil {
		t.Fatal(err)
	}
	functions, err := NewFunctions(strings.NewReader(manyCounts(50, 60)), FunctionsConfig{Models: 9, Scale: 3.3, Speed: 0.9, Seed: 42})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		source Source
		want   uint64
	}{
		{"poisson", streams(Poisson, 0, nil), 0xd21c850ee0cac493},
		{"constant", streams(Constant, 0, nil), 0xb4ae456835e07c37},
		{"uniform", streams(Uniform, 0, nil), 0xfea26c96c2b66bd1},
		{"gamma 0.05", streams(Gamma, 0.05, nil), 0x38ab42d7d6291e5c},
		{"gamma 0.5", streams(Gamma, 0.5, nil), 0x351a71846c6d8716},
		{"gamma 2", streams(Gamma, 2, nil), 0xd09047b42878b3b9},
		{"poisson in a swing", streams(Poisson, 0, swing), 0x2fef12ad482a9821},
		{"gamma in a swing", streams(Gamma, 0.3, swing), 0x77219dcdc957d1cb},
		{"generator", &generatorSource{g: generator}, 0xe6b6b6630c78428d},
		{"trace", trace, 0x8dd6841f958e3efb},
		{"functions", functions, 0xbf617b7946bd9e84},
	} {
		if got := digest(t, c.source, 100_000); got != c.want {
			t.Errorf("%s: digest %#016x, want %#016x", c.name, got, c.want)
		}
	}
	if trace.Err() != nil {
		t.Error(trace.Err())
	}
}

func TestMixRates(t *testing.T) {
	for _, p := range []Process{Poisson, Gamma, Uniform, Constant} {
		streams := []Stream{{p, 0.5, 100, nil}, {p, 0.5, 0, nil}, {p, 0.5, 400, nil}, {p, 0.5, 1e-12, nil}, {p, 0.5, 25, nil}}
		m := newMix(t, streams, 9)
		counts := make([]float64, len(streams))
		const seconds = 2000
		for {
			at, model, ok := m.Next()
			if !ok || at >= mono.Time(seconds*mono.Second) {
				break
			}
			counts[model]++
		}
		for i, s := range streams {
			want := s.Rate * seconds
			if math.Abs(counts[i]-want) > 5*math.Sqrt(2*want)+1e-3 {
				t.Errorf("%s: model %d has %g arrivals, want about %g", p, i, counts[i], want)
			}
		}
	}
}

// Bursty streams do not begin with a burst: half a mean gap has half an
// arrival on average. Begun at a gap's end, they would have several.
func TestMixStartsInTheMiddle(t *testing.T) {
	streams := slices.Repeat([]Stream{{Gamma, 0.05, 1, nil}}, 20_000)
	m, count := newMix(t, streams, 10), 0
	for at, _, _ := m.Next(); at < mono.Time(mono.Second/2); at, _, _ = m.Next() {
		count++
	}
	if count < 8_500 || count > 11_500 {
		t.Errorf("%d arrivals in half a gap of 20000 streams, want about 10000", count)
	}
}

// Constant streams of one rate come in the order of their numbers.
func TestMixConstantInOrder(t *testing.T) {
	m := newMix(t, slices.Repeat([]Stream{{Process: Constant, Rate: 250}}, 4), 1)
	for i := range 12 {
		if at, model, _ := m.Next(); at != mono.Time(i)*mono.Time(mono.Millisecond) || model != i%4 {
			t.Errorf("arrival %d: model %d at %s", i, model, at)
		}
	}
}

// A model's arrivals stay when another model's rate changes.
func TestMixStreamsApart(t *testing.T) {
	of := func(rate float64) (out []mono.Time) {
		m := newMix(t, []Stream{{Gamma, 0.3, rate, nil}, {Gamma, 0.3, 50, nil}}, 3)
		for len(out) < 100 {
			if at, model, _ := m.Next(); model == 1 {
				out = append(out, at)
			}
		}
		return out
	}
	if !slices.Equal(of(10), of(999)) {
		t.Error("model 1 depends on model 0")
	}
}

func TestMixSeeds(t *testing.T) {
	s := []Stream{{Process: Poisson, Rate: 5}, {Gamma, 0.1, 5, nil}}
	if digest(t, newMix(t, s, 1), 1000) != digest(t, newMix(t, s, 1), 1000) {
		t.Error("one seed gave two workloads")
	}
	if digest(t, newMix(t, s, 1), 1000) == digest(t, newMix(t, s, 2), 1000) {
		t.Error("two seeds gave one workload")
	}
}

func TestMixAllocatesNothing(t *testing.T) {
	profile := profileOf(t, "diurnal:period=1s,depth=0.5*burst:period=3s,length=1s,height=3")
	var streams []Stream
	for _, p := range []*Profile{nil, profile} {
		for _, process := range []Process{Poisson, Poisson, Gamma, Uniform, Constant} {
			streams = append(streams, Stream{process, 0.1, 100, p})
		}
	}
	m := newMix(t, streams, 1)
	if n := testing.AllocsPerRun(10_000, func() { m.Next() }); n != 0 {
		t.Errorf("%v allocations an arrival, want 0", n)
	}
}

func TestMixRefused(t *testing.T) {
	fast := profileOf(t, "burst:period=1ms,length=1us,height=2")
	for i, s := range [][]Stream{
		nil,
		{{Process: Poisson, Rate: -1}},
		{{Process: Poisson, Rate: math.NaN()}},
		{{Process: Poisson, Rate: 2e9}},
		{{Process: "bursty", Rate: 1}},
		{{Process: Gamma, Shape: 0, Rate: 1}},
		{{Process: Gamma, Shape: math.NaN(), Rate: 1}},
		{{Process: Gamma, Shape: 101, Rate: 1}},
		{{Process: Poisson, Rate: 1e-5, Profile: fast}},
		{{Process: Poisson, Rate: 1e5, Profile: profileOf(t, "step:1s=1e-9*burst:period=1ms,length=1us,height=2")}},
	} {
		if _, err := NewMix(s, 1); !errors.Is(err, ErrInvalid) {
			t.Errorf("case %d: %v", i, err)
		}
	}
	m := newMix(t, []Stream{{Process: Poisson}}, 1)
	if at, _, ok := m.Next(); ok {
		t.Errorf("a rate of 0 has an arrival at %s", at)
	}
}

func index(n int) map[string]int {
	out := map[string]int{}
	for i := range n {
		out[fmt.Sprintf("m%d", i)] = i
	}
	return out
}
