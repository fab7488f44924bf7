package clockwork

import (
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Series is what happened in each interval of a run; requests by the interval in which
// they came (Arrived, Cold) or were answered (the others).
type Series struct {
	Every      float64 // s
	Arrived    []int64
	Served     []int64 // in time
	Late       []int64
	Dropped    []int64
	Cold       []int64
	LatencySum []float64 // ms, of all that ran
	LatencyP50 []float64 // ms
	LatencyP99 []float64
	LatencyMax []float64
}

// Whole is the counts of a run, latencies in ms.
type Whole struct {
	Offered, Served      float64 // requests/s in the counted span
	Arrived, Bad, Late   int64
	Cold                 int64
	Loads, Waited        int64
	P50, P99, P9999, Max float64
	Busy, Copying        float64 // shares of the GPUs' and the links' time
	BatchMean            float64
}

// recorder observes a run. Latencies are counted in hundredths of a millisecond.
type recorder struct {
	slo      mono.Dur
	every    mono.Dur
	groupOf  func(wire.ModelID) int
	groups   []Series
	now      []histogram // by group, of the present interval
	at       []int       // by group: the present interval
	all      histogram
	from, to mono.Time // of all
	busy     []mono.Dur
	copying  []mono.Dur
	unique   []int   // models that had a cold request, by interval
	lastCold []int32 // model -> interval plus 1
}

// latencyUnit and latencyUnits bound a histogram: 200 ms; what is above counts as that.
const (
	latencyUnit  = 10 * mono.Microsecond
	latencyUnits = 20_000
)

type histogram struct {
	count []int64
	n     int64
	most  mono.Dur
}

func (h *histogram) add(d mono.Dur) {
	h.count[min(int(d/latencyUnit), latencyUnits-1)]++
	h.n++
	h.most = max(h.most, d)
}

// quantile is in ms; 0 of nothing.
func (h *histogram) quantile(q float64) float64 {
	sum := int64(0)
	for i, n := range h.count {
		if sum += n; n > 0 && float64(sum) >= q*float64(h.n) {
			return (mono.Dur(i) * latencyUnit).Millis()
		}
	}
	return 0
}

func (h *histogram) clear() {
	clear(h.count)
	h.n, h.most = 0, 0
}

func newHistogram() histogram { return histogram{count: make([]int64, latencyUnits)} }

// record observes cfg, whose models all have one SLO, by groups of models.
func record(cfg *sim.Config, every mono.Dur, groups int, groupOf func(wire.ModelID) int) *recorder {
	n := int((cfg.Warmup+cfg.Duration)/every) + 2
	r := &recorder{slo: cfg.Models[0].SLO, every: every, groupOf: groupOf, all: newHistogram(),
		from: mono.Time(cfg.Warmup), to: mono.Time(cfg.Warmup + cfg.Duration),
		busy: make([]mono.Dur, n), copying: make([]mono.Dur, n), unique: make([]int, n), lastCold: make([]int32, len(cfg.Models))}
	for range groups {
		r.groups = append(r.groups, Series{Every: every.Seconds(), Arrived: make([]int64, n), Served: make([]int64, n), Late: make([]int64, n), Dropped: make([]int64, n),
			Cold: make([]int64, n), LatencySum: make([]float64, n), LatencyP50: make([]float64, n), LatencyP99: make([]float64, n), LatencyMax: make([]float64, n)})
		r.now, r.at = append(r.now, newHistogram()), append(r.at, 0)
	}
	cfg.Observer = sim.Observer{Arrive: r.arrive, Executed: r.executed, Drop: r.drop, Cold: r.cold, Copied: r.copied}
	return r
}

func (r *recorder) index(at mono.Time) int { return min(int(at.Sub(0)/r.every), len(r.busy)-1) }

func (r *recorder) arrive(now mono.Time, m wire.ModelID) {
	r.groups[r.groupOf(m)].Arrived[r.index(now)]++
}

func (r *recorder) cold(now mono.Time, m wire.ModelID) {
	i := r.index(now)
	r.groups[r.groupOf(m)].Cold[i]++
	if r.lastCold[m] != int32(i+1) {
		r.lastCold[m] = int32(i + 1)
		r.unique[i]++
	}
}

func (r *recorder) drop(now mono.Time, d *batching.Drop) {
	r.groups[r.groupOf(wire.ModelID(d.Request.Input.Length))].Dropped[r.index(now)]++ // see sim: it tells the model
}

func (r *recorder) copied(c *sim.Copy) { r.lay(r.copying, c.Start, c.End) }

// lay adds a span to the intervals that it lies in.
func (r *recorder) lay(to []mono.Dur, start, end mono.Time) {
	for start < end {
		i := r.index(start)
		stop := end
		if i < len(to)-1 {
			stop = min(end, mono.Time(i+1)*mono.Time(r.every))
		}
		to[i] += stop.Sub(start)
		start = stop
	}
}

func (r *recorder) executed(e *sim.Execution) {
	r.lay(r.busy, e.Start, e.End)
	if !e.Kept {
		return
	}
	k, i := r.groupOf(e.Model), r.index(e.Answered)
	if r.at[k] != i {
		r.close(k)
		r.at[k] = i
	}
	g := &r.groups[k]
	for n := range e.Requests {
		arrival := e.Requests[n].Arrival
		latency := e.Answered.Sub(arrival)
		if latency <= r.slo {
			g.Served[i]++
		} else {
			g.Late[i]++
		}
		g.LatencySum[i] += latency.Millis()
		r.now[k].add(latency)
		if arrival >= r.from && arrival < r.to {
			r.all.add(latency)
		}
	}
}

// close ends an interval's latencies.
func (r *recorder) close(k int) {
	h, g, i := &r.now[k], &r.groups[k], r.at[k]
	if h.n > 0 {
		g.LatencyP50[i], g.LatencyP99[i], g.LatencyMax[i] = h.quantile(0.5), h.quantile(0.99), h.most.Millis()
		h.clear()
	}
}

// end closes all, and tells the run as a whole.
func (r *recorder) end(res *sim.Result, gpus int) Whole {
	for k := range r.groups {
		r.close(k)
	}
	w := Whole{Offered: res.Offered(), Served: res.Served(), Arrived: res.All.Arrived, Bad: res.All.Bad(), Late: res.All.Late, Cold: res.All.Cold,
		Loads: res.Loads.Done, Waited: res.Loads.Waited, P50: r.all.quantile(0.5), P99: r.all.quantile(0.99), P9999: r.all.quantile(0.9999), Max: r.all.most.Millis(),
		Busy: res.Utilisation(gpus), BatchMean: res.BatchMean()}
	for _, d := range res.Loads.Copying {
		w.Copying += float64(d) / float64(res.Span) / float64(len(res.Loads.Copying))
	}
	return w
}

// satisfied is the share of the requests that were answered in time.
func (w *Whole) satisfied() float64 { return 1 - float64(w.Bad)/float64(max(1, w.Arrived)) }

// shares are the spans as parts of n times the interval.
func (r *recorder) shares(spans []mono.Dur, n int) []float64 {
	out := make([]float64, len(spans))
	for i, d := range spans {
		out[i] = float64(d) / float64(r.every) / float64(n)
	}
	return out
}
