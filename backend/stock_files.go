package backend

import (
	"context"
	"fmt"

	"github.com/symphony-serving/symphony/backend/nice"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Shelf gets files of models and keeps them: backend/shelf.
type Shelf interface {
	// Fetch has the files of a model's version in a folder, which stays until release is
	// called. progress is called now and then, at most once a second.
	Fetch(ctx context.Context, source *catalog.Source, progress func(done, total int64)) (dir string, release func(), err error)
	// Digest is that of a model's version in a folder, with the bytes of its files.
	Digest(dir, version string) (catalog.Digest, int64, error)
	Close() error
}

// fetched is what comes of a model's files.
type fetched struct {
	model    *repository.Model
	spec     *catalog.ModelSpec
	profiled bool
	measured bool // by this host
	need     need
	files    catalog.Files // but for Own
	own      ownSettings
	release  func()
}

// ownSettings are those of a model's own config.yaml.
type ownSettings struct {
	slo        mono.Dur
	maxBatch   int
	dropPolicy string
}

// fetch begins to get a model's files and to read them. Caller holds mu.
func (s *stock) fetch(e *entry) {
	ctx, cancel := context.WithCancel(s.ctx)
	e.files, e.stopGet = filesFetching, cancel
	source, model, local := e.source, e.model, e.local
	s.work.Go(func() {
		defer cancel()
		var own *repository.Model
		if local {
			own = model
		}
		var f fetched
		var err error
		if f.release = func() {}; model == nil || model.Path != "" { // its file is read, for its digest
			nice.Run(nice.Most, func() { f, err = s.get(ctx, e, &source, own) })
		} else {
			f, err = s.get(ctx, e, &source, own)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		e.stopGet = nil
		if err == nil {
			if err = e.asOrdered(&f); err != nil {
				f.release()
			}
		}
		switch {
		case err == nil && ctx.Err() == nil:
			e.files, e.giveBack = filesHere, f.release
			exec := s.p.execModel(&f.model.Spec)
			e.model, e.spec, e.exec, e.need = f.model, f.spec, &exec, f.need
			e.profiled, e.measured = f.profiled, f.measured
			e.respecify()
			e.got, e.own = f.files, f.own
			s.adjust(e) // to what came meanwhile
		case err == nil:
			e.files = filesNone
			f.release()
		case ctx.Err() != nil:
			e.files = filesNone
		default:
			e.files = filesNone
			s.failed(e, err, true)
		}
		s.settle(e)
	})
}

// asOrdered says why what came is not what is ordered by now: the order that it was got for named
// no digest, and one that came since does. Caller holds mu.
func (e *entry) asOrdered(f *fetched) error {
	want := e.source.Digest
	if e.next != nil || want == "" || f.files.Digest == "" || f.files.Digest == want {
		return nil
	}
	return fmt.Errorf("its files have digest %s, and %s was ordered meanwhile: they have changed", f.files.Digest, want)
}

// brought is what the scheduler is told of its files; nothing of what is the backend's own. Caller
// holds mu.
func (e *entry) brought() catalog.Files {
	if e.local || e.files != filesHere || e.spec == nil {
		return catalog.Files{}
	}
	files, own := e.got, catalog.Settings{}
	if e.spec.SLO != e.own.slo {
		slo := int64(e.own.slo)
		own.SLO = &slo
	}
	if e.spec.MaxBatch != e.own.maxBatch {
		most := e.own.maxBatch
		own.MaxBatch = &most
	}
	if e.spec.DropPolicy != e.own.dropPolicy {
		policy := e.own.dropPolicy
		own.DropPolicy = &policy
	}
	if own != (catalog.Settings{}) {
		files.Own = &own
	}
	return files
}

// get has a model's files, reads them, and says whether these devices can run it. own is one
// that lies in the backend's own folder.
func (s *stock) get(ctx context.Context, e *entry, source *catalog.Source, own *repository.Model) (f fetched, err error) {
	f.release = func() {}
	defer func() {
		if err != nil {
			f.release()
		}
	}()
	m := repository.Model{}
	switch {
	case own != nil && own.Path == "":
		m = *own
	case own != nil:
		var release func()
		if m, release, err = s.copyOf(ctx, own); err != nil {
			return f, err
		}
		f.release = release
	default:
		if s.b.cfg.Shelf == nil {
			return f, fmt.Errorf("this backend gets no files: set backend.cache to a folder where it may keep them")
		}
		dir, release, err := s.b.cfg.Shelf.Fetch(ctx, source, func(done, total int64) { s.progress(e, done, total) })
		if err != nil {
			return f, err
		}
		f.release = release
		if f.files.Digest, f.files.Bytes, err = s.b.cfg.Shelf.Digest(dir, source.Version); err != nil {
			return f, err
		}
		if m, err = repository.Read(dir, source.Name, source.Version); err != nil {
			return f, err
		}
	}
	f.model = &m
	f.own = ownSettings{m.Spec.SLO, m.Spec.MaxBatch, m.Spec.DropPolicy}
	if err := checkLabels(&m.Spec); err != nil {
		return f, err
	}
	if source.MaxBatch > 0 {
		m.Spec.MaxBatch = source.MaxBatch
		m.GPU.Sizes = nil // the ladder of another one
	}
	if err := s.b.checkOutputs(&m.Spec); err != nil {
		return f, err
	}
	if err := s.p.loader.check(ctx, &m); err != nil {
		return f, err
	}
	if k, ok := s.p.loader.(keeper); ok {
		release := f.release
		f.release = func() {
			k.forget(&m)
			release()
		}
	}
	f.need = s.p.loader.need(&m)
	spec := served(&m, source)
	f.measured = m.Spec.Platform == repository.PlatformEmulated // config.yaml has it
	f.spec, f.profiled = &spec, source.Profile != nil || f.measured
	if !f.measured {
		own, err := profiler.Read(s.profileKey(&m))
		switch {
		case err == nil: // goes before one that others have measured: it is of this host, as it is now
			spec.Profile, f.profiled, f.measured = own, true, true
		case !f.profiled:
			s.b.logNoProfile(m.Spec.Key(), s.p.doc.DeviceType, err)
		}
	}
	return f, ctx.Err()
}

// copyOf copies a model of the backend's own folder. One that was listed by this pool while it could not be read may be
// another pool's.
func (s *stock) copyOf(ctx context.Context, own *repository.Model) (m repository.Model, release func(), err error) {
	if m, release, err = s.b.snapshots.Take(ctx, own); err != nil || s.p.cfg.takes(&m) {
		return m, release, err
	}
	release()
	return m, nil, fmt.Errorf("it can be read now, and is of device type %q, not of this pool: set backend.watch, or restart the backend, for its own pool to serve it", m.DeviceType)
}

// keeper is a loader that keeps what check had of a model, until the model's files go.
type keeper interface {
	forget(m *repository.Model)
}

// served is a model's specification with what its source says of it.
func served(m *repository.Model, source *catalog.Source) catalog.ModelSpec {
	spec := m.Spec
	if len(spec.Labels) > 0 {
		_, spec.LabelsID, _ = catalog.EncodeLabels(spec.Labels) // checked by checkLabels
	}
	if source.SLO > 0 {
		spec.SLO = mono.Dur(source.SLO)
	}
	if source.DropPolicy != "" {
		spec.DropPolicy = source.DropPolicy
	}
	if source.MaxBatch > 0 {
		spec.MaxBatch = min(source.MaxBatch, m.Spec.MaxBatch)
	}
	if source.Profile != nil {
		spec.Profile = *source.Profile
	}
	return spec
}

// progress of fetching.
func (s *stock) progress(e *entry, done, total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.done, e.total = done, total
	s.changed(e)
}
