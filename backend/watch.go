package backend

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// watch takes up what becomes of the repository while the backend serves. It looks, again and
// again: nothing tells of changes on a network's file system. What is seen to have changed is
// taken up when it has not changed for settled: files that are being written are left alone.
//
// What happens to a folder, and the answer:
//
//	it is read, and changes meanwhile     nothing of it is taken; it is read again when it has settled
//	files grow, with pauses below settled they are read when they are whole
//	files grow, with longer pauses        what was read is refused, with one line, and tried again when they have grown
//	it goes, and is back within settled   nothing
//	it goes, and comes back later         its models are served no more, and then they are new ones
//	it is new                             its models are announced as loading, and read when it has settled
//	its config.yaml has a mistake         one line; what is served goes on as it was, and so of a version whose files are faulty
//	of a version's files some change      they are read when none has for settledSeveral, or settledPartly while others are as before
//	it cannot be read                     what is served goes on
type watch struct {
	b     *Backend
	seen  map[string]sight                                            // by model
	taken map[string]repository.Print                                 // what is served, or was refused
	given map[string]repository.Print                                 // what the pools were told last: of versions that could be read
	told  bool                                                        // that the folder cannot be read
	load  func(dir, name string) ([]repository.Model, []error, error) // repository.LoadModel
}

// sight is a model's folder as it was last seen, and since when.
type sight struct {
	print repository.Print
	gone  bool
	since time.Time
}

const (
	// watchEvery is the pause between two looks; a large repository is looked at less often. Until a look has found
	// a new folder, requests for its models are answered 404.
	watchEvery = 250 * time.Millisecond
	watchPart  = 20 // looks take at most one part in so many of a processor
	settled    = time.Second
	// settledSeveral is the same where a version of several files has changed, and settledPartly where only some of them
	// have: copying a version over another one may pause between two files, and new files among old ones are no model that
	// was ever made. What is served goes on meanwhile.
	settledSeveral = 5 * time.Second
	settledPartly  = 10 * time.Second
)

// newWatch begins before the repository is read: what changes from then on is seen.
func newWatch(b *Backend) *watch {
	if !b.cfg.Watch || b.cfg.Repository == "" {
		return nil
	}
	w := &watch{b: b, seen: map[string]sight{}, given: map[string]repository.Print{}, load: repository.LoadModel}
	w.taken, _ = repository.Prints(b.cfg.Repository) // an error is that of reading it, which comes next
	if w.taken == nil {
		w.taken = map[string]repository.Print{}
	}
	maps.Copy(w.given, w.taken)
	return w
}

// run looks until the backend ends.
func (w *watch) run() {
	pause := time.NewTimer(watchEvery)
	defer pause.Stop()
	for {
		select {
		case <-w.b.stop:
			return
		case <-pause.C:
		}
		begin := time.Now()
		w.look(begin)
		pause.Reset(max(watchEvery, watchPart*time.Since(begin)))
	}
}

// look compares the folder with what it was.
func (w *watch) look(now time.Time) {
	prints, err := repository.Prints(w.b.cfg.Repository)
	if err != nil { // a file system that is away takes no model with it
		if !w.told {
			w.b.log.Warn().Err(err).Msg("the model repository cannot be read: what was read of it is served; trying on")
		}
		w.told = true
		return
	}
	w.told = false
	for name := range w.taken {
		if _, there := prints[name]; !there {
			w.sight(name, repository.Print{}, true, now)
		}
	}
	for name, p := range prints {
		w.sight(name, p, false, now)
	}
	for name := range w.seen {
		if _, there := prints[name]; !there && w.unknown(name) {
			delete(w.seen, name)
			w.apply(name, nil, nil, nil) // what was announced
		}
	}
}

func (w *watch) unknown(name string) bool {
	_, taken := w.taken[name]
	return !taken
}

// sight takes a model up that has changed, and has not for a while.
func (w *watch) sight(name string, p repository.Print, gone bool, now time.Time) {
	if !gone && w.unknown(name) {
		w.b.announce(name)
	}
	before, known := w.seen[name]
	if !known || before.gone != gone || !before.print.Equal(p) {
		w.seen[name] = sight{p, gone, now}
		return
	}
	old, had := w.taken[name]
	pause := settled
	switch {
	case p.Partly(w.given[name]):
		pause = max(pause, settledPartly)
	case p.Several(w.given[name]):
		pause = max(pause, settledSeveral)
	}
	if now.Sub(before.since) < pause || had && !gone && old.Equal(p) {
		return
	}
	if gone && w.isBack(name) {
		return // since the look began
	}
	if gone {
		delete(w.taken, name)
		delete(w.given, name)
		w.apply(name, nil, nil, nil)
		return
	}
	models, failed, err := w.load(w.b.cfg.Repository, name)
	if err != nil {
		return // the next look says what is wrong with the folder
	}
	if !repository.PrintOf(w.b.cfg.Repository, name).Equal(p) {
		return // it has changed while it was read: what it becomes is taken up when it has settled
	}
	w.taken[name] = p
	for _, f := range failed {
		w.b.log.Error().Err(f).Msg("not served as it is now")
	}
	if len(models) == 0 && len(failed) > 0 {
		w.refuse(name, failed) // a mistake in config.yaml: what is served goes on as it was
		w.b.tellBroken(name, failed)
		return
	}
	w.give(name, models, failed, p)
}

