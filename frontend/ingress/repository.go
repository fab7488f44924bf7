package ingress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// Repository loads and unloads models at run time: the control plane, as far as Triton's model
// repository extension asks for it. Errors wrap one of those below, or are faults.
type Repository interface {
	// Index is every version that is known, served or not.
	Index(ctx context.Context) ([]Indexed, error)
	// Load has a model served as the override says, and returns when it is: its versions that
	// are to be served are all ready. If ctx ends first the order stands.
	Load(ctx context.Context, model string, o Override) error
	// Unload has a model served no more. It may return before that is so.
	Unload(ctx context.Context, model string) error
}

// What a Repository's errors wrap.
var (
	ErrNotThere  = errors.New("no such model")             // nobody has added it
	ErrNotTaken  = errors.New("not taken")                 // the override, or the model's state, forbids it
	ErrNotLoaded = errors.New("not loaded")                // it was tried, and the error says what went wrong
	ErrAway      = errors.New("the control plane is away") // try again
)

// Indexed is a version in the index.
type Indexed struct {
	Name, Version string
	Ready         bool   // it is served, as far as the Repository knows
	Reason        string // why it is not
	Note          string // it is, and there is something to say
}

// Override is what a load changes of how a model is served; nil: as it is.
type Override struct {
	SLO        *time.Duration
	MaxBatch   *int
	DropPolicy *string
	Versions   *VersionPolicy
}

func (o *Override) empty() bool { return *o == Override{} }

// VersionPolicy says which versions are served: one of the three.
type VersionPolicy struct {
	Latest   int // so many
	All      bool
	Specific []string
}

// loadsMax is how many loads wait at a time: each holds a connection.
const loadsMax = 256

// repositoryIndex serves POST /v2/repository/index. What this frontend can serve it knows best
// itself; what is not in its catalogue the Repository tells of.
func (s *Server) repositoryIndex(x *exchange) error {
	onlyReady, err := s.indexOrder(x)
	if err != nil {
		return err
	}
	all, whole := s.indexed()
	if !whole {
		x.ctx.Response.Header.Set(reasonHeader, "incomplete")
	}
	out := make([]object, 0, len(all))
	for _, k := range all {
		switch {
		case k.Ready:
			out = append(out, object{"name": k.Name, "version": k.Version, "state": "READY", "reason": k.Note})
		case !onlyReady:
			out = append(out, object{"name": k.Name, "version": k.Version, "state": "UNAVAILABLE", "reason": k.Reason})
		}
	}
	return x.json(200, out)
}

// indexed is every version that this frontend or the Repository knows; whole is false where the
// Repository did not answer.
func (s *Server) indexed() (all []Indexed, whole bool) {
	whole = true
	seen := map[string]int{} // place in all, from 1 on
	for _, e := range s.cfg.Client.Models().Entries {
		k := Indexed{Name: e.Spec.Name, Version: e.Spec.Version, Ready: e.Ready}
		if e.Ready {
			k.Note = e.Spec.Infeasible()
		} else {
			k.Reason = "no backend serves it now"
		}
		all = append(all, k)
		seen[e.Spec.Key()] = len(all)
	}
	if s.cfg.Repository != nil {
		ctx, cancel := context.WithTimeout(s.ending, s.cfg.IndexTimeout)
		known, err := s.cfg.Repository.Index(ctx)
		cancel()
		if err != nil {
			s.log.Warn().Err(err).Msg("the repository's index has only what is served: the control plane does not answer")
			whole = false
		}
		for _, k := range known {
			spec := catalog.ModelSpec{Name: k.Name, Version: k.Version}
			if at := seen[spec.Key()]; at > 0 {
				all[at-1].Note = cmp.Or(k.Note, all[at-1].Note)
			} else {
				if k.Ready { // not here, or not yet
					k.Ready, k.Reason = false, "this frontend has not heard of it yet"
				}
				all = append(all, k)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Indexed) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(len(a.Version), len(b.Version)), cmp.Compare(a.Version, b.Version))
	})
	return all, whole
}

// load serves .../load.
func (s *Server) load(x *exchange) error {
	o, err := s.loadOrder(x)
	if err != nil {
		return err
	}
	if err := s.loadModel(s.ending, x.model, o); err != nil {
		return err
	}
	return s.nothing(x)
}

