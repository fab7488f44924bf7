package watch

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Surroundings are the events that bring a reader who knows nothing to where the picture is, but
// for the batches: who comes to a stream later begins with them, and a document does.
func (s *State) Surroundings(at mono.Time) (out []Event) {
	for i, p := range s.Pools {
		if p == nil {
			continue
		}
		info := p.Info
		out = append(out, Event{Kind: Pool, At: at, Pool: int32(i), Info: &info})
		for g := range p.Rows {
			if r := &p.Rows[g]; r.Present {
				out = append(out, Event{Kind: GPU, At: at, Pool: int32(i), GPU: wire.GPUID(g), Info: &Info{Name: r.Name}})
				if m := r.Memory; m != nil && m.told <= at {
					kept := m.MemoryInfo
					out = append(out, Event{Kind: Memory, At: m.told, Pool: int32(i), GPU: wire.GPUID(g), Info: &Info{Memory: &kept}})
				}
			}
		}
	}
	for id, m := range s.Models {
		if m == nil {
			continue
		}
		info, counts := m.Info, m.counts
		out = append(out, Event{Kind: Model, At: at, Pool: m.Pool, Model: wire.ModelID(id), Info: &info})
		if m.counted > 0 && m.counted <= at { // those of later are events of their own
			out = append(out, Event{Kind: Counts, At: m.counted, Pool: m.Pool, Model: wire.ModelID(id), Info: &counts})
		}
	}
	for _, i := range s.Links {
		out = append(out, Event{Kind: Link, At: at, Info: &i})
	}
	for _, i := range s.Texts {
		out = append(out, Event{Kind: Text, At: at, Info: &i})
	}
	return out
}
