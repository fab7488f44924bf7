package draws

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Generator numbers what Draw makes of a seed and an index. Raise it when that
// changes: kept results carry it.
const Generator = 2

// Ranges of what is drawn; of most the logarithm is uniform.
const (
	modelsMax                   = 100
	perModelMin, perModelMax    = 0.2, 8.0 // GPUs to models
	gpusMax                     = 128
	alphaMin, alphaMax          = 0.1, 5.0  // ms
	betaMin, betaMax            = 0.2, 20.0 // beta/alpha
	spreadAlpha, spreadBeta     = 10.0, 6.0 // around it, in a mix of several profiles
	sloMin, sloMax              = 2.0, 20.0 // of l(1)
	fluidMax                    = 20_000    // requests/s; see slower
	tablesIn, changesIn, stepIn = 4, 5, 2   // one mix in so many
	// changePeriod of a rate that changes divides the span (Settings.span).
	changePeriod = 20
)

// source draws for one mix.
type source struct{ *rand.Rand }

// between draws with a uniform logarithm.
func (s source) between(low, high float64) float64 {
	return low * math.Pow(high/low, s.Float64())
}

// around draws with a uniform logarithm from a range of that width about 1.
func (s source) around(width float64) float64 { return math.Pow(width, s.Float64()-0.5) }

// oneIn is true once in n.
func (s source) oneIn(n int) bool { return s.IntN(n) == 0 }

// Draw makes mix index of a seed.
//
// Half of the mixes have models of one profile; in the others alpha is spread
// over a decade and beta/alpha over a factor 6. SLOs are drawn for each model.
// A quarter have tables, a fifth rates that change.
func Draw(seed uint64, index int) *Mix {
	s := source{rand.New(rand.NewPCG(seed, 0x64726177<<32|uint64(index)))}
	n := int(math.Round(s.between(1, modelsMax)))
	m := &Mix{Seed: seed, Index: index, Kind: oneProfile, Models: make([]Model, n)}
	m.GPUs = min(gpusMax, max(1, int(math.Round(float64(n)*s.between(perModelMin, perModelMax)))))
	if s.oneIn(2) {
		m.Kind = mixedProfiles
	}
	m.Arrivals = []string{"poisson", "gamma:0.3", "gamma:0.05", "uniform"}[s.IntN(4)]
	m.Popularity = []string{"equal", "zipf:0.9"}[s.IntN(2)]
	tables := s.oneIn(tablesIn)
	s.change(m)
	s.models(m, tables)
	m.slower()
	return m
}

// change draws how the rate changes: every other time a load that goes up and
// down by steps, else short bursts.
func (s source) change(m *Mix) {
	if !s.oneIn(changesIn) {
		return
	}
	if s.oneIn(stepIn) {
		m.Change = fmt.Sprintf("burst:period=%ds,length=%ds,height=%.2f", changePeriod, changePeriod/2, s.between(1.2, 3))
	} else {
		m.Change = fmt.Sprintf("burst:period=%ds,length=%.0fms,height=%.2f", changePeriod/2, s.between(100, 2000), s.between(1.5, 5))
	}
	m.Alone = len(m.Models) > 1 && s.oneIn(3)
}

func (s source) models(m *Mix, tables bool) {
	shares, err := workload.Shares(m.Popularity, len(m.Models))
	if err != nil {
		panic("draws: " + err.Error()) // the text is Draw's own
	}
	alpha, ratio := s.between(alphaMin, alphaMax), s.between(betaMin, betaMax)
	table := s.table(tables)
	for i := range m.Models {
		a, r := alpha, ratio
		if m.Kind == mixedProfiles {
			a, r = alpha*s.around(spreadAlpha), ratio*s.around(spreadBeta)
			if i > 0 {
				table = s.table(tables)
			}
		}
		k := Model{Alpha: mono.FromMillis(a), Beta: mono.FromMillis(a * r), Share: shares[i]}
		k.Table = table.of(k.Alpha, k.Beta)
		k.SLO = mono.Dur(float64(k.single()) * s.between(sloMin, sloMax))
		m.Models[i] = k
	}
}

// shape is how a measured profile leaves its line.
type shape struct {
	step   int       // batches up to a multiple of it take about as long
	weight float64   // how much of alpha comes in such steps
	noise  []float64 // by batch size: what it was measured at
}

// table draws a shape; nil if there are to be none.
func (s source) table(wanted bool) *shape {
	if !wanted {
		return nil
	}
	t := &shape{step: 4 << s.IntN(2), weight: 0.5 + s.Float64()/2, noise: make([]float64, 16<<s.IntN(3))}
	for i := range t.noise {
		t.noise[i] = 1 + 0.06*(s.Float64()-0.5)
	}
	return t
}

// of is the table that this shape makes of a line; a nil shape makes none. A
// batch is never faster than a smaller one.
func (t *shape) of(alpha, beta mono.Dur) []mono.Dur {
	if t == nil {
		return nil
	}
	out := make([]mono.Dur, len(t.noise))
	least := mono.Dur(0)
	for i, noise := range t.noise {
		b := float64(i + 1)
		full := math.Ceil(b/float64(t.step)) * float64(t.step)
		l := mono.Dur((float64(beta) + float64(alpha)*(t.weight*full+(1-t.weight)*b)) * noise)
		least = max(least, l)
		out[i] = least
	}
	return out
}

// slower stretches all times of a mix that would carry more than fluidMax: a
// large cluster of fast models costs hours and shows what it shows at another
// pace, for schedulers have few constants of time.
func (m *Mix) slower() {
	fluid, err := m.fluid()
	if err != nil {
		panic("draws: " + err.Error()) // the profiles are Draw's own
	}
	if fluid <= fluidMax {
		return
	}
	by := fluid / fluidMax
	stretch := func(d *mono.Dur) { *d = mono.Dur(float64(*d) * by) }
	for i := range m.Models {
		k := &m.Models[i]
		stretch(&k.Alpha)
		stretch(&k.Beta)
		stretch(&k.SLO)
		for b := range k.Table {
			stretch(&k.Table[b])
		}
	}
}
