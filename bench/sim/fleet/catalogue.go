package fleet

import (
	"fmt"
	"math/rand/v2"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// model is one of the synthetic catalogue.
type model struct {
	number, version int
	base            *Base
	static, dynamic int64
	rate            float64 // requests/s on average over the day
	zone            int     // hours by which its day is shifted
	swing           float64 // share of the rate that the day takes and gives
	gone            bool    // removed from the catalogue

	old, heir *model    // the versions before and after it
	serves    bool      // requests for its number are its
	measured  bool      // it has a profile
	since     mono.Time // it is in the catalogue
}

// serving tells whether there is one, and it serves.
func (m *model) serving() bool { return m != nil && m.serves }

func (m *model) key() string { return fmt.Sprintf("m%d/%d", m.number, m.version) }

// hourly is a day's course, from -1 (night) to 1 (evening), at each full hour: quiet from
// 2 to 6, busy from 10 to 22. Made up, not measured.
func hourly() [24]float64 {
	return [24]float64{-0.35, -0.7, -0.9, -1, -1, -0.95, -0.8, -0.5, -0.1, 0.25, 0.5, 0.62, 0.65, 0.6, 0.58, 0.6, 0.65, 0.72, 0.82, 0.93, 1, 0.95, 0.6, 0.1}
}

// course is hourly, on a line between the hours.
func course(at mono.Time, zone int) float64 {
	const hour = 3600 * mono.Second
	h := hourly()
	i := int(mono.Dur(at) / hour)
	part := float64(mono.Dur(at)%hour) / float64(hour)
	a, b := h[(i+zone)%24], h[(i+zone+1)%24]
	return a + float64(part*(b-a))
}

// popularity is the rate of requests for the model's number at an instant of the day, in
// requests/s.
func (m *model) popularity(at mono.Time) float64 {
	return m.rate * (1 + float64(m.swing*course(at, m.zone)))
}

// rateAt is the rate of the version's own requests.
func (m *model) rateAt(at mono.Time) float64 {
	if !m.serves {
		return 0
	}
	return m.popularity(at)
}

// need is what a rate needs.
func (m *model) need(rate float64) float64 {
	return batching.Need(m.base.Profile, m.base.SLO, rate/float64(mono.Second))
}

// newCatalogue draws the models: their bases and sizes at random, their popularity by rank, the
// ranks at random, their days in a few zones. Rates are such that the need of all reaches Peak
// once in the Length.
func newCatalogue(c *Config, r *rand.Rand) ([]*model, error) {
	shares, err := workload.Shares(c.Popularity, c.Models)
	if err != nil {
		return nil, err
	}
	models := make([]*model, c.Models)
	for i := range models {
		models[i] = newModel(c, i, shares[i], r)
	}
	// The need is not in proportion to the rate (batches grow), so the scale is searched.
	low, high := 0.0, 1.0
	for peakNeed(models, high, c.Length) < c.Peak && high < 1e12 {
		high *= 2
	}
	for range 40 {
		if mid := (low + high) / 2; peakNeed(models, mid, c.Length) < c.Peak {
			low = mid
		} else {
			high = mid
		}
	}
	for _, m := range models {
		m.rate *= high
	}
	return models, nil
}

func newModel(c *Config, number int, share float64, r *rand.Rand) *model {
	const mib = 1 << 20
	zones := [...]int{0, 0, 0, 0, 0, 0, 1, 2, 8, 16} // most of the users live together
	return &model{
		number: number, version: 1, base: &c.Base[r.IntN(len(c.Base))], rate: share,
		static: mib * (20 + r.Int64N(600)), dynamic: mib * (100 + r.Int64N(900)),
		zone: zones[r.IntN(len(zones))], swing: 0.4 + float64(0.5*r.Float64()),
	}
}

// peakNeed is the greatest need of the day at a scale of the rates, looked at every half hour.
func peakNeed(models []*model, scale float64, length mono.Dur) (peak float64) {
	for at := mono.Dur(0); at < length; at += 1800 * mono.Second {
		sum := 0.0
		for _, m := range models {
			sum += m.need(scale * m.popularity(mono.Time(at)))
		}
		peak = max(peak, sum)
	}
	return peak
}

// demand is the model as the partitioner sees it, at a rate.
func (m *model) demand(rate float64) Demand {
	d := Demand{Key: m.key(), Rate: rate, Need: m.need(rate), Batch: 1, Slack: (m.base.SLO - m.base.Profile.Latency(1)).Seconds(), Static: m.static, Dynamic: m.dynamic}
	if d.Need > 0 { // need = rate * l(b)/b: the batch that takes so long
		d.Batch = m.batch(d.Need / rate)
	}
	return d
}

// batch is the size at which a request takes so many seconds of a GPU.
func (m *model) batch(each float64) float64 {
	p := m.base.Profile
	b := 1
	for b < min(p.MaxBatch(), profile.BatchMax) && p.Latency(b).Seconds()/float64(b) > each {
		b++
	}
	return float64(b)
}
