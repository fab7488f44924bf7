package workload

import (
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Mapping says which model a function's requests go to.
type Mapping string

const (
	// Striped: function i, in no order, is of model i modulo Models: popular functions lie
	// on models of every kind.
	Striped Mapping = "striped"
	// Sorted: of N functions the i-th most popular is of model Models*i/N, rounded down:
	// the popular ones share the first models. So Clockwork's published code has it.
	Sorted Mapping = "sorted"
)

// MAFConfig of MAF.
type MAFConfig struct {
	Functions int // 0: 17,000
	Models    int
	Mapping   Mapping // "": Striped
	Rate      float64 // requests/s over all; 0: 4,860.6
	Seed      uint64
}

// What Clockwork's section 6.5 tells of the trace that it replays.
const (
	mafFunctions = 17_000
	mafRate      = 4860.6
)

// MAF is a synthetic stand-in for the Azure Functions trace, which Functions replays
// where somebody has it: many functions whose rates span eight decades, timers with
// periods of minutes and hours, bursts, and between them Poisson arrivals. Its total is
// Clockwork's. How many functions are how rare, and how high the spikes are, is chosen so
// that Clockwork's own scheduler, with 4,026 models on 12 GPUs, finds about what its section
// 6.5 tells: 54 % of the models are cold in a minute, 178 requests/s are, and, with the seed
// that it was made with (101), spikes cost little; other seeds are harder
// (docs/decisions/0073-a-trace-like-clockworks.md says by how much). Wherever it is plotted it
// is to be called synthetic.
//
// Rates do not depend on the seed: they are the quantiles of one distribution. The seed
// says which function is of which kind and which model, and when requests come. As one
// function makes two in five of all requests, its model decides how hard a seed is.
//
// Rejected: a row of counts per minute for each function, for Functions to replay. A
// request costs a heap of all models there; here most come from one stream, O(1).
type MAF struct {
	rand   random
	mean   float64 // gap of the Poisson stream in ns
	at     float64 // its next arrival, ns
	models []int32 // of the Poisson functions
	pick   picker
	asked  []float64 // model -> requests/s
	pulses []pulse
	next   pq.Heap // pulse -> instant of its next request
}

// pulse is a function that asks now and then: a timer, or bursts by chance.
type pulse struct {
	model  int32
	period float64 // ns from begin to begin; their mean where random
	random bool
	count  float64 // requests each time, on average
	length float64 // ns over which they spread
	begin  float64 // ns, of the present one
	spread spread
}

// mafRates is the distribution of the functions' rates: quantiles, and log10 of requests/s
// before the sum is scaled. Between two of them the logarithm is on the line that joins
// them. Seven in ten functions are hardly ever asked, most others every 7 to 10 seconds, and a
// few make most requests: one alone makes two in five.
func mafRates() (at, log10 []float64) {
	return []float64{0, 0.40, 0.71, 0.75, 0.97, 0.995, 0.9995, 1}, []float64{-4.2, -4, -3.5, -0.4, -0.3, 0.3, 1.6, 4}
}

// rates are the functions' rates in requests/s, rising; their sum is total.
func rates(n int, total float64) []float64 {
	const ln10 = 2.302585092994046
	at, log := mafRates()
	out, sum, k := make([]float64, n), 0.0, 0
	for i := range out {
		u := (float64(i) + 0.5) / float64(n)
		for u > at[k+1] {
			k++
		}
		part := (u - at[k]) / (at[k+1] - at[k])
		out[i] = exp(float64(ln10 * (log[k] + float64(part*(log[k+1]-log[k])))))
		sum += out[i]
	}
	for i := range out {
		out[i] = float64(out[i]*total) / sum
	}
	return out
}

// NewMAF checks the configuration.
func NewMAF(cfg MAFConfig) (*MAF, error) {
	if cfg.Functions == 0 {
		cfg.Functions = mafFunctions
	}
	if cfg.Rate == 0 {
		cfg.Rate = mafRate
	}
	if cfg.Mapping == "" {
		cfg.Mapping = Striped
	}
	switch {
	case cfg.Models < 1 || cfg.Functions < 1 || cfg.Functions > 1<<24:
		return nil, fmt.Errorf("%w: %d functions of %d models, must be at least 1, and at most %d functions", ErrInvalid, cfg.Functions, cfg.Models, 1<<24)
	case !(cfg.Rate >= rateMin && cfg.Rate <= rateMax):
		return nil, fmt.Errorf("%w: rate %g, must be %g to %g requests/s", ErrInvalid, cfg.Rate, rateMin, rateMax)
	case cfg.Mapping != Striped && cfg.Mapping != Sorted:
		return nil, fmt.Errorf("%w: mapping %q, must be %s or %s", ErrInvalid, cfg.Mapping, Striped, Sorted)
	}
	m := &MAF{rand: newRandom(cfg.Seed, 0x6d6166)}
	all := rates(cfg.Functions, cfg.Rate)
	model := m.place(&cfg)
	m.asked = make([]float64, cfg.Models)
	var weights []float64
	sum := 0.0
	for i, rate := range all {
		m.asked[model[i]] += rate
		if p, ok := m.pulse(rate); ok {
			p.model = model[i]
			m.pulses = append(m.pulses, p)
			continue
		}
		m.models, weights = append(m.models, model[i]), append(weights, rate)
		sum += rate
	}
	for k := range m.pulses {
		m.start(k)
	}
	m.at = -1 // no such stream
	if sum > 0 {
		m.pick, m.mean = newPicker(weights), 1e9/sum
		m.at = float64(m.mean * m.rand.exponential())
	}
	return m, nil
}

// Rates are the mean requests/s of each model. The caller must not change them.
func (m *MAF) Rates() []float64 { return m.asked }

// place is the model of each function, which are in rising order of their rates.
func (m *MAF) place(cfg *MAFConfig) []int32 {
	out := make([]int32, cfg.Functions)
	if cfg.Mapping == Sorted {
		for i := range out {
			out[cfg.Functions-1-i] = int32(int64(cfg.Models) * int64(i) / int64(cfg.Functions))
		}
		return out
	}
	order := make([]int, cfg.Functions)
	for i := range order {
		j := int(float64(m.rand.uniform() * float64(i+1)))
		order[i], order[j] = order[j], i
	}
	for row, i := range order {
		out[i] = int32(row % cfg.Models)
	}
	return out
}

// Shares of the kinds. A third of the functions that are asked less than twice a minute
// are timers. Of those between once in five minutes and once a second 1.6 % run once an hour
// or each quarter of an hour, with all their requests in one minute (the spikes of Figure
// 8), and 8 % in bursts by chance.
const (
	timersBelow, timers             = 1.0 / 30, 1.0 / 3
	pulsesAbove, pulsesBelow        = 1.0 / 300, 1.0
	hourly, quarterly, burstsChance = 0.007, 0.009, 0.08
	burstMean, burstGap             = 20, 0.5e9 // requests, and ns from one to the next
)

// pulse draws a function's kind; not ok: its requests are a Poisson process.
func (m *MAF) pulse(rate float64) (p pulse, ok bool) {
	u := m.rand.uniform()
	p.length = minuteNs
	switch {
	case rate > pulsesAbove && rate < pulsesBelow && u >= 1-hourly:
		p.period = 60 * minuteNs
	case rate > pulsesAbove && rate < pulsesBelow && u >= 1-hourly-quarterly:
		p.period = 15 * minuteNs
	case rate > pulsesAbove && rate < pulsesBelow && u >= 1-hourly-quarterly-burstsChance:
		p.random, p.period, p.length = true, float64(burstMean*1e9)/rate, burstMean*burstGap
	case rate < timersBelow && u < timers:
		periods := []float64{1, 5, 15, 60, 24 * 60}
		k, _ := slices.BinarySearchFunc(periods, rate, func(minutes, rate float64) int {
			if float64(rate*minutes*60) < 1 {
				return -1
			}
			return 1
		})
		p.period = float64(periods[min(k, len(periods)-1)] * minuteNs)
		// Most timers of hours and quarters fire with the clock, a day's when they like.
		if minutes := p.period / minuteNs; m.rand.uniform() < 0.5 || minutes > 60 {
			p.begin = float64(float64(int(float64(m.rand.uniform()*minutes))) * minuteNs)
		}
	default:
		return pulse{}, false
	}
	p.count = float64(rate*p.period) / 1e9
	return p, true
}

// start begins a pulse's first span. Those by chance are in the middle of their rhythm.
func (m *MAF) start(k int) {
	p := &m.pulses[k]
	if p.random {
		p.begin = float64(p.period * m.rand.exponential())
	}
	m.fill(k)
}

// fill draws the requests of a pulse's present span, and of the next one that has any.
func (m *MAF) fill(k int) {
	p := &m.pulses[k]
	for {
		n := m.rand.whole(p.count)
		if p.random {
			n = m.rand.whole(float64(p.count * m.rand.exponential()))
		}
		if n > 0 {
			p.spread = spread{at: p.begin, end: p.begin + p.length, left: n}
			m.next.Set(uint32(k), int64(p.spread.next(&m.rand)))
			return
		}
		m.later(p)
	}
}

// later moves a pulse to its next span.
func (m *MAF) later(p *pulse) {
	gap := p.period
	if p.random {
		gap = p.length + float64((p.period-p.length)*m.rand.exponential())
	}
	p.begin += gap
}

// Next implements Source; it has no end.
func (m *MAF) Next() (mono.Time, int, bool) {
	if m.next.Len() > 0 {
		k, at := m.next.Min()
		if m.at < 0 || float64(at) <= m.at {
			p := &m.pulses[k]
			if p.spread.left > 0 {
				m.next.Set(k, int64(p.spread.next(&m.rand)))
			} else {
				m.later(p)
				m.fill(int(k))
			}
			return mono.Time(at), int(p.model), true
		}
	}
	at := m.at
	m.at += float64(m.mean * m.rand.exponential())
	return mono.Time(at), int(m.models[m.pick.pick(&m.rand)]), true
}
