package controller

import (
	"slices"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/spread"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/mono"
)

// cell is a scheduler with what belongs to it: a Lead of its own, and a link. What one of them
// fails at is nothing to the others.
type cell struct {
	number  int
	address string
	name    string // in documents; "": it is the only one
	link    *link

	// Owned by the loop.
	lead    *lead.Lead
	effects lead.Effects
}

// cells are all of them, in the order of the configuration.
type cells []*cell

func newCells(cfg *Config) (all cells) {
	for i, address := range cfg.Schedulers {
		all = append(all, &cell{number: i, address: address, name: cfg.nameOf(i), lead: lead.New(cfg.Plan)})
	}
	return all
}

// nameOf is what documents call a scheduler.
func (c *Config) nameOf(i int) string {
	if len(c.Schedulers) == 1 {
		return ""
	}
	return c.Schedulers[i]
}

// called are the names that a scheduler's plans may have.
func (c *Config) called(i int) []string {
	if i == 0 { // one plan was of the only scheduler, and has none
		return []string{c.Schedulers[0], ""}
	}
	return []string{c.Schedulers[i]}
}

// linked is how the scheduler is called for people, while it is linked; "": it is not.
func (c *cell) linked() string {
	name := c.link.linked()
	if name != "" && c.name != "" {
		return c.address // they all may call themselves the same
	}
	return name
}

// find is the cell that documents call so; nil: there is none.
func (all cells) find(name string) *cell {
	for _, c := range all {
		if c.name == name || len(all) == 1 && c.address == name {
			return c
		}
	}
	return nil
}

// epoch is the last one of any plan.
func (all cells) epoch() (last uint64) {
	for _, c := range all {
		last = max(last, c.lead.Epoch())
	}
	return last
}

// counted has the next plan of a cell come after all others'.
func (all cells) counted() {
	last := all.epoch()
	for _, c := range all {
		c.lead.After(last)
	}
}

// wake is when something is due though nothing happens.
func (all cells) wake() mono.Time {
	at := mono.Never
	for _, c := range all {
		at = min(at, c.lead.Wake())
	}
	return at
}

// loads are the rates and needs of all models, those of one that moves from both.
func (all cells) loads() (out []schema.Load) {
	at := map[string]int{} // by key, in out
	for _, c := range all {
		for _, load := range c.lead.Loads() {
			key := load.Model + "/" + load.Version
			i, there := at[key]
			if !there {
				at[key] = len(out)
				out = append(out, load)
				continue
			}
			out[i].Rate += load.Rate
			out[i].Needs = joined(out[i].Needs, load.Needs)
		}
	}
	return out
}

// joined adds needs up by device type.
func joined(a, b []schema.Need) []schema.Need {
	for _, n := range b {
		i := slices.IndexFunc(a, func(x schema.Need) bool { return x.DeviceType == n.DeviceType })
		if i < 0 {
			a = append(a, n)
		} else {
			a[i].GPUs += n.GPUs
		}
	}
	return a
}

// Told implements spread.World.
func (all cells) Told(i int) bool { return all[i].lead.Whole() }

// GPUs implements spread.World.
func (all cells) GPUs(i int) (out []spread.GPUs) {
	for _, g := range all[i].lead.Types() {
		out = append(out, spread.GPUs{DeviceType: g.DeviceType, Count: g.Count, Memory: g.Memory, Largest: g.Largest})
	}
	return out
}

// Routed implements spread.World.
func (all cells) Routed(i int, key string) bool { return all[i].lead.Goes(key) }

// Failed implements spread.World.
func (all cells) Failed(i int, key string) string { return all[i].lead.Failed(key) }

// Load implements spread.World.
func (all cells) Load(i int, key string) spread.Load {
	t, need, bytes := all[i].lead.Load(key)
	return spread.Load{DeviceType: t, Need: need, Bytes: bytes}
}

// Size implements spread.World.
func (all cells) Size(i int, key, deviceType string) int64 {
	return all[i].lead.Size(key, deviceType)
}

var _ spread.World = cells(nil)

// wish has a model given to whoever is to serve it.
func (l *leading) wish(now mono.Time, doc schema.Model) {
	old := l.wanted[doc.Name]
	l.wanted[doc.Name] = doc
	var versions []spread.Version
	for _, w := range lead.Wishes(doc) {
		versions = append(versions, spread.Version{Key: w.Key, DeviceTypes: w.DeviceTypes, Bytes: w.Bytes})
	}
	l.spread.Want(now, doc.Name, versions, &l.grants)
	l.abandon(&old, &doc)
}

// unwish has it taken from them.
func (l *leading) unwish(name string) {
	old := l.wanted[name]
	delete(l.wanted, name)
	delete(l.why, name)
	l.abandon(&old, &schema.Model{})
	l.spread.Unwant(name, &l.grants)
}

// abandon gives up versions that are not among those of a model any more, where no Lead has
// the model: else that one says so.
func (l *leading) abandon(old, next *schema.Model) {
	if at, _ := l.spread.Home(old.Name); at != spread.Nowhere {
		return
	}
	for i := range old.Versions {
		if v := old.Versions[i].Version; next.Find(v) < 0 && len(l.seen[old.Name+"/"+v]) == 0 {
			l.giveUp(schema.Observation{Model: old.Name, Version: v})
		}
	}
}

// grant carries out what the spread has decided.
func (l *leading) grant(now mono.Time) {
	g := &l.grants
	for _, to := range g.Gives {
		doc := l.wanted[to.Name]
		delete(l.why, to.Name)
		l.cells[to.Scheduler].lead.SetModel(now, doc)
		if len(l.cells) > 1 { // what is known of its size and its files
			for _, m := range l.c.view.measuresOf(&doc) {
				l.cells[to.Scheduler].lead.Profile(m)
			}
			for i := range doc.Versions {
				v := &doc.Versions[i]
				if o := l.since[doc.Name+"/"+v.Version]; o.Files == v.Files() {
					l.cells[to.Scheduler].lead.Learnt(o)
				}
			}
		}
	}
	for _, from := range g.Takes {
		l.cells[from.Scheduler].lead.RemoveModel(now, from.Name)
		l.unsee(from.Scheduler, from.Name)
	}
	for _, w := range g.Waits {
		l.waits(w, time.Now().UnixNano())
	}
	for _, text := range g.Notes {
		l.c.log.Info().Msg(text)
	}
	for _, text := range g.Warnings {
		l.c.log.Warn().Msg(text)
	}
	g.Reset()
}
