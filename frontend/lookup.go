package frontend

import (
	"slices"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Which scheduler answers. As a rule one has a name; several have it while it moves from one
// to another, or where backends of several bring it. Then
//
//   - one that serves it goes before one that is away or has no device for it;
//   - where no version is asked for, one that has more of what the name's shares ask for, and
//     without shares the higher version: what is meant to answer does so wherever it is;
//   - else the one to which it came last. A model that moves is there before it goes from where
//     it was, so requests have gone to the new place for a while when the old one gives it up.
//
// A group of schedulers, of which one leads, is one scheduler here: the one that leads, or led last.
//
// All who look for a model go by this: Model, Choose, Infer, and a call whose model goes from
// where it was (follow.go).

// find is a model: of the version, or where it is empty the one that stands for the name.
func (c *Client) find(name, version string) (*model, *Error) {
	return c.seek(name, version, (*versions).foremost)
}

// choose is find for a request: one without a version takes its turn.
func (c *Client) choose(name, version string) (*model, *Error) {
	return c.seek(name, version, (*versions).choose)
}

// seek looks twice where there are several schedulers: a model that moves comes to one before
// it goes from the other, and who looked at the one before that and at the other after it has
// seen it nowhere.
func (c *Client) seek(name, version string, of func(*versions) *model) (*model, *Error) {
	for range min(2, len(c.groups)) {
		if version == "" {
			if v := c.named(name); v != nil {
				return of(v), nil
			}
		} else if m := c.exactly(name, version); m != nil {
			return m, nil
		}
	}
	return nil, c.absent(name, version)
}

// named are a name's versions at the scheduler that answers for it; nil: none has it.
func (c *Client) named(name string) *versions {
	var best *versions
	for _, g := range c.groups {
		if v := g.of(name); v != nil && (best == nil || v.beats(best)) {
			best = v
		}
	}
	return best
}

func (c *Client) exactly(name, version string) *model {
	var best *model
	for _, g := range c.groups {
		v := g.of(name)
		if v == nil {
			continue
		}
		if m := v.find(version); m != nil && (best == nil || m.beats(best)) {
			best = m
		}
	}
	return best
}

// absent is why there is no such model: a scheduler that has not been reached yet, or was
// started anew, may have it, and then a client should try again.
func (c *Client) absent(name, version string) *Error {
	known := false
	for _, g := range c.groups {
		if s := g.view(); s != nil {
			if p := s.awaits(name, version); p != nil {
				return g.pending(p)
			}
		}
	}
	for _, g := range c.groups {
		s := g.view()
		switch {
		case s == nil:
			return g.unavailable(name, "has not been reached yet")
		case s.of(name) != nil:
			known = true
		case g.had(name):
			return g.unavailable(name, "has another leader, and no backend has brought it to that one yet")
		case s.before[name] && mono.Now().Sub(s.since) < returnMax:
			return g.unavailable(name, "was started anew, and no backend has brought it yet")
		}
	}
	if known && version != "" {
		return &Error{Kind: ErrUnknownModel, Model: name, Msg: "no version " + version}
	}
	return &Error{Kind: ErrUnknownModel, Model: name, Msg: "not in the catalogue"}
}

// beats reports whether m answers rather than o, which is the same at another scheduler.
func (m *model) beats(o *model) bool {
	if a, b := m.serving(), o.serving(); a != b {
		return a
	}
	return m.came > o.came
}

// beats reports whether v answers for its name rather than o, which another scheduler has.
func (v *versions) beats(o *versions) bool {
	a, b := v.standing(), o.standing()
	if a.serves != b.serves {
		return a.serves
	}
	if a.part != b.part {
		return a.part > b.part
	}
	if d := compareVersions(a.best.entry.Spec.Version, b.best.entry.Spec.Version); a.part == 0 && d != 0 {
		return d > 0
	}
	return a.came > b.came
}

// standing is how well a scheduler's versions answer for their name.
type standing struct {
	serves bool
	part   uint64 // of the shares' weights that are of versions that are ready: of 1 << 16
	best   *model
	came   uint64 // the last of those that are ready
}

func (v *versions) standing() standing {
	s := standing{best: v.foremost()}
	s.serves, s.came = s.best.serving(), s.best.came
	for _, m := range v.all {
		if m.ready() {
			s.came = max(s.came, m.came)
		}
	}
	var ready, all uint64 // 256 weights of 32 bits, and 16 bits: no overflow
	for i, m := range v.shared {
		w := uint64(v.sharing.shares[i].Weight)
		if all += w; m != nil && m.ready() {
			ready += w
		}
	}
	if all > 0 {
		s.part = ready << 16 / all
	}
	return s
}

// Models is the catalogue as last heard of. Of several schedulers it is what each has, with a
// version that several have once, as requests find it. GPUs and ids are then each scheduler's
// own, so those of different ones may be equal; Epoch and Serial are 0.
func (c *Client) Models() catalog.Catalogue {
	if len(c.groups) == 1 {
		if s := c.groups[0].view(); s != nil {
			return s.doc()
		}
		return catalog.Catalogue{}
	}
	var all []*model
	at := map[string]int{} // by name and version
	for _, g := range c.groups {
		s := g.view()
		if s == nil {
			continue
		}
		for _, m := range s.sorted() {
			key := m.entry.Spec.Key()
			switch i, twice := at[key]; {
			case !twice:
				at[key] = len(all)
				all = append(all, m)
			case m.beats(all[i]):
				all[i] = m
			}
		}
	}
	var doc catalog.Catalogue
	for _, m := range all {
		doc.Entries = append(doc.Entries, m.state())
	}
	return doc
}

// Model finds one model. Version "" is the one that stands for the name: of the versions that
// are ready the one with the largest share, without shares the highest. The error is
// ErrUnknownModel, or ErrUnavailable while a scheduler that may have it has not been reached, or
// was started again and does not know it again.
func (c *Client) Model(name, version string) (catalog.Entry, error) {
	m, err := c.find(name, version)
	if err != nil {
		return catalog.Entry{}, err
	}
	return m.state(), nil
}

// Choose is Model for who makes a request of what he finds: with version "" it takes a turn of
// the versions' shares, which Infer does by itself. Whoever chooses asks for that version, with
// Request.Any.
func (c *Client) Choose(name, version string) (catalog.Entry, error) {
	m, err := c.choose(name, version)
	if err != nil {
		return catalog.Entry{}, err
	}
	return m.state(), nil
}

// Versions are a model's versions in the catalogue, the lowest first.
func (c *Client) Versions(name string) []string {
	out := []string{}
	for _, g := range c.groups {
		if v := g.of(name); v != nil {
			for _, m := range v.all {
				out = append(out, m.entry.Spec.Version)
			}
		}
	}
	slices.SortFunc(out, compareVersions)
	return slices.Compact(out)
}

// Serving reports whether a backend serves any model of a scheduler that is linked.
func (c *Client) Serving() bool {
	return slices.ContainsFunc(c.groups, func(g *group) bool {
		s := g.view()
		return s != nil && g.up() && s.serves()
	})
}
