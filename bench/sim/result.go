package sim

import (
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Counts of the requests that arrived in the counted span.
type Counts struct {
	Arrived int64
	Served  int64 // answered by their deadline
	Late    int64 // answered after it
	Cold    int64 // came when no GPU had their model
	Dropped [wire.ReasonCount]int64
}

// Bad is the requests that were not served.
func (c *Counts) Bad() int64 { return c.Arrived - c.Served }

// BadRate is their share; 0 when none arrived.
func (c *Counts) BadRate() float64 {
	if c.Arrived == 0 {
		return 0
	}
	return float64(c.Bad()) / float64(c.Arrived)
}

func (c *Counts) add(o *Counts) {
	c.Arrived += o.Arrived
	c.Served += o.Served
	c.Late += o.Late
	c.Cold += o.Cold
	for i := range c.Dropped {
		c.Dropped[i] += o.Dropped[i]
	}
}

// Result of a run.
type Result struct {
	Span    mono.Dur // that was counted
	Models  []Counts
	All     Counts
	ByClass [2]Counts // of wire.ClassLatency and wire.ClassBestEffort
	// BusyByClass is the time that all GPUs ran batches of each class, within the span.
	BusyByClass [2]mono.Dur
	Busy        []mono.Dur       // GPU -> time that it ran batches, within the span
	Lost        mono.Dur         // of it, for batches whose work was lost
	Batches     int64            // that ran, for a part at least, within the span; none that was lost
	Sizes       []int64          // [b]: requests that ran in a batch of b
	QueueTime   []int64          // [i]: requests that waited i units of QueueUnit before their batch started
	Hopeless    int64            // arrivals that no scheduler could serve in time: it heard of them too late, for it stood still or the network was slow
	Loads       Loads            // of weights, with Config.Paging
	Steps       int64            // instants at which something happened
	Scheduler   policy.Scheduler // as the run left it
	// The GPUs that deferral alone would keep busy with what arrived (batching.Need), whatever
	// the policy did: on average over the span, and in the Config.NeedSpan that needed most.
	NeedMean, NeedPeak float64
}

// QueueUnit is the resolution of Result.QueueTime.
const QueueUnit = mono.Millisecond / 10

// Offered is the arrivals per second.
func (r *Result) Offered() float64 { return float64(r.All.Arrived) / r.Span.Seconds() }

// Served is the requests served in time per second.
func (r *Result) Served() float64 { return float64(r.All.Served) / r.Span.Seconds() }

// Utilisation is the share of time that the GPUs ran, over n GPUs.
func (r *Result) Utilisation(n int) float64 {
	var sum mono.Dur
	for _, b := range r.Busy {
		sum += b
	}
	return float64(sum) / float64(r.Span) / float64(n)
}

// BatchMean is the mean size of the batches.
func (r *Result) BatchMean() float64 {
	if r.Batches == 0 {
		return 0
	}
	var n int64
	for _, k := range r.Sizes {
		n += k
	}
	return float64(n) / float64(r.Batches)
}

// Percentile is the batch size that the share q of the requests did not
// exceed.
func Percentile(histogram []int64, q float64) int {
	var all, sum int64
	for _, n := range histogram {
		all += n
	}
	for i, n := range histogram {
		sum += n
		if float64(sum) >= q*float64(all) && sum > 0 {
			return i
		}
	}
	return 0
}
