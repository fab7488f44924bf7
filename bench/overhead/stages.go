package overhead

import (
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Stage is a part of a request's way that is ours to shorten.
type Stage int

// The stages, in the order of the way; Own is their sum, request by request.
const (
	Client Stage = iota
	Uplink
	Lateness
	Order
	Fetch
	Device
	Reply
	Completion
	Own
	stages
)

// Name is the stage's name in tables.
func (s Stage) Name() string {
	return [stages]string{"client", "uplink", "lateness", "order", "fetch", "device", "reply", "completion", "all of ours"}[s]
}

// what the stage is, for tables.
func (s Stage) what() string {
	return [stages]string{"InferAsync, until it has handed the record to the link", "until the scheduler has the record",
		"from when the order was due until it was dispatched", "until the backend has it", "until all inputs of the batch are there",
		"until the device starts, if it is free", "from the end of the execution until the client has the output", "until done is called",
		"the sum, request by request"}[s]
}

// batchWay is what is known of a batch.
type batchWay struct {
	dispatched
	reported
	free mono.Time // when its GPU's batch before had ended
}

// join makes the spans of each stage out of the logs. A request of which an instant
// is missing (it began or ended outside the measurement) is left out.
func (r *Recorder) join() (spans [stages][]mono.Dur) {
	answers, submits, members := r.answers.end(), r.submits.end(), r.members.end()
	batches := joinBatches(r.dispatches.end(), r.reports.end())
	received := make(map[wire.RequestID]mono.Time, len(submits))
	for _, s := range submits {
		received[s.id] = s.at
	}
	batchOf := make(map[wire.RequestID]wire.BatchID, len(members))
	for _, m := range members {
		batchOf[m.id] = m.batch
	}
	for _, a := range answers {
		at, ok := received[a.id]
		b := batches[batchOf[a.id]]
		if !ok || b == nil || b.reported.end == 0 || a.id == 0 {
			continue
		}
		own := mono.Dur(0)
		for s, d := range spansOf(&a, at, b) {
			d = max(0, d)
			own += d
			spans[s] = append(spans[s], d)
		}
		spans[Own] = append(spans[Own], own)
	}
	for i := range spans {
		slices.Sort(spans[i])
	}
	return spans
}

func spansOf(a *answered, received mono.Time, b *batchWay) [Own]mono.Dur {
	// A request that came after the order was due was not waited for by design.
	due := max(b.due, received)
	if b.due == 0 {
		due = b.at
	}
	// The order and the record may pass each other: what is sent before InferAsync
	// has returned counts once.
	handed := min(a.sent, received)
	return [Own]mono.Dur{handed.Sub(a.called), received.Sub(handed), b.at.Sub(due), b.arrived.Sub(b.at), b.ready.Sub(b.arrived),
		b.start.Sub(max(b.ready, b.free)), a.answer.Sub(b.reported.end), a.done.Sub(a.answer)}
}

func joinBatches(orders []dispatched, reports []reported) map[wire.BatchID]*batchWay {
	batches := make(map[wire.BatchID]*batchWay, len(orders))
	for _, d := range orders {
		batches[d.batch] = &batchWay{dispatched: d}
	}
	free := map[wire.GPUID]mono.Time{}
	for _, d := range reports { // a GPU's come in the order in which they ran
		if b := batches[d.batch]; b != nil {
			b.reported, b.free = d, free[b.gpu]
			free[b.gpu] = d.end
		}
	}
	return batches
}

// Spread is a distribution in microseconds. A percentile is 0 where there are fewer
// than ten samples beyond it.
type Spread struct {
	Samples        int
	P50, P99, P999 float64
}

// spread sums sorted spans up.
func spread(sorted []mono.Dur) Spread {
	at := func(beyond int) float64 {
		if len(sorted) < 10*beyond {
			return 0
		}
		return float64(sorted[len(sorted)-1-len(sorted)/beyond]) / 1e3
	}
	s := Spread{Samples: len(sorted), P99: at(100), P999: at(1000)}
	if len(sorted) > 0 {
		s.P50 = float64(sorted[len(sorted)/2]) / 1e3
	}
	return s
}
