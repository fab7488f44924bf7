// Package fakecontrol is a control plane in memory that does as api.Control promises, without
// a store, a scheduler or backends: versions come to be served by being asked after. Tests of
// the handler, the client and the commands run against it; Suite holds it and the real one to
// the same promises.
package fakecontrol

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// Control is the fake. The zero value is empty and ready.
type Control struct {
	// Broken says why a version fails; nil or "": it does not.
	Broken func(name, version string) string

	mu       sync.Mutex // Guards what follows.
	models   map[string]*model
	revision uint64
	away     *api.Error
	epochs   api.Epochs
	plans    []api.Plan // the newest first
	calls    map[string]int
	held     bool
}

type model struct {
	api.Model
	past [][]api.Share
}

// SetAway makes every call but State fail as if the store were away; nil: it is back.
func (c *Control) SetAway(err *api.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = err
}

// SetHeld keeps versions in the state that they are in.
func (c *Control) SetHeld(held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = held
}

// Calls are the calls so far, by name.
func (c *Control) Calls() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}

// begin counts a call and takes the lock, which the caller gives back.
func (c *Control) begin(name string) error {
	c.mu.Lock()
	if c.models == nil {
		c.models, c.calls = map[string]*model{}, map[string]int{}
	}
	c.calls[name]++
	if c.away != nil && name != "state" {
		return c.away
	}
	return nil
}

func (c *Control) find(name string) (*model, error) {
	m := c.models[name]
	if m == nil {
		return nil, api.NotFound("model %s: there is none", name)
	}
	return m, nil
}

// shown is a model as it leaves the lock.
func (m *model) shown() api.Model {
	out := m.Model
	out.Versions = slices.Clone(m.Versions)
	out.Shares = slices.Clone(m.Shares)
	if n := len(m.past); n > 0 {
		out.Rollback, out.Before = true, slices.Clone(m.past[n-1])
	}
	return out
}

// change runs a change of one model.
func (c *Control) change(call, name string, do func(m *model) error) (api.Model, error) {
	err := c.begin(call)
	defer c.mu.Unlock()
	if err != nil {
		return api.Model{}, err
	}
	m, err := c.find(name)
	if err == nil {
		err = do(m)
	}
	if err != nil {
		return api.Model{}, err
	}
	c.settle(m)
	return m.shown(), nil
}

// settle lets the versions be what they can be, after a change.
func (c *Control) settle(m *model) {
	c.revision++
	m.Revision = c.revision
	for i := range m.Versions {
		v := &m.Versions[i]
		wanted := m.Wanted(v.Version)
		switch {
		case wanted && v.State == api.Idle:
			v.State, v.Reason = api.Waiting, ""
		case !wanted:
			v.State, v.Reason, v.GPUs = api.Idle, "", 0
		}
	}
}

// advance brings every version of a model one state further.
func (c *Control) advance(m *model) {
	next := map[api.State]api.State{api.Waiting: api.Fetching, api.Fetching: api.Loading, api.Loading: api.Measuring, api.Measuring: api.Serving}
	for i := range m.Versions {
		v := &m.Versions[i]
		to, ok := next[v.State]
		if !ok {
			continue
		}
		v.State, v.Since = to, time.Unix(int64(c.revision), 0).UTC()
		if why := c.why(m.Name, v.Version); why != "" && to == api.Loading {
			v.State, v.Reason, v.Tries = api.Failed, why, v.Tries+1
		}
		if v.State == api.Serving {
			v.GPUs, v.SubCluster = 2, "s1"
		}
		if v.State == api.Fetching {
			v.Done, v.Total = 1<<20, 4<<20
		}
	}
	c.revision++
	m.Revision = c.revision
}

func (c *Control) why(name, version string) string {
	if c.Broken == nil {
		return ""
	}
	return c.Broken(name, version)
}

// Settle brings all models to where they stay.
func (c *Control) Settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range 5 {
		for _, m := range c.models {
			c.advance(m)
		}
	}
}

