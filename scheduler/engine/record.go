package engine

import (
	"fmt"
	"slices"
	"sync"

	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Recording is the log of a live run: for each loop its inputs in order, each
// with the loop's clock, and what the core decided. Replay feeds the inputs
// to bare cores and demands the same decisions: what is simulated is what
// serves. A nil Recording records nothing.
type Recording struct {
	mu     sync.Mutex
	models map[int][]modelRecord
	ranks  []rankRecord
}

type modelRecord struct {
	now        mono.Time
	in         input
	dispatches []shard.Dispatch
	drops      int
}

type rankRecord struct {
	now    mono.Time
	step   bool
	in     rankInput
	grants []rank.Grant
}

// NewRecording makes an empty log.
func NewRecording() *Recording { return &Recording{models: map[int][]modelRecord{}} }

func (r *Recording) model(loop int, now mono.Time, in *input, out *shard.Out) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.models[loop] = append(r.models[loop], modelRecord{now, *in, cloneDispatches(out.Dispatches), len(out.Drops)})
}

func (r *Recording) rankEvent(now mono.Time, in *rankInput) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ranks = append(r.ranks, rankRecord{now: now, in: *in})
}

func (r *Recording) rankStep(now mono.Time, grants []rank.Grant) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ranks = append(r.ranks, rankRecord{now: now, step: true, grants: slices.Clone(grants)})
}

func cloneDispatches(ds []shard.Dispatch) []shard.Dispatch {
	out := slices.Clone(ds)
	for i := range out {
		out[i].Requests = slices.Clone(out[i].Requests)
	}
	return out
}

// Replay feeds the log to bare cores of the same configuration and returns
// the number of grants and batches that were compared, or the first difference.
func (r *Recording) Replay(cfg Config) (grants, batches int, err error) {
	if err := cfg.complete(); err != nil {
		return 0, 0, err
	}
	for loop := range cfg.ModelLoops {
		n, err := replayModels(cfg, loop, r.models[loop])
		batches += n
		if err != nil {
			return grants, batches, err
		}
	}
	core, out := rank.New(rank.Config{Outstanding: cfg.Outstanding}), rank.Out{}
	for i := range r.ranks {
		rec := &r.ranks[i]
		if !rec.step {
			rec.in.apply(core)
			continue
		}
		out.Grants = out.Grants[:0]
		core.Step(rec.now, &out)
		if !slices.Equal(out.Grants, rec.grants) {
			return grants, batches, fmt.Errorf("rank record %d at %v: replay grants %+v, live %+v", i, rec.now, out.Grants, rec.grants)
		}
		grants += len(out.Grants)
	}
	return grants, batches, nil
}

func replayModels(cfg Config, loop int, log []modelRecord) (batches int, err error) {
	s := shard.New(shard.Config{Index: cfg.FirstLoop + loop, RequestsMax: cfg.RequestsMax, BatchesMax: cfg.GPUsMax * cfg.Outstanding})
	var out shard.Out
	for i := range log {
		rec := &log[i]
		rec.in.apply(rec.now, s, &out)
		same := len(out.Drops) == rec.drops && slices.EqualFunc(out.Dispatches, rec.dispatches, sameDispatch)
		if !same {
			return batches, fmt.Errorf("loop %d record %d at %v: replay has %d drops and %+v, live %d and %+v",
				loop, i, rec.now, len(out.Drops), out.Dispatches, rec.drops, rec.dispatches)
		}
		batches += len(out.Dispatches)
		out.Reset()
	}
	return batches, nil
}

func sameDispatch(a, b shard.Dispatch) bool {
	return a.Batch == b.Batch && a.Model == b.Model && a.GPU == b.GPU && a.Life == b.Life && a.Exec == b.Exec &&
		a.Until == b.Until && slices.Equal(a.Requests, b.Requests)
}
