package cold

import (
	"sync"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Counts is what became of the requests of a span, live or simulated, and what GPUs and links did.
type Counts struct {
	From, To float64 // s
	Models   int     // besides the steady one, that were asked at the end
	Offered  int64
	Steady   int64            // of them, of the steady model
	InTime   int64            // answered with an output, within the SLO
	Late     int64            // answered with an output after it
	Refused  map[string]int64 // by reason
	Cold     int64            // of the outputs, that waited for a load
	Loads    int64            // that ended
	Unloads  int64            `json:",omitzero"` // evictions; not known of the simulator
	Links    float64          // share of their time that they copied
	GPUs     float64          // share of their time that they ran batches
	P50, P99 float64          // ms, of the outputs
	Max      float64
	Silent   float64 `json:",omitzero"` // ms: the longest without any answer; of live runs
	Stalled  float64 `json:",omitzero"` // ms: the most that a goroutine of this process woke late
	Waited   float64 `json:",omitzero"` // s per second that all its threads could run and had no processor
}

// Goodput is requests/s in time.
func (c *Counts) Goodput() float64 { return float64(c.InTime) / max(1e-9, c.To-c.From) }

// LoadsPerSecond is those that ended.
func (c *Counts) LoadsPerSecond() float64 { return float64(c.Loads) / max(1e-9, c.To-c.From) }

// Share is the part of what was offered.
func (c *Counts) Share(n int64) float64 { return float64(n) / float64(max(1, c.Offered)) }

// Outputs is the answers with one.
func (c *Counts) Outputs() int64 { return c.InTime + c.Late }

// Hit is the share of the outputs that did not wait for a load.
func (c *Counts) Hit() float64 { return 1 - float64(c.Cold)/float64(max(1, c.Outputs())) }

// Missed is the requests that nobody refused, and that were not in time: an output came after the SLO, or nothing
// had come by then, or the generator itself was too late to send them.
func (c *Counts) Missed() int64 { return c.Late + c.Refused["expired"] + c.Refused["generator_late"] }

// NotRefusedInTime is the share of those that nobody refused.
func (c *Counts) NotRefusedInTime() float64 {
	return float64(c.InTime) / float64(max(1, c.InTime+c.Missed()))
}

// counter fills Counts, of equal spans and of all. Instants count from the begin of the counted span.
type counter struct {
	slo    mono.Dur
	every  mono.Dur
	models func(at mono.Time) int // that are asked then, besides the steady one

	mu    sync.Mutex // Guards what follows.
	spans []span
	all   span
	heard mono.Time // the last answer
}

// span is one, and what is made Counts of at the end.
type span struct {
	Counts
	latency     *report.Spans
	copied, ran mono.Dur
	silent      mono.Dur
	stalled     mono.Dur
	waits       mono.Dur
}

func newSpan() span {
	return span{Counts: Counts{Refused: map[string]int64{}}, latency: report.NewSpans(mono.Microsecond)}
}

func newCounter(slo, total mono.Dur, n int, models func(mono.Time) int) *counter {
	c := &counter{slo: slo, every: (total + mono.Dur(n) - 1) / mono.Dur(n), models: models, all: newSpan()}
	for range n {
		c.spans = append(c.spans, newSpan())
	}
	return c
}

// in has f change the span of an instant, and the whole; what is outside is not counted.
func (c *counter) in(at mono.Time, f func(*span)) {
	if at < 0 || int(at.Sub(0)/c.every) >= len(c.spans) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.spans[at.Sub(0)/c.every])
	f(&c.all)
}

// output counts a request that came at an instant and got one.
func (c *counter) output(at mono.Time, model int, latency mono.Dur, cold bool) {
	c.in(at, func(s *span) {
		s.came(model)
		if latency > c.slo {
			s.Late++
		} else {
			s.InTime++
		}
		if cold {
			s.Cold++
		}
		s.latency.Add(latency)
	})
}

// refused counts one that got none.
func (c *counter) refused(at mono.Time, model int, reason string) {
	c.in(at, func(s *span) {
		s.came(model)
		s.Refused[reason]++
	})
}

func (s *span) came(model int) {
	s.Offered++
	if model == 0 {
		s.Steady++
	}
}

// copied counts a load that ended.
func (c *counter) copied(start, end mono.Time) {
	c.in(end, func(s *span) { s.Loads++ })
	c.lay(start, end, func(s *span) *mono.Dur { return &s.copied })
}

// unloaded counts an eviction.
func (c *counter) unloaded(at mono.Time) { c.in(at, func(s *span) { s.Unloads++ }) }

// ran counts a batch's time.
func (c *counter) ran(start, end mono.Time) {
	c.lay(start, end, func(s *span) *mono.Dur { return &s.ran })
}

// answered counts that an answer came then, to whichever request.
func (c *counter) answered(at mono.Time) {
	c.in(at, func(s *span) { s.silent = max(s.silent, at.Sub(c.heard)) })
	c.mu.Lock()
	c.heard = max(c.heard, at)
	c.mu.Unlock()
}

// woke counts how late a goroutine was.
func (c *counter) woke(at mono.Time, late mono.Dur) {
	c.in(at, func(s *span) { s.stalled = max(s.stalled, late) })
}

// waited adds how long threads had no processor.
func (c *counter) waited(at mono.Time, d mono.Dur) { c.in(at, func(s *span) { s.waits += d }) }

// lay adds a time to the spans that it lies in.
func (c *counter) lay(start, end mono.Time, of func(*span) *mono.Dur) {
	start, end = max(0, start), min(end, mono.Time(c.every)*mono.Time(len(c.spans)))
	for start < end {
		stop := min(end, (start/mono.Time(c.every)+1)*mono.Time(c.every))
		c.in(start, func(s *span) { *of(s) += stop.Sub(start) })
		start = stop
	}
}

// end makes the Counts, of what was over by an instant; gpus share the time.
func (c *counter) end(total mono.Dur, gpus int) (all Counts, spans []Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.spans {
		from := c.every * mono.Dur(i)
		if from >= total {
			break
		}
		spans = append(spans, c.spans[i].counts(from, min(total, from+c.every), gpus, c.models))
	}
	return c.all.counts(0, total, gpus, c.models), spans
}

func (s *span) counts(from, to mono.Dur, gpus int, models func(mono.Time) int) Counts {
	k := s.Counts
	k.From, k.To, k.Models = from.Seconds(), to.Seconds(), models(mono.Time(to-1))
	whole := float64(to-from) * float64(gpus)
	k.Links, k.GPUs = float64(s.copied)/whole, float64(s.ran)/whole
	k.Silent, k.Stalled, k.Waited = s.silent.Millis(), s.stalled.Millis(), s.waits.Seconds()/max(1e-9, (to-from).Seconds())
	k.P50, k.P99, k.Max = s.latency.Percentile(50).Millis(), s.latency.Percentile(99).Millis(), s.latency.Max().Millis()
	return k
}