// List implements api.Control.
func (c *Control) List(_ context.Context, q api.Query) (api.Page, error) {
	err := c.begin("list")
	defer c.mu.Unlock()
	if err != nil {
		return api.Page{}, err
	}
	page := api.Page{Models: []api.Model{}}
	for _, name := range slices.Sorted(maps.Keys(c.models)) {
		m := c.models[name]
		in := q.State == "" || slices.ContainsFunc(m.Versions, func(v api.Version) bool { return v.State == q.State })
		switch {
		case name <= q.After || !in:
		case len(page.Models) == q.Limit:
			page.Next = page.Models[q.Limit-1].Name
			return page, nil
		default:
			page.Models = append(page.Models, m.shown())
		}
	}
	return page, nil
}

// Model implements api.Control.
func (c *Control) Model(_ context.Context, name string) (api.Model, error) {
	err := c.begin("show")
	defer c.mu.Unlock()
	if err != nil {
		return api.Model{}, err
	}
	m, err := c.find(name)
	if err != nil {
		return api.Model{}, err
	}
	return m.shown(), nil
}

// Await implements api.Control. Being asked after is what makes a fake's versions go on; when
// there is nothing to go on with it waits for ctx.
func (c *Control) Await(ctx context.Context, name string, since uint64) (api.Model, error) {
	for call := "await"; ; call = "look" {
		err := c.begin(call)
		var m *model
		if err == nil {
			m, err = c.find(name)
		}
		if err != nil {
			c.mu.Unlock()
			return api.Model{}, err
		}
		moving := slices.ContainsFunc(m.Versions, func(v api.Version) bool {
			return v.State != api.Serving && v.State != api.Idle && v.State != api.Failed
		})
		if m.Revision == since && moving && !c.held {
			c.advance(m)
		}
		out := m.shown()
		c.mu.Unlock()
		if out.Revision != since {
			return out, nil
		}
		select {
		case <-ctx.Done():
			return out, nil
		case <-time.After(time.Millisecond):
		}
	}
}

// PutVersion implements api.Control.
func (c *Control) PutVersion(_ context.Context, name, version string, spec api.VersionSpec) (api.Model, error) {
	if err := c.begin("add"); err != nil {
		c.mu.Unlock()
		return api.Model{}, err
	}
	defer c.mu.Unlock()
	m := c.models[name]
	if m == nil {
		m = &model{Model: api.Model{Name: name, Desired: api.Served, Policy: api.Policy{Kind: api.PolicyLatest}}}
		c.models[name] = m
	}
	if v := m.Find(version); v != nil {
		if v.Source != spec.Source || spec.Digest != "" && v.Digest != spec.Digest {
			return api.Model{}, api.Conflict("model %s/%s is there with source %s: versions do not change; add another version, or remove this one first", name, version, v.Source)
		}
		v.Settings = spec.Settings
		c.settle(m)
		return m.shown(), nil
	}
	if len(m.Versions) == api.VersionsMax {
		return api.Model{}, api.Conflict("model %s has %d versions, which is the most: remove some", name, api.VersionsMax)
	}
	c.revision++
	m.Versions = append(m.Versions, api.Version{Version: version, VersionSpec: spec, State: api.Waiting, Added: time.Unix(int64(c.revision), 0).UTC()})
	c.settle(m)
	return m.shown(), nil
}

// SetFiles implements api.Control.
func (c *Control) SetFiles(_ context.Context, name, version string, f api.Files) (api.Model, error) {
	return c.change("files", name, func(m *model) error {
		v := m.Find(version)
		switch {
		case v == nil:
			return api.NotFound("model %s has no version %s; it has %s", name, version, m.names())
		case v.State == api.Serving && (f.Digest == "" || f.Digest != v.Digest):
			return api.Conflict("version %s of model %s is served: add these files as another version, or stop it first", version, name)
		}
		v.Source, v.Digest, v.Bytes = f.Source, f.Digest, f.Bytes
		return nil
	})
}

