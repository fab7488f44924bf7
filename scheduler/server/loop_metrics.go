package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/transport/histogram"
	"github.com/symphony-serving/symphony/transport/mono"
)

// loopMetrics are of the engine's loops and their rings, one label set a loop.
// The counters are the loops' own and always on: what they cost is in every
// figure of `symphony bench scheduler`.
type loopMetrics struct {
	turns, wakes, full, decided, waiting, burst, late, reckoned, formed *prometheus.Desc
}

func newLoopMetrics() loopMetrics {
	of := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("symphony_loop_"+name, help, []string{"pool", "loop"}, nil)
	}
	return loopMetrics{
		turns:    of("turns_total", "Turns of a loop of the scheduler."),
		wakes:    of("wakeups_total", "Sleeps of the loop's thread that others ended."),
		full:     of("ring_full_total", "Requests refused because the loop's ring was full."),
		decided:  of("dispatches_total", "Batches that left the loop; of the rank loop: grants."),
		waiting:  of("ring_depth", "Inputs in the loop's rings."),
		burst:    of("ring_burst_max", "Most inputs of one ring that the loop found in a turn."),
		late:     of("lateness_seconds", "From when a grant was due until it left the rank loop, or from when a batch was due until it left the model loop."),
		reckoned: of("planned_lateness_seconds", "How late the loop plans that its orders may leave, while GPUs are idle: learnt from how late they left."),
		formed:   of("candidate_seconds", "From a request's arrival until its model had a candidate with it; one in eight is timed."),
	}
}

func (m *loopMetrics) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.turns, m.wakes, m.full, m.decided, m.waiting, m.burst, m.late, m.reckoned, m.formed} {
		ch <- d
	}
}

func (m *loopMetrics) collect(ch chan<- prometheus.Metric, l *engine.LoopStats, labels ...string) {
	put := func(d *prometheus.Desc, t prometheus.ValueType, v uint64) {
		ch <- prometheus.MustNewConstMetric(d, t, float64(v), labels...)
	}
	put(m.turns, prometheus.CounterValue, l.Turns)
	put(m.wakes, prometheus.CounterValue, l.Wakes)
	put(m.full, prometheus.CounterValue, l.Full)
	put(m.decided, prometheus.CounterValue, l.Dispatches)
	put(m.waiting, prometheus.GaugeValue, uint64(max(0, l.Waiting)))
	put(m.burst, prometheus.GaugeValue, l.BurstMax)
	putHistogram(ch, m.late, &l.Late, labels)
	ch <- prometheus.MustNewConstMetric(m.reckoned, prometheus.GaugeValue, l.Reckoned.Seconds(), labels...)
	if l.Formed.Count > 0 {
		putHistogram(ch, m.formed, &l.Formed, labels)
	}
}

// bounds of the histograms: 10 us to 100 ms.
var bounds = [...]mono.Dur{10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 100_000_000}

func putHistogram(ch chan<- prometheus.Metric, d *prometheus.Desc, c *histogram.Counts, labels []string) {
	buckets := map[float64]uint64{}
	for i, n := range c.Cumulative(bounds[:]) {
		buckets[bounds[i].Seconds()] = n
	}
	ch <- prometheus.MustNewConstHistogram(d, c.Count, c.Sum.Seconds(), buckets, labels...)
}
