package rank

import (
	"github.com/symphony-serving/symphony/scheduler/devices"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Where far more comes than the GPUs can serve, most requests of some models are lost, or a part of each model's. By latest alone it is
// chance whose: a GPU second goes to three requests of one model as often as to thirty of another. Under SetCheap it goes to the
// thirty: most requests for the GPU time first, as in a greedy knapsack. So the most requests are served, and few models lose most of what is lost: most of
// the others keep their SLOs. With models that are unlike that is up to a quarter more (docs/decisions/0070).
//
// It starves the dearest models while there is an overload, and at the peak, where all can be served, it makes them late. So it is a part of the
// setting: scheduler/tuner tries it where GPUs are crowded anyway. Nobody is starved whole: a model that ran no batch for starvedSpans goes
// first, once. From that batch comes what is known of it: what its requests take, and the GPUs that it needs.
//
// What a request takes is reckoned in a batch that keeps all GPUs busy. It is told apart by an eighth of a doubling; models
// that are alike are served by latest as ever.
//
// Rejected: batches of the drop policy's target in place of those, which grow smaller with a model's share of the GPUs: who is
// starved looks dearer for it (mix 113/34 of bench draws serves 1.10 of its peak, not 1.20). And a rule by the loss rate alone, without a
// setting: in bursts, too, a good part is lost for a second, and there the dearest model's p99 counts.

// SetCheap tells whether GPUs go to the requests that take the least of them, from the next Step on.
func (r *Rank) SetCheap(on bool) {
	r.rekey = r.rekey || on != r.cheap
	r.cheap = on
}

// Crowded tells whether all GPUs were busy lately and a good part of what was wanted of them was lost all the same.
func (r *Rank) Crowded(now mono.Time) bool {
	_, ok := r.gpus.Crowded(now)
	return ok
}

const (
	// costStep keeps what requests take apart: no candidate waits for so long.
	costStep = 3600 * mono.Second
	// starvedSpans without a batch, and a model goes first. Its need counts for a little longer (devices/need.go).
	starvedSpans = 8
)

// key says who of those that wait takes a GPU: the least one. That is who is due first, but for head starts.
func (r *Rank) key(m *model, now mono.Time) int64 {
	if !r.cheap {
		return int64(m.candidate.Latest.Add(-r.gpus.HeadStart(&m.usage, now)))
	}
	if devices.SpanOf(now)-m.usage.Ran() > starvedSpans {
		return int64(m.candidate.Latest)
	}
	return int64(m.candidate.Latest.Add(mono.Dur(slackRow(m.each)) * costStep))
}

// order gives all that wait their keys anew, once SetCheap has changed them. O(models).
func (r *Rank) order(now mono.Time) {
	r.rekey = false
	for id, m := range r.models {
		for _, h := range [...]*pq.Heap{&r.ready, &r.early, &r.long} {
			if m != nil && h.Has(uint32(id)) {
				h.Set(uint32(id), r.key(m, now))
			}
		}
	}
}