// DeleteVersion implements api.Control.
func (c *Control) DeleteVersion(_ context.Context, name, version string) (api.Model, error) {
	return c.change("remove_version", name, func(m *model) error {
		switch {
		case m.Find(version) == nil:
			return api.NotFound("model %s has no version %s; it has %s", name, version, m.names())
		case len(m.Versions) > 1 && slices.ContainsFunc(m.Shares, func(s api.Share) bool { return s.Version == version && s.Weight > 0 }):
			return api.Conflict("version %s has a share of the requests: take it away first (symphony model share %s ...)", version, name)
		}
		if m.Policy.Kind == api.PolicyListed && len(m.Versions) > 1 {
			left := slices.DeleteFunc(slices.Clone(m.Policy.Listed), func(v string) bool { return v == version })
			if len(left) == 0 {
				return api.Conflict("version %s is the only one that the policy of model %s lists: list another first (symphony model versions %s --listed ...)", version, name, name)
			}
			m.Policy.Listed = left
		}
		m.Versions = slices.DeleteFunc(m.Versions, func(v api.Version) bool { return v.Version == version })
		m.Shares = slices.DeleteFunc(m.Shares, func(s api.Share) bool { return s.Version == version })
		if len(m.Versions) == 0 {
			delete(c.models, name)
		}
		return nil
	})
}

func (m *model) names() string {
	var all []string
	for _, v := range m.Versions {
		all = append(all, v.Version)
	}
	return strings.Join(all, ", ")
}

// DeleteModel implements api.Control.
func (c *Control) DeleteModel(_ context.Context, name string) error {
	_, err := c.change("remove", name, func(*model) error {
		delete(c.models, name)
		return nil
	})
	return err
}

// SetSettings implements api.Control.
func (c *Control) SetSettings(_ context.Context, name, version string, patch api.Patch) (api.Model, error) {
	return c.change("settings", name, func(m *model) error {
		if version == "" {
			patch.Apply(&m.Settings)
			return nil
		}
		v := m.Find(version)
		if v == nil {
			return api.NotFound("model %s has no version %s; it has %s", name, version, m.names())
		}
		patch.Apply(&v.Settings)
		return nil
	})
}

// SetPolicy implements api.Control.
func (c *Control) SetPolicy(_ context.Context, name string, p api.Policy) (api.Model, error) {
	return c.change("policy", name, func(m *model) error { return m.setPolicy(p, "") })
}

func (m *model) setPolicy(p api.Policy, field string) error {
	for i, v := range p.Listed {
		if m.Find(v) == nil {
			return api.Invalid(fmt.Sprintf("%slisted[%d]", field, i), "model %s has no version %s; it has %s", m.Name, v, m.names())
		}
	}
	m.Policy = p
	return nil
}

// SetShares implements api.Control.
func (c *Control) SetShares(_ context.Context, name string, shares []api.Share) (api.Model, error) {
	return c.change("shares", name, func(m *model) error {
		for i, s := range shares {
			switch v := m.Find(s.Version); {
			case v == nil:
				return api.Invalid(fmt.Sprintf("shares[%d].version", i), "model %s has no version %s; it has %s", name, s.Version, m.names())
			case v.State == api.Failed && s.Weight > 0:
				return api.Conflict("version %s failed: %s", s.Version, v.Reason)
			}
		}
		if !slices.Equal(m.Shares, shares) {
			m.past, m.Shares = append(m.past, m.Shares), slices.Clone(shares)
		}
		return nil
	})
}

// RollBack implements api.Control.
func (c *Control) RollBack(_ context.Context, name string) (api.Model, error) {
	return c.change("rollback", name, func(m *model) error {
		last := len(m.past) - 1
		if last < 0 {
			return api.Conflict("model %s: its shares were never changed: there is nothing to roll back to", name)
		}
		m.Shares, m.past = m.past[last], m.past[:last]
		return nil
	})
}

// Load implements api.Control.
func (c *Control) Load(_ context.Context, name string, o api.LoadOrder) (api.Model, error) {
	return c.change("load", name, func(m *model) error {
		if o.Policy != nil {
			if err := m.setPolicy(*o.Policy, "policy."); err != nil {
				return err
			}
		}
		o.Settings.Apply(&m.Settings)
		m.Desired = api.Served
		for i := range m.Versions {
			if v := &m.Versions[i]; v.State == api.Failed {
				v.State, v.Reason = api.Waiting, ""
			}
		}
		return nil
	})
}

// Unload implements api.Control.
func (c *Control) Unload(_ context.Context, name string) (api.Model, error) {
	return c.change("unload", name, func(m *model) error { m.Desired = api.Stopped; return nil })
}
