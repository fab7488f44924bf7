package backend

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// Models of the backend's own folder that cannot be read are listed as failed, with the reason: in the repository
// index, symphony model, the metrics. They are listed by the first pool, as what they are for is not known. Once such
// a model is mended the pool that it belongs to serves it.

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
			versions = versionsOf(dir)
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

// serves reports whether a pool has a model that it could read.
func (b *Backend) serves(key string) bool {
	for _, p := range b.pools {
		if p.stock.reads(key) {
			return true
		}
	}
	return false
}

// versionsOf are the versions of a folder whose config.yaml cannot be read; none: it is no model's.
func versionsOf(dir string) (all []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return []string{"1"} // what cannot be read may be a model
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

// broken lists a version that cannot be read; the log has been told. One with a fault in its own files is tried again,
// as all that fail are. One whose config.yaml is at fault waits until that changes.
func (s *stock) broken(dir, version string, why *repository.ModelError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	source := catalog.Source{Name: why.Model, Version: version}
	e := s.entries[source.Key()]
	if s.closed || e == nil && len(s.entries) >= entriesMax {
		return
	}
	if e == nil {
		e = s.newEntry(source)
		spec := catalog.ModelSpec{Name: why.Model, Version: version, Platform: repository.PlatformONNX}
		e.local, e.unread, e.model = true, true, &repository.Model{Spec: spec, Dir: dir, Path: filepath.Join(dir, version, "model.onnx")}
		for d := range e.on {
			e.on[d].wanted = true
		}
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