// isBack reports whether a model's folder is there.
func (w *watch) isBack(name string) bool {
	_, err := os.Stat(filepath.Join(w.b.cfg.Repository, name))
	return err == nil
}

// refuse has all pools note why a model's folder cannot be read as it is now.
func (w *watch) refuse(name string, failed []error) {
	for _, p := range w.b.pools {
		p.stock.mu.Lock()
		p.stock.faulty(filepath.Join(w.b.cfg.Repository, name), failed)
		p.stock.mu.Unlock()
	}
}

// give has the pools serve what could be read of a model's folder: of a version that could not, what is served goes on.
func (w *watch) give(name string, models []repository.Model, failed []error, p repository.Print) {
	given, had := w.given[name]
	now := p
	now.Versions = maps.Clone(p.Versions)
	for _, f := range failed {
		if of := (*repository.ModelError)(nil); errors.As(f, &of) {
			now.Versions[of.Version] = given.Versions[of.Version] // whatever it becomes is other than what is served
		}
	}
	files := map[string]bool{}
	for v, h := range now.Versions {
		files[v] = had && given.Versions[v] != h
	}
	w.given[name] = now
	w.apply(name, models, failed, files)
	w.b.tellBroken(name, failed)
}

// apply has all pools serve what a model's folder has; files says which versions' files are
// others than before, and failed what could not be read of it.
func (w *watch) apply(name string, models []repository.Model, failed []error, files map[string]bool) {
	for _, p := range w.b.pools {
		var mine []repository.Model
		for _, m := range models {
			if p.cfg.takes(&m) {
				mine = append(mine, m)
			}
		}
		p.stock.own(filepath.Join(w.b.cfg.Repository, name), mine, failed, files)
	}
}

// own has the pool serve the models that lie in a folder of the backend's repository. Models that lay there and are gone
// are served no more; models that could not be read are served on.
func (s *stock) own(dir string, models []repository.Model, failed []error, files map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	stays := s.faulty(dir, failed)
	for i := range models {
		m := models[i]
		stays[m.Spec.Key()] = true
		s.ownOne(&m, files[m.Spec.Version])
	}
	for key, e := range s.entries {
		if !e.local || e.model == nil || e.model.Dir != dir || stays[key] {
			continue
		}
		if !e.unread {
			s.b.log.Info().Str("pool", s.p.doc.DeviceType).Str("model", key).Msg("gone from the repository: it is served no more")
		}
		e.grace = true
		for d := range e.on {
			e.on[d].wanted = false
		}
		s.settle(e)
	}
}

// ownOne has a model served as its folder says now. Caller holds mu.
func (s *stock) ownOne(m *repository.Model, files bool) {
	key := m.Spec.Key()
	source := catalog.Source{Name: m.Spec.Name, Version: m.Spec.Version}
	e := s.entries[key]
	switch {
	case e == nil:
		e = s.newEntry(source)
		e.local, e.model = true, m
		s.b.log.Info().Str("pool", s.p.doc.DeviceType).Str("model", key).Msg("new in the repository")
	case !e.local:
		return // the control plane has brought one of this name and version
	case !files && e.files == filesHere && e.next == nil && e.successor == nil && sameRun(e.model, m) && m.Spec.MaxBatch <= e.exec.MaxBatch:
		if !reflect.DeepEqual(e.model, m) {
			s.b.log.Info().Str("pool", s.p.doc.DeviceType).Str("model", key).Msg("its config.yaml has changed: served so from now on")
			m.Spec.Profile, m.Spec.WeightsBytes, m.Spec.LoadTime = e.model.Spec.Profile, e.model.Spec.WeightsBytes, e.model.Spec.LoadTime
			m.Path, m.Files = e.model.Path, e.model.Files // the copy that it is loaded from
			e.model = m
			s.adjust(e)
		}
	default:
		s.supersede(e, m)
	}
	e.refused = nil
	for d := range e.on {
		e.on[d].wanted = true
	}
	e.retry.forget()
	s.retried(e)
}

// sameRun reports whether two run alike: all is the same but for what schedulers and frontends
// go by.
func sameRun(a, b *repository.Model) bool {
	x, y := *a, *b
	x.Path, x.Files, y.Path, y.Files = "", "", "", "" // of one folder, and perhaps a copy
	for _, m := range []*repository.Model{&x, &y} {
		m.Spec.SLO, m.Spec.MaxBatch, m.Spec.DropPolicy, m.Spec.Image, m.Spec.Labels, m.Spec.LabelsID = 0, 0, "", nil, nil, ""
		m.Spec.WeightsBytes, m.Spec.LoadTime = 0, 0         // found when it was read
		if m.Spec.Platform != repository.PlatformEmulated { // it was measured
			m.Spec.Profile = catalog.Profile{}
		}
		if len(a.GPU.Sizes) == 0 || len(b.GPU.Sizes) == 0 {
			m.GPU.Sizes = nil
		}
	}
	return reflect.DeepEqual(x, y)
}
