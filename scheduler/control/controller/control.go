package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

var _ api.Control = (*Controller)(nil)

// retryAway is what callers are told to wait while the store is away.
const retryAway = 2 * time.Second

// wrong is a store's error as the API says it.
func wrong(err error, name string) error {
	var e *api.Error
	var away *store.AwayError
	var conflict *store.ConflictError
	var full *store.FullError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.As(err, &away):
		return api.Away(retryAway, away.Unknown, "%v", err)
	case errors.Is(err, store.ErrNotFound):
		return noModel(name)
	case errors.As(err, &conflict):
		return api.Conflict("model %s was changed by others at the same time: try again", name)
	case errors.As(err, &full):
		return api.Conflict("%v", err)
	case errors.Is(err, store.ErrClosed):
		return api.Away(retryAway, false, "the controller is shutting down")
	}
	return err
}

func noModel(name string) error {
	return api.NotFound("no model %q was added: `symphony model list` shows all that there are; those of a backend's own folder (backend.repository) or configuration are changed there", name)
}

// List implements api.Models.
func (c *Controller) List(_ context.Context, q api.Query) (api.Page, error) {
	v := c.view
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make([]string, 0, len(v.models))
	for name := range v.models {
		all = append(all, name)
	}
	for name := range v.observed { // of backends' own folders
		if _, there := v.models[name]; !there {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	page := api.Page{Models: []api.Model{}}
	from, found := slices.BinarySearch(all, q.After)
	if found {
		from++
	}
	for _, name := range all[from:] {
		m := v.model(name)
		if q.State != "" && !slices.ContainsFunc(m.Versions, func(x api.Version) bool { return x.State == q.State }) {
			continue
		}
		if len(page.Models) == max(1, q.Limit) {
			page.Next = page.Models[len(page.Models)-1].Name
			break
		}
		page.Models = append(page.Models, m)
	}
	return page, nil
}

// Model implements api.Models.
func (c *Controller) Model(_ context.Context, name string) (api.Model, error) {
	m, there := c.look(name)
	if !there {
		return m, noModel(name)
	}
	return m, nil
}

func (c *Controller) look(name string) (api.Model, bool) {
	v := c.view
	v.mu.Lock()
	defer v.mu.Unlock()
	_, wanted := v.models[name]
	_, seen := v.observed[name]
	if !wanted && !seen {
		return api.Model{}, false
	}
	return v.model(name), true
}

// Await implements api.Models.
func (c *Controller) Await(ctx context.Context, name string, since uint64) (api.Model, error) {
	for {
		c.view.mu.Lock()
		changed := c.view.changed
		c.view.mu.Unlock()
		m, there := c.look(name)
		if !there {
			return m, noModel(name)
		}
		if m.Revision != since {
			return m, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return m, nil
		case <-c.ctx.Done():
			return m, nil
		}
	}
}

// written waits until the view has a model's change, so that whoever made it sees it.
func (c *Controller) written(ctx context.Context, name string, revision int64) (api.Model, error) {
	var m api.Model
	if !c.seen(ctx, func() bool {
		e, there := c.view.models[name] // by its own revision: what became of it may be newer, and come first
		if there = there && e.Revision >= revision; there {
			m = c.view.model(name)
		}
		return there
	}) {
		return m, api.Away(retryAway, true, "model %s was changed, and what it is now is not known yet: ask again", name)
	}
	return m, nil
}

// seen waits until the view is as is says, which is called with its lock held; false: it took
// too long.
func (c *Controller) seen(ctx context.Context, is func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, viewWait)
	defer cancel()
	for {
		c.view.mu.Lock()
		changed, there := c.view.changed, is()
		c.view.mu.Unlock()
		if there {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		case <-c.ctx.Done():
			return false
		}
	}
}

// viewWait is how long a change may take to come back from the store.
const viewWait = 5 * time.Second

// change alters what is wanted of a model that is there.
func (c *Controller) change(ctx context.Context, name string, change func(m *schema.Model) error) (api.Model, error) {
	e, err := c.cfg.Store.Models.Change(ctx, schema.ID(name), change)
	if err != nil {
		return api.Model{}, wrong(err, name)
	}
	return c.written(ctx, name, e.Revision)
}

// PutVersion implements api.Models.
func (c *Controller) PutVersion(ctx context.Context, name, version string, spec api.VersionSpec) (api.Model, error) {
	add := schema.ModelVersion{Version: version, Source: spec.Source, Digest: spec.Digest, Size: spec.Bytes, Added: time.Now().UnixNano()}
	if s := settingsIn(spec.Settings); !isZero(s) {
		add.Settings = &s
	}
	for {
		m := schema.Model{Name: name, Desired: schema.Served, Policy: schema.Policy{Kind: schema.PolicyLatest}, Versions: []schema.ModelVersion{add}}
		rev, err := c.cfg.Store.Models.Create(ctx, m)
		var conflict *store.ConflictError
		switch {
		case err == nil:
			return c.written(ctx, name, rev)
		case !errors.As(err, &conflict):
			return api.Model{}, wrong(err, name)
		}
		out, err := c.change(ctx, name, func(m *schema.Model) error { return c.putVersion(m, add) })
		if !errors.Is(err, &api.Error{Kind: api.KindNotFound}) { // deleted between the two
			return out, err
		}
	}
}

func (c *Controller) putVersion(m *schema.Model, add schema.ModelVersion) error {
	i := m.Find(add.Version)
	if i < 0 {
		if len(m.Versions) >= api.VersionsMax {
			return api.Conflict("model %s has %d versions, the most that it may have: remove some (symphony model remove %s --version V)", m.Name, len(m.Versions), m.Name)
		}
		m.Versions = append(m.Versions, add)
		return nil
	}
	have := &m.Versions[i]
	if have.Source != add.Source {
		return api.Conflict("version %s of model %s is there with the source %s: versions do not change, add another one", add.Version, m.Name, have.Source)
	}
	if digest := c.digestOf(have, m.Name); add.Digest != "" && digest != "" && add.Digest != digest {
		return api.Conflict("version %s of model %s is there with files of digest %s: versions do not change, add another one, or say that its files are other ones (symphony model update %s/%s --source %s --digest %s)",
			add.Version, m.Name, digest, m.Name, add.Version, have.Source, add.Digest)
	}
	have.Settings = add.Settings
	if have.Digest == "" {
		have.Digest, have.Size = add.Digest, add.Size
	}
	return nil
}

// SetFiles implements api.Models.
func (c *Controller) SetFiles(ctx context.Context, name, version string, f api.Files) (api.Model, error) {
	return c.change(ctx, name, func(m *schema.Model) error {
		i := m.Find(version)
		if i < 0 {
			return api.NotFound("model %s has no version %s", name, version)
		}
		v := &m.Versions[i]
		same := f.Digest != "" && f.Digest == c.digestOf(v, name)
		if !same && c.serves(name, version) {
			return api.Conflict("version %s of model %s is served, and its files do not change meanwhile: add these as another version, or stop it first (symphony model update %s --unload)", version, name, name)
		}
		if v.Source, v.Digest, v.Size = f.Source, f.Digest, f.Bytes; !same {
			v.Renewed = max(time.Now().UnixNano(), v.Files()+1)
		}
		return nil
	})
}

// digestOf is that of a version's files, given or learnt; "": it is not known.
func (c *Controller) digestOf(v *schema.ModelVersion, name string) string {
	if v.Digest != "" {
		return v.Digest
	}
	c.view.mu.Lock()
	defer c.view.mu.Unlock()
	if o := c.view.observed[name][v.Version]; o.Files == v.Files() {
		return o.Digest
	}
	return ""
}

// serves reports whether requests go to a version.
func (c *Controller) serves(name, version string) bool {
	c.view.mu.Lock()
	defer c.view.mu.Unlock()
	return c.view.observed[name][version].State == schema.Serving
}

// DeleteVersion implements api.Models.
func (c *Controller) DeleteVersion(ctx context.Context, name, version string) (api.Model, error) {
	last := false
	e, err := c.cfg.Store.Models.Change(ctx, schema.ID(name), func(m *schema.Model) error {
		i := m.Find(version)
		if i < 0 {
			return api.NotFound("model %s has no version %s", name, version)
		}
		if last = len(m.Versions) == 1; last {
			m.Desired = schema.Stopped // gone in a moment
			return nil
		}
		if slices.ContainsFunc(m.Shares, func(s schema.Share) bool { return s.Version == version && s.Weight > 0 }) {
			return api.Conflict("version %s of model %s has a share of the requests: give it to others first (symphony model share)", version, name)
		}
		if m.Policy.Kind == schema.PolicyListed && slices.Equal(m.Policy.Listed, []string{version}) {
			return api.Conflict("version %s of model %s is the only one that its policy lists: list others first (symphony model versions)", version, name)
		}
		m.Versions = slices.Delete(m.Versions, i, i+1)
		without := func(s schema.Share) bool { return s.Version == version }
		m.Shares = slices.DeleteFunc(m.Shares, without)
		for i := range m.Past {
			m.Past[i].Shares = slices.DeleteFunc(m.Past[i].Shares, without)
		}
		m.Policy.Listed = slices.DeleteFunc(m.Policy.Listed, func(v string) bool { return v == version })
		return nil
	})
	switch {
	case err != nil:
		return api.Model{}, wrong(err, name)
	case !last:
		return c.written(ctx, name, e.Revision)
	}
	return api.Model{Name: name, Desired: api.Stopped, Versions: []api.Version{}}, c.remove(ctx, name, e.Revision)
}

// DeleteModel implements api.Models.
func (c *Controller) DeleteModel(ctx context.Context, name string) error {
	return c.remove(ctx, name, 0)
}

// remove deletes a model as it was at a revision, to which others have added nothing since;
// 0: whatever it is.
func (c *Controller) remove(ctx context.Context, name string, revision int64) error {
	if err := c.cfg.Store.Models.Delete(ctx, schema.ID(name), revision); err != nil {
		return wrong(err, name)
	}
	c.seen(ctx, func() bool { _, there := c.view.models[name]; return !there })
	return nil
}

// SetSettings implements api.Models.
func (c *Controller) SetSettings(ctx context.Context, name, version string, patch api.Patch) (api.Model, error) {
	return c.change(ctx, name, func(m *schema.Model) error {
		if version == "" {
			m.Settings = patched(m.Settings, patch)
			return nil
		}
		i := m.Find(version)
		if i < 0 {
			return api.NotFound("model %s has no version %s", name, version)
		}
		var own schema.Settings
		if m.Versions[i].Settings != nil {
			own = *m.Versions[i].Settings
		}
		if own = patched(own, patch); isZero(own) {
			m.Versions[i].Settings = nil
		} else {
			m.Versions[i].Settings = &own
		}
		return nil
	})
}

// SetPolicy implements api.Models.
func (c *Controller) SetPolicy(ctx context.Context, name string, p api.Policy) (api.Model, error) {
	return c.change(ctx, name, func(m *schema.Model) error { return setPolicy(m, p) })
}

func setPolicy(m *schema.Model, p api.Policy) error {
	for _, v := range p.Listed {
		if m.Find(v) < 0 {
			return api.Invalid("listed", "model %s has no version %s", m.Name, v)
		}
	}
	m.Policy = schema.Policy{Kind: schema.PolicyKind(p.Kind), Latest: p.Latest, Listed: p.Listed}
	return nil
}

// SetShares implements api.Models.
func (c *Controller) SetShares(ctx context.Context, name string, shares []api.Share) (api.Model, error) {
	return c.change(ctx, name, func(m *schema.Model) error {
		var next []schema.Share
		for i, s := range shares {
			if m.Find(s.Version) < 0 {
				return api.Invalid("shares", "share %d is of version %s, which model %s does not have", i, s.Version, name)
			}
			if why := c.failed(name, s.Version); why != "" && s.Weight > 0 {
				return api.Conflict("version %s of model %s has failed (%s): it could not answer its share", s.Version, name, why)
			}
			next = append(next, schema.Share{Version: s.Version, Weight: s.Weight})
		}
		if !slices.Equal(m.Shares, next) { // else a roll-back would return to what is there
			m.SetShares(next, time.Now().UnixNano())
		}
		return nil
	})
}

// failed is why a version failed; "": it did not.
func (c *Controller) failed(name, version string) string {
	c.view.mu.Lock()
	defer c.view.mu.Unlock()
	if o := c.view.observed[name][version]; o.State == schema.Failed {
		return strings.TrimSpace(o.Reason + " ")
	}
	return ""
}

// RollBack implements api.Models.
func (c *Controller) RollBack(ctx context.Context, name string) (api.Model, error) {
	return c.change(ctx, name, func(m *schema.Model) error {
		if !m.RollBack() {
			return api.Conflict("model %s has no shares before these: there is nothing to roll back to", name)
		}
		return nil
	})
}

// Load implements api.Models.
func (c *Controller) Load(ctx context.Context, name string, o api.LoadOrder) (api.Model, error) {
	return c.change(ctx, name, func(m *schema.Model) error {
		m.Desired = schema.Served
		m.Settings = patched(m.Settings, o.Settings)
		if o.Policy != nil {
			return setPolicy(m, *o.Policy)
		}
		return nil
	})
}

// Unload implements api.Models.
func (c *Controller) Unload(ctx context.Context, name string) (api.Model, error) {
	return c.change(ctx, name, func(m *schema.Model) error {
		m.Desired = schema.Stopped
		return nil
	})
}
