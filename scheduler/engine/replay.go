package engine

import (
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/paged"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/shard"
)

// Replay feeds the log to bare cores of the same configuration and returns
// the number of grants and batches that were compared, or the first difference.
// Call it after Stop.
func (r *Recording) Replay(cfg Config) (grants, batches int, err error) {
	if err := cfg.complete(); err != nil {
		return 0, 0, err
	}
	for i, log := range r.models {
		n, err := log.replay(cfg, i)
		batches += n
		if err != nil {
			return grants, batches, err
		}
	}
	if cfg.Paged != nil {
		grants, err = r.ranks.replayPaged(cfg)
	} else {
		grants, err = r.ranks.replay(cfg)
	}
	return grants, batches, err
}

func (l *rankLog) replay(cfg Config) (grants int, err error) {
	core, out := rank.New(cfg.rank()), rank.Out{}
	for i := range l.records.len() {
		if was, err := l.replayEffort(i, core, &out); err != nil || was {
			if err != nil {
				return grants, err
			}
			continue
		}
		rec := l.records.at(i)
		if !rec.step {
			rec.ev.apply(core, rec.mail)
			continue
		}
		out.Grants = out.Grants[:0]
		core.Step(rec.now, &out)
		if !slices.Equal(out.Grants, rec.grants) {
			return grants, fmt.Errorf("rank record %d at %v: replay grants %+v, live %+v", i, rec.now, out.Grants, rec.grants)
		}
		grants += len(out.Grants)
	}
	return grants, nil
}

// replayPaged is replay in a paged engine: all orders must be the same, loads included.
func (l *rankLog) replayPaged(cfg Config) (grants int, err error) {
	core, out := paged.New(cfg.pagedFrom(l.serial)), paged.Out{}
	for i := range l.records.len() {
		rec := l.records.at(i)
		if rec.effort != nil {
			rec.effort.apply(&effortPaged{core, rec.now})
			continue
		}
		if !rec.step {
			rec.ev.applyPaged(rec.now, core, rec.mail, rec.wants, &out)
			continue
		}
		core.Step(rec.now, &out)
		live := rec.orders
		if !slices.Equal(out.Grants, live.Grants) || !slices.Equal(out.Loads, live.Loads) ||
			!slices.Equal(out.Unloads, live.Unloads) || !slices.Equal(out.Floors, live.Floors) || !slices.Equal(out.Fills, live.Fills) {
			return grants, fmt.Errorf("rank record %d at %v: replay %+v, live %+v", i, rec.now, out, *live)
		}
		grants += len(out.Grants)
		out.Reset()
	}
	return grants, nil
}

func (l *modelLog) replay(cfg Config, loop int) (batches int, err error) {
	s := shard.New(cfg.shard(loop, l.serial))
	var out shard.Out
	var made []dispatched
	next := 0
	for i := range l.inputs.len() {
		rec := l.inputs.at(i)
		for range rec.submissions {
			l.submissions.at(next).apply(rec.now, s, &out)
			next++
		}
		rec.in.apply(rec.now, s, &out)
		made = appendDispatched(made[:0], out.Dispatches)
		if moved := sumMoved(out.Moved); len(out.Drops) != rec.drops || moved != rec.moved || !slices.Equal(made, rec.dispatches) {
			return batches, fmt.Errorf("loop %d record %d at %v: replay has %d drops, moves %x and %+v, live %d, %x and %+v",
				loop, i, rec.now, len(out.Drops), moved, made, rec.drops, rec.moved, rec.dispatches)
		}
		batches += len(made)
		out.Reset()
	}
	return batches, nil
}
