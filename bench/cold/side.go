package cold

import (
	"sync"

	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Side is what became of the requests of a real run's turns, with loads or without.
type Side struct {
	Seconds  float64
	Offered  int64
	InTime   int64            // answered with an output, within the SLO
	Late     int64            // answered with an output after it
	Refused  map[string]int64 // by reason
	Cold     int64            // of the outputs, that waited for a load
	Slowest  float64          // output, ms
	Warm     Percentiles      // of the often asked copies, that did not wait for a load
	WarmRuns Percentiles      // how long their batches ran
	ColdOnes Percentiles      // of those that did
	Loaded   Loads
	Resident int64 // most of the process in memory, bytes; 0: unknown
}

// Outputs is the answers with one.
func (s *Side) Outputs() int64 { return s.InTime + s.Late }

// Percentiles are in ms.
type Percentiles struct {
	N                  int64
	P50, P90, P99, Max float64
}

func percentiles(s *report.Spans) Percentiles {
	at := func(p float64) float64 { return s.Percentile(p).Millis() }
	return Percentiles{N: s.Count(), P50: at(50), P90: at(90), P99: at(99), Max: s.Max().Millis()}
}

// sideCounter fills a Side.
type sideCounter struct {
	mu               sync.Mutex // Guards what follows.
	side             Side
	warm, runs, cold *report.Spans
	slowest, length  mono.Dur
}

func newSideCounter() *sideCounter {
	return &sideCounter{side: Side{Refused: map[string]int64{}}, warm: report.NewSpans(mono.Microsecond), runs: report.NewSpans(mono.Microsecond), cold: report.NewSpans(mono.Microsecond)}
}

// turned adds a turn's length, memory and loads.
func (c *sideCounter) turned(length mono.Dur, resident int64, loads Loads) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.length += length
	c.side.Resident = max(c.side.Resident, resident)
	c.side.Loaded = c.side.Loaded.more(loads)
}

func (c *sideCounter) end() Side {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.side
	s.Seconds, s.Slowest = c.length.Seconds(), c.slowest.Millis()
	s.Warm, s.WarmRuns, s.ColdOnes = percentiles(c.warm), percentiles(c.runs), percentiles(c.cold)
	return s
}

// sideObserver counts answers; the first hot copies are the often asked ones.
type sideObserver struct {
	count *sideCounter
	hot   int
}

// Observe implements load.Observer.
func (o *sideObserver) Observe(b load.Observation) {
	c := o.count
	c.mu.Lock()
	defer c.mu.Unlock()
	c.side.Offered++
	switch b.Answer.Reason {
	case "":
		c.side.InTime++
	case "late":
		c.side.Late++
	default:
		c.side.Refused[b.Answer.Reason]++
		return
	}
	c.slowest = max(c.slowest, b.Latency)
	switch {
	case b.Answer.Cold:
		c.side.Cold++
		c.cold.Add(b.Latency)
	case b.Model < o.hot:
		c.warm.Add(b.Latency)
		c.runs.Add(b.Answer.Execute)
	}
}