// loadModel has the Repository load a model, and waits until it is served, or ctx ends.
func (s *Server) loadModel(ctx context.Context, model string, o Override) error {
	if s.cfg.Repository == nil {
		if e, err := s.cfg.Client.Model(model, ""); err == nil && e.Ready && o.empty() { // what is loaded need not be loaded again
			return nil
		}
		return badRequest("failed to load '%s': no control plane is configured: models are loaded by the backends from their repositories when these start; put it there, or set frontend.control to the control plane's address, http://HOST:8002", model)
	}
	if s.loads.Add(1) > loadsMax {
		s.loads.Add(-1)
		return s.full("too many loads wait")
	}
	defer s.loads.Add(-1)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.LoadTimeout)
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	err := s.cfg.Repository.Load(ctx, model, o)
	if err == nil {
		err = s.heard(ctx, model)
	}
	switch {
	case err == nil:
		return nil
	case s.ending.Err() != nil:
		return shuttingDown()
	case ctx.Err() != nil:
		return &refusal{status: 503, reason: "loading", after: pause, msg: fmt.Sprintf("'%s' is not loaded within %v; it goes on being loaded: ask the index, or load it again to wait on", model, s.cfg.LoadTimeout)}
	}
	return s.repositoryRefusal(model, "load", err)
}

// heardPause is how often a load looks whether the catalogue has come.
const heardPause = 2 * time.Millisecond

// heard waits until this frontend can serve the model, which the scheduler tells all frontends
// at once: whoever loads a model asks it next.
func (s *Server) heard(ctx context.Context, model string) error {
	for {
		if e, err := s.cfg.Client.Model(model, ""); err == nil && e.Ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(heardPause):
		}
	}
}

// unload serves .../unload.
func (s *Server) unload(x *exchange) error {
	if err := s.unloadOrder(x); err != nil {
		return err
	}
	if err := s.unloadModel(x.model); err != nil {
		return err
	}
	return s.nothing(x)
}

// unloadModel has the Repository take a model out of service.
func (s *Server) unloadModel(model string) error {
	if s.cfg.Repository == nil {
		if _, err := s.cfg.Client.Model(model, ""); err != nil {
			return err
		}
		return unsupported("failed to unload '" + model + "': no control plane is configured: take the model out of the backends' repositories, or set frontend.control to the control plane's address, http://HOST:8002")
	}
	ctx, cancel := context.WithTimeout(s.ending, s.cfg.IndexTimeout)
	defer cancel()
	if err := s.cfg.Repository.Unload(ctx, model); err != nil {
		return s.repositoryRefusal(model, "unload", err)
	}
	s.unheard(model)
	return nil
}

// unloadHeard is how long an unload's answer waits for this frontend's requests to be refused.
const unloadHeard = 2 * time.Second

// unheard waits until this frontend no longer serves the model, or for unloadHeard: the control plane has
// taken the order, and goes on with it in either case.
func (s *Server) unheard(model string) {
	ctx, cancel := context.WithTimeout(s.ending, unloadHeard)
	defer cancel()
	for {
		if e, err := s.cfg.Client.Model(model, ""); err != nil || !e.Ready {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(heardPause):
		}
	}
}

// repositoryRefusal is the answer to what a Repository did not do.
func (s *Server) repositoryRefusal(model, what string, err error) error {
	msg := fmt.Sprintf("failed to %s '%s': %v", what, model, err)
	switch {
	case errors.Is(err, ErrNotThere):
		return &refusal{status: 400, reason: "unknown_model", msg: msg + "; add it first: symphony model add " + model + "/VERSION --source URL"}
	case errors.Is(err, ErrNotTaken):
		return &refusal{status: 400, reason: "bad_request", msg: msg}
	case errors.Is(err, ErrNotLoaded):
		return &refusal{status: 400, reason: "not_loaded", msg: msg}
	case errors.Is(err, ErrAway), errors.Is(err, context.DeadlineExceeded):
		return &refusal{status: 503, reason: "unavailable", after: pause, msg: msg}
	}
	return &refusal{status: 500, reason: "internal", msg: msg}
}
