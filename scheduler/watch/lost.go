package watch

import (
	"cmp"
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

func sortBy(order []int, key func(int) int64) {
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(key(a), key(b)) })
}

// LostRequest is one that has a story worth reading.
type LostRequest struct {
	Key     Key
	Model   wire.ModelID
	At      mono.Time
	Outcome Outcome // Dropped or Late
	Reason  wire.Reason
	Late    mono.Dur
}

// Lost lists the requests that were dropped or late, the newest first, at most most of them.
func Lost(h *History, most int) (out []LostRequest) {
	ends := map[wire.BatchID]mono.Time{}
	var d decoder
	for i := h.n - 1; i >= 0 && len(out) < most; i-- {
		events := d.decode(h.at(i), 1<<Batch|1<<Done|1<<Drop)
		for k := len(events) - 1; k >= 0 && len(out) < most; k-- {
			switch e := &events[k]; e.Kind {
			case Drop:
				out = append(out, LostRequest{e.Request.Key, e.Model, e.At, Dropped, e.Reason, 0})
			case Done:
				ends[e.Batch] = e.Until
			case Batch:
				end, ok := ends[e.Batch]
				out = e.late(out, end, ok, most)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b LostRequest) int { return cmp.Compare(b.At, a.At) })
	return out
}

// late appends the requests of a batch that were late.
func (e *Event) late(out []LostRequest, end mono.Time, reported bool, most int) []LostRequest {
	for i := range e.Requests {
		if r := &e.Requests[i]; reported && end > r.Deadline && len(out) < most {
			out = append(out, LostRequest{r.Key, e.Model, end, Late, wire.ReasonNone, end.Sub(r.Deadline)})
		}
	}
	return out
}
