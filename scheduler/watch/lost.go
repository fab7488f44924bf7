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
	for i := h.Len() - 1; i >= 0 && len(out) < most; i-- {
		switch e := h.At(i); e.Kind {
		case Drop:
			out = append(out, LostRequest{e.Request.Key, e.Model, e.At, Dropped, e.Reason, 0})
		case Done:
			ends[e.Batch] = e.Until
		case Batch:
			end, ok := ends[e.Batch]
			for k := range e.Requests {
				if r := &e.Requests[k]; ok && end > r.Deadline && len(out) < most {
					out = append(out, LostRequest{r.Key, e.Model, end, Late, wire.ReasonNone, end.Sub(r.Deadline)})
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b LostRequest) int { return cmp.Compare(b.At, a.At) })
	return out
}
