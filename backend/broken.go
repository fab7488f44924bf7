package backend

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// Models of the backend's own folder that cannot be read are listed as failed, with the reason: in the repository
// index, symphony model, the metrics. The first pool lists them, as their device type is not known. Once such a model
// is mended, the pool of its device type serves it.

// tellBroken lists the versions of a model that cannot be read, and that no pool has. Where config.yaml is at fault
// these are all that the folder has, or version 1.
func (b *Backend) tellBroken(name string, failed []error) {
	dir := filepath.Join(b.cfg.Repository, name)
	for _, f := range failed {
		of := (*repository.ModelError)(nil)
		if !errors.As(f, &of) || of.Version != "" && catalog.CheckVersion(of.Version) != nil || len(b.pools) == 0 {
			continue
		}
		versions := []string{of.Version}
		if of.Version == "" {
			versions = b.versionsOf(dir, name)
		}
		for _, v := range versions {
			if !b.serves(name + "/" + v) {
				b.pools[0].stock.broken(dir, v, of)
			}
		}
	}
}

// tellUnread lists what could not be read at the start.
func (b *Backend) tellUnread(failed []error) {
	for _, f := range failed {
		if of := (*repository.ModelError)(nil); errors.As(f, &of) && of.Model != "" {
			b.tellBroken(of.Model, []error{f})
		}
	}
}

// announce lists the models of a folder that is new and still changes as loading: requests for them are refused until
// the folder has settled and is read, but not with 404.
func (b *Backend) announce(name string) {
	dir := filepath.Join(b.cfg.Repository, name)
	for _, v := range b.versionsOf(dir, name) {
		source := catalog.Source{Name: name, Version: v}
		if len(b.pools) > 0 && !b.knows(source.Key()) {
			b.pools[0].stock.announced(dir, source)
		}
	}
}

// knows reports whether a pool has an entry of a key.
func (b *Backend) knows(key string) bool {
	return slices.ContainsFunc(b.pools, func(p *pool) bool { return p.stock.knows(key) })
}

// serves reports whether a pool has a model that it could read.
func (b *Backend) serves(key string) bool {
	return slices.ContainsFunc(b.pools, func(p *pool) bool { return p.stock.reads(key) })
}

// versionsOf are the versions of a model's folder whose config.yaml cannot be read; none: it is no model's.
func (b *Backend) versionsOf(dir, name string) (all []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if slices.ContainsFunc(b.pools, func(p *pool) bool { return p.stock.readsOf(name) }) {
			return nil // these are listed with the reason
		}
		return []string{"1"} // a folder that cannot be read may be a model's
	}
	model := false
	for _, e := range entries {
		switch {
		case catalog.CheckVersion(e.Name()) == nil:
			all = append(all, e.Name())
		case e.Name() == repository.ConfigFile || e.Name() == repository.TritonConfigFile:
			model = true
		}
	}
	if len(all) == 0 && model {
		all = []string{"1"}
	}
	return all
}

// reads reports whether there is an entry of a key whose config.yaml could be read.
func (s *stock) reads(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[key]
	return e != nil && !e.unread
}

// readsOf reports the same of any version of a model of the backend's own folder.
func (s *stock) readsOf(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if !e.unread && e.local && e.source.Name == name {
			return true
		}
	}
	return false
}

// broken lists a version that cannot be read; the caller has logged it. A version with a fault in its own files is tried
// again, like every model that fails. One whose config.yaml has a fault waits until that file changes.
func (s *stock) broken(dir, version string, why *repository.ModelError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	source := catalog.Source{Name: why.Model, Version: version}
	e := s.entries[source.Key()]
	if e == nil {
		e = s.unreadEntry(dir, source)
	}
	if e == nil {
		return
	}
	e.retry.news(why)
	if why.Version != "" {
		s.failed(e, why, true)
		return
	}
	e.retry.stop()
	e.err = why
	s.changed(e)
}

// announced lists a version that is about to be read. Nothing of it is loaded before that: settle is not called.
func (s *stock) announced(dir string, source catalog.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[source.Key()] != nil {
		return
	}
	if e := s.unreadEntry(dir, source); e != nil {
		e.grace = true // its state is loading
		s.changed(e)
	}
}

// unreadEntry makes the entry of a version that has not been read; nil: the stock is closed or full. Caller holds mu.
func (s *stock) unreadEntry(dir string, source catalog.Source) *entry {
	if s.closed || len(s.entries) >= entriesMax {
		return nil
	}
	e := s.newEntry(source)
	spec := catalog.ModelSpec{Name: source.Name, Version: source.Version, Platform: repository.PlatformONNX}
	e.local, e.unread, e.model = true, true, &repository.Model{Spec: spec, Dir: dir, Path: filepath.Join(dir, source.Version, "model.onnx")}
	for d := range e.on {
		e.on[d].wanted = true
	}
	return e
}
