package ui

import (
	"errors"
	"strconv"

	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Story is a request's story as the API has it. Instants are nanoseconds of the events' clock.
type Story struct {
	Request  string       `json:"request"`
	Model    string       `json:"model"`
	Outcome  string       `json:"outcome"`          // dropped, late, served or running
	Reason   string       `json:"reason,omitempty"` // of a drop
	Cause    string       `json:"cause"`            // in one word: package watch
	Headline string       `json:"headline"`
	Steps    []watch.Step `json:"steps"`
	Saved    []string     `json:"saved,omitempty"` // what would have saved it
	Gaps     bool         `json:"gaps,omitempty"`  // events of that time are missing

	Arrival  mono.Time `json:"arrival"`
	Came     mono.Time `json:"came,omitempty"`
	Deadline mono.Time `json:"deadline"`
	Ended    mono.Time `json:"ended,omitempty"`
	First    mono.Time `json:"first,omitempty"` // the window of a batch of it alone
	Last     mono.Time `json:"last,omitempty"`
	FreeAt   mono.Time `json:"free_at,omitempty"`  // when the GPU that it needed was free
	Short    mono.Dur  `json:"short_ns,omitempty"` // by how much that was too late

	Own    *BatchOf `json:"own,omitempty"`     // the batch that it was in
	Needed *BatchOf `json:"needed,omitempty"`  // the batch that had the GPU it needed
	LostTo *BatchOf `json:"lost_to,omitempty"` // the batch that got a GPU while it waited
	GPUs   []Had    `json:"gpus,omitempty"`
}

// BatchOf is a batch of a story.
type BatchOf struct {
	Batch  string    `json:"batch"` // as in events
	Number string    `json:"number"`
	Model  string    `json:"model"`
	ID     uint32    `json:"model_id"`
	GPU    uint32    `json:"gpu"`
	Pool   int32     `json:"pool"`
	Size   int       `json:"size"`
	Sent   mono.Time `json:"sent"`
	Exec   mono.Time `json:"exec"`
	Until  mono.Time `json:"until"`
	Start  mono.Time `json:"start,omitempty"` // real, once it is reported
	End    mono.Time `json:"end,omitempty"`
	Fetch  mono.Dur  `json:"fetch_ns,omitempty"`
}

// Had is what a GPU did while the request waited.
type Had struct {
	GPU    uint32    `json:"gpu"`
	FreeAt mono.Time `json:"free_at"`
	Ran    []BatchOf `json:"ran,omitempty"`
}

// hadMost bounds the GPUs of a story.
const hadMost = 64

func storyOf(t *watch.Story, s *watch.State) Story {
	out := Story{Request: t.Request.Key.String(), Model: t.Name, Outcome: string(t.Outcome), Cause: string(t.Cause), Headline: t.Headline(s),
		Steps: t.Steps(s), Saved: t.Saved, Gaps: t.Gaps, Arrival: t.Request.Arrival, Came: t.Request.Came, Deadline: t.Request.Deadline,
		Ended: t.Ended, First: t.First, Last: t.Last, FreeAt: t.FreeAt, Short: t.Short,
		Own: batchOf(t, t.Own), Needed: batchOf(t, t.Needed), LostTo: batchOf(t, t.LostTo)}
	if t.Outcome == watch.Dropped {
		out.Reason = t.Reason.String()
	}
	for _, g := range t.GPUs[:min(len(t.GPUs), hadMost)] {
		had := Had{GPU: uint32(g.GPU), FreeAt: g.FreeAt}
		for _, r := range g.Ran {
			had.Ran = append(had.Ran, *batchOf(t, r))
		}
		out.GPUs = append(out.GPUs, had)
	}
	return out
}

func batchOf(t *watch.Story, r *watch.Ran) *BatchOf {
	if r == nil {
		return nil
	}
	return &BatchOf{Batch: strconv.FormatUint(uint64(r.Batch), 16), Number: watch.Number(r.Batch), Model: r.Name, ID: uint32(r.Model), GPU: uint32(r.GPU), Pool: t.Pool,
		Size: r.Size, Sent: r.Sent, Exec: r.Exec, Until: r.Until, Start: r.Start, End: r.End, Fetch: r.Fetch}
}

// Lost is a request that was dropped or late, as the API has it.
type Lost struct {
	Request string    `json:"request"`
	Model   string    `json:"model"`
	At      mono.Time `json:"at"`
	Ago     mono.Dur  `json:"ago_ns"` // before now; of a file before its end
	Outcome string    `json:"outcome"`
	Reason  string    `json:"reason,omitempty"`
	Late    mono.Dur  `json:"late_ns,omitempty"`
}

// Story is why a request was dropped or late, as a document and as lines of text.
func (h *Hub) Story(key watch.Key) (doc Story, text []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.look()
	t, err := watch.Tell(h.history, h.state, key)
	if errors.Is(err, watch.ErrNotKnown) { // it may be of since the last turn: people ask as soon as they have the reply
		h.turn()
		t, err = watch.Tell(h.history, h.state, key)
	}
	if err != nil {
		return Story{}, nil, err
	}
	return storyOf(t, h.state), t.Lines(h.state), nil
}

// Lost lists the last requests that were dropped or late, the newest first, at most most.
func (h *Hub) Lost(most int) []Lost {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.look()
	h.turn() // with what was lost just now
	now := h.history.To()
	if h.source != nil {
		now = max(now, mono.Now())
	}
	out := []Lost{}
	for _, l := range watch.Lost(h.history, most) {
		one := Lost{Request: l.Key.String(), Model: h.state.Name(l.Model), At: l.At, Ago: max(0, now.Sub(l.At)), Outcome: string(l.Outcome), Late: l.Late}
		if l.Outcome == watch.Dropped {
			one.Reason = l.Reason.String()
		}
		out = append(out, one)
	}
	return out
}

// document appends the surroundings and what was kept since from, as lines of data.
func (h *Hub) document(to []byte, from mono.Time) []byte {
	first, at := h.history.Since(from)
	surroundings := h.state.Surroundings(at)
	for i := range surroundings {
		to = surroundings[i].Append(append(to, data...))
	}
	return h.history.Append(to, first, data)
}
