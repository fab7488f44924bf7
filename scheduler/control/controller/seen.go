package controller

import (
	"cmp"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/spread"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// sight is what a cell says of a version.
type sight struct {
	cell int
	o    schema.Observation
}

// see takes what a cell says of a version. Stored is one of all.
func (l *leading) see(i int, o schema.Observation, now int64) {
	key := o.Model + "/" + o.Version
	all := l.seen[key]
	at, there := slices.BinarySearchFunc(all, i, func(s sight, i int) int { return cmp.Compare(s.cell, i) })
	if there {
		all[at].o = o
	} else {
		l.seen[key] = slices.Insert(all, at, sight{i, o})
	}
	l.observe(merged(l.seen[key]), now)
	if len(l.cells) == 1 || o.Digest == "" {
		return
	}
	at, to := l.spread.Home(o.Model)
	for _, other := range []int{at, to} { // which may have been given the model before this was known
		if other != i && other != spread.Nowhere {
			l.cells[other].lead.Learnt(o)
		}
	}
}

// gone is that a cell neither wants nor has a version any more.
func (l *leading) gone(i int, o schema.Observation, now int64) {
	key := o.Model + "/" + o.Version
	l.drop(i, key)
	if all := l.seen[key]; len(all) > 0 {
		l.observe(merged(all), now)
		return
	}
	doc, wanted := l.wanted[o.Model]
	at, _ := l.spread.Home(o.Model)
	switch {
	case !wanted || doc.Find(o.Version) < 0:
		l.giveUp(o)
	case at == spread.Nowhere:
		l.stay(o, now)
	}
}

// drop forgets what a cell said of a version.
func (l *leading) drop(i int, key string) {
	rest := slices.DeleteFunc(l.seen[key], func(s sight) bool { return s.cell == i })
	if l.seen[key] = rest; len(rest) == 0 {
		delete(l.seen, key)
	}
}

// unsee forgets what a cell has said of a model that it has no more: while its scheduler is away
// it would be the last word.
func (l *leading) unsee(i int, name string) {
	if len(l.cells) == 1 {
		return
	}
	doc := l.wanted[name]
	for k := range doc.Versions {
		l.drop(i, name+"/"+doc.Versions[k].Version)
	}
}

// waits is why a model is nowhere.
func (l *leading) waits(w spread.Wait, now int64) {
	l.why[w.Name] = w.Reason
	doc := l.wanted[w.Name]
	for k := range doc.Versions {
		if o := (schema.Observation{Model: w.Name, Version: doc.Versions[k].Version}); len(l.seen[w.Name+"/"+o.Version]) == 0 {
			l.stay(o, now)
		}
	}
}

// stay is a version that no Lead has.
func (l *leading) stay(o schema.Observation, now int64) {
	next := schema.Observation{Model: o.Model, Version: o.Version, State: schema.Idle}
	if slices.ContainsFunc(lead.Wishes(l.wanted[o.Model]), func(w lead.Wish) bool { return strings.HasSuffix(w.Key, "/"+o.Version) }) {
		next.State, next.Reason = schema.Waiting, cmp.Or(l.why[o.Model], "for a scheduler")
	}
	l.observe(next, now)
}

// merged is what there is to say of a version of which several cells say something: the one that
// serves it knows, else the one that is furthest. GPUs are those of all.
func merged(all []sight) schema.Observation {
	best, gpus := all[0].o, 0
	for _, s := range all {
		gpus += s.o.GPUs
		if progress(s.o.State) > progress(best.State) {
			best = s.o
		}
	}
	best.GPUs = gpus
	return best
}

// progress orders states: how near a version is to be served.
func progress(s schema.State) int {
	return slices.Index([]schema.State{schema.Idle, schema.Unloading, schema.Waiting, schema.Failed, schema.Fetching, schema.Loading, schema.Measuring, schema.Serving}, s)
}
