package lead

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// files are what backends have of a version. Where people have given no digest, that of the first
// load is ordered of all that follow; it is kept with what is told of the version (Observation).
// Where people say that the files are other ones, it is forgotten, and what has them is unloaded
// before anything is loaded anew.
type files struct {
	digest catalog.Digest // "": not told
	bytes  int64
	of     int64 // the version's files (schema.ModelVersion.Files) when they were ordered
}

// unwanted is the instant of what backends have of a version that nobody has added: who adds it again
// may mean other files.
const unwanted = -1

// learnt takes over what a controller before has learnt.
func (l *Lead) learnt(key string, o *schema.Observation) {
	if o.Digest != "" || o.Files != 0 {
		l.files[key] = files{catalog.Digest(o.Digest), o.Bytes, o.Files}
	}
	if v := l.version(key); v != nil {
		l.renewed(v)
	}
}

// Learnt takes over what the Lead of another scheduler has learnt of a version's files, as far as
// nothing is known of them here: a version has the same files at all schedulers.
func (l *Lead) Learnt(o schema.Observation) {
	key := o.Model + "/" + o.Version
	if f, known := l.files[key]; o.Digest != "" && f.digest == "" && (!known || f.of == o.Files) {
		l.learnt(key, &o)
	}
}

// learn takes what backends have said of files.
func (l *Lead) learn(at mono.Time) {
	for _, key := range names(l.world.brought) {
		v, said := l.version(key), l.world.brought[key]
		f, known := l.files[key]
		now := int64(unwanted)
		if v != nil {
			now = v.files
		}
		if !known {
			f.of = now
		}
		if said.Digest != "" && f.of == now && (f.digest == "" || f.digest == said.Digest) { // what came first holds
			f.digest, f.bytes = said.Digest, said.Bytes
		}
		if l.files[key] != f || !known {
			l.files[key], l.dirty[key] = f, true
		}
	}
	clear(l.world.brought)
	if !l.world.whole {
		return
	}
	for _, key := range names(l.renew) {
		if l.ordered(key) {
			continue
		}
		delete(l.renew, key)
		delete(l.files, key)
		if len(l.world.holders[key]) == 0 { // else a backend has it of its own folder
			delete(l.world.about, key)
		}
		l.forgive(key)
		l.dirty[key], l.world.moved[key] = true, true
		l.want(at, causeCatalogue)
	}
}

// ordered reports whether any GPU has, or is to have, something of a version by order.
func (l *Lead) ordered(key string) bool {
	return slices.ContainsFunc(l.world.holders[key], func(g *gpu) bool { return !g.stock[key].Local })
}

// renewed finds out whether people have said that a version's files are other ones than backends
// have.
func (l *Lead) renewed(v *version) {
	f, known := l.files[v.key]
	if delete(l.renew, v.key); known && f.of != v.files {
		l.renew[v.key] = true // until nobody has them, and what is known of them is forgotten
	}
}

// filesOf are those that a version is to have, as far as that is known.
func (l *Lead) filesOf(v *version) (catalog.Digest, int64) {
	if f := l.files[v.key]; v.source.Digest == "" && f.of == v.files {
		return f.digest, f.bytes
	}
	return v.source.Digest, v.source.Bytes
}

// unloadOthers has GPUs let go of what the scheduler does not use for its files, which no load would
// change: the next one gets those that are to be there, or says why not.
func (l *Lead) unloadOthers(now mono.Time, out *Effects) {
	for _, name := range names(l.world.bad) {
		var keys []string
		for _, key := range l.world.bad[name] {
			g := l.world.gpus[name]
			if g == nil || slices.Contains(keys, key) {
				continue
			}
			if s := g.stock[key]; s.State == catalog.StateFailed && l.others(&s) {
				keys = append(keys, key)
			}
		}
		if len(keys) == 0 {
			continue
		}
		l.orderID++
		l.send(now, catalog.Order{ID: l.orderID, Plan: l.stamp(), Kind: catalog.OrderUnload, GPU: name, Keys: keys, Within: othersWithin}, flight{}, out)
	}
	clear(l.world.bad)
}

// othersWithin is how long such an order may take.
const othersWithin = 60 * mono.Second

// others reports whether what a GPU has of a version was loaded from other files than it is to have.
func (l *Lead) others(s *catalog.Stocked) bool {
	v := l.version(s.Key)
	if v == nil || s.Digest == "" {
		return false
	}
	want, _ := l.filesOf(v)
	return want != "" && s.Digest != want
}
