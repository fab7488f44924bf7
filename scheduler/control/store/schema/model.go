package schema

import (
	"errors"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Document is what a kind holds.
type Document interface {
	// ID is what follows the kind in its key.
	ID() string
	// Check refuses what no reader could use.
	Check() error
}

// Desired is whether people want a model served.
type Desired string

const (
	Served  Desired = "served"
	Stopped Desired = "stopped" // its versions stay known, and nothing of it is loaded
)

// Policy says which versions of a model are served.
type Policy struct {
	Kind   PolicyKind `json:"kind"`
	Latest int        `json:"latest,omitempty"` // of kind latest: so many, the newest; 0: one
	Listed []string   `json:"listed,omitempty"` // of kind listed
}

// PolicyKind is the rule of a Policy.
type PolicyKind string

const (
	PolicyLatest PolicyKind = "latest"
	PolicyAll    PolicyKind = "all"
	PolicyListed PolicyKind = "listed"
)

// Settings are what can change without loading anything again. A zero field: what the
// model's own files say.
type Settings struct {
	SLO         mono.Dur `json:"slo_ns,omitempty"`
	DropPolicy  string   `json:"drop_policy,omitempty"`
	MaxBatch    int      `json:"max_batch,omitempty"`
	DeviceTypes []string `json:"device_types,omitempty"` // where it may be served; empty: wherever it can
}

// ModelVersion is one version of a model and where its files are.
type ModelVersion struct {
	Version  string    `json:"version"`
	Source   string    `json:"source"`               // URL of a folder or object: "file:///models/m/2", "s3://bucket/m/2"
	Digest   string    `json:"digest,omitempty"`     // of its files; empty: not known yet
	Size     int64     `json:"size,omitempty"`       // bytes of its files; 0: not known yet
	Added    int64     `json:"added_ns"`             // Unix
	Renewed  int64     `json:"renewed_ns,omitempty"` // Unix, when people last said that its files are other ones; 0: never
	Settings *Settings `json:"settings,omitempty"`   // fields that differ from the model's
}

// Files is when people last said which files a version has: what was learnt of them holds for those
// of one such instant.
func (v *ModelVersion) Files() int64 { return max(v.Added, v.Renewed) }

// Share is the weight of a version among those that get a model's requests.
type Share struct {
	Version string `json:"version"`
	Weight  int    `json:"weight"`
}

// PastShares are shares that held until At.
type PastShares struct {
	At     int64   `json:"at_ns"` // Unix
	Shares []Share `json:"shares"`
}

// Model is what is wanted of a model: people write it, the controller makes it true.
type Model struct {
	Name     string         `json:"name"`
	Desired  Desired        `json:"desired"`
	Policy   Policy         `json:"policy"`
	Settings Settings       `json:"settings"`
	Versions []ModelVersion `json:"versions"`         // in the order in which they were added: the last one is the newest
	Shares   []Share        `json:"shares,omitempty"` // empty: all requests that name no version go to the newest that is served
	Past     []PastShares   `json:"past,omitempty"`   // oldest first, for rolling back
}

// ID is the model's part of its key.
func (m Model) ID() string { return ID(m.Name) }

// Find is a version's place in Versions; -1 where there is none.
func (m *Model) Find(version string) int {
	return slices.IndexFunc(m.Versions, func(v ModelVersion) bool { return v.Version == version })
}

// SetShares replaces the shares and keeps the old ones for RollBack.
func (m *Model) SetShares(shares []Share, now int64) {
	m.Past = append(m.Past, PastShares{At: now, Shares: m.Shares})
	if over := len(m.Past) - PastMax; over > 0 {
		m.Past = slices.Delete(m.Past, 0, over)
	}
	m.Shares = slices.Clone(shares)
}

// RollBack returns to the shares before the last change; false where none are known.
func (m *Model) RollBack() bool {
	last := len(m.Past) - 1
	if last < 0 {
		return false
	}
	m.Shares, m.Past = m.Past[last].Shares, m.Past[:last]
	return true
}

// Check refuses models that could not be carried out.
func (m Model) Check() error {
	err := checkName("model", m.Name)
	if m.Desired != Served && m.Desired != Stopped {
		err = errors.Join(err, fmt.Errorf("desired %q is neither %s nor %s", m.Desired, Served, Stopped))
	}
	if n := len(m.Versions); n > VersionsMax {
		err = errors.Join(err, fmt.Errorf("%d versions, at most %d: remove some", n, VersionsMax))
	}
	if len(m.Past) > PastMax {
		err = errors.Join(err, fmt.Errorf("%d past shares, at most %d", len(m.Past), PastMax))
	}
	for i := range m.Versions {
		v := &m.Versions[i]
		err = errors.Join(err, v.check())
		if m.Find(v.Version) != i {
			err = errors.Join(err, fmt.Errorf("version %q is there twice", v.Version))
		}
	}
	return errors.Join(err, m.Settings.check(), m.checkPolicy(), m.checkShares())
}

func (v *ModelVersion) check() error {
	err := errors.Join(checkName("version", v.Version), checkText("source", v.Source), checkText("digest", v.Digest))
	if v.Source == "" {
		err = errors.Join(err, fmt.Errorf("version %q has no source: say where its files are", v.Version))
	}
	if v.Size < 0 {
		err = errors.Join(err, fmt.Errorf("version %q: size %d", v.Version, v.Size))
	}
	if v.Settings != nil {
		err = errors.Join(err, v.Settings.check())
	}
	return err
}

// sloMax and batchMax are sanity, not policy: the scheduler has limits of its own.
const (
	sloMax   = 3600 * mono.Second
	batchMax = 1024
)

func (s *Settings) check() (err error) {
	if s.SLO < 0 || s.SLO > sloMax {
		err = errors.Join(err, fmt.Errorf("SLO %v, must be 0 to %v", s.SLO, sloMax))
	}
	if s.MaxBatch < 0 || s.MaxBatch > batchMax {
		err = errors.Join(err, fmt.Errorf("max_batch %d, must be 0 to %d", s.MaxBatch, batchMax))
	}
	if s.DropPolicy != "" && s.DropPolicy != "target" && s.DropPolicy != "head" {
		err = errors.Join(err, fmt.Errorf("drop policy %.40q is neither target nor head", s.DropPolicy))
	}
	if len(s.DeviceTypes) > TypesMax {
		err = errors.Join(err, fmt.Errorf("%d device types, at most %d", len(s.DeviceTypes), TypesMax))
	}
	for _, t := range s.DeviceTypes {
		err = errors.Join(err, checkName("device type", t))
	}
	return err
}

func (m *Model) checkPolicy() error {
	switch p := m.Policy; p.Kind {
	case PolicyAll:
		return nil
	case PolicyLatest:
		if p.Latest < 0 || p.Latest > VersionsMax {
			return fmt.Errorf("policy latest: %d versions, must be 0 to %d", p.Latest, VersionsMax)
		}
		return nil
	case PolicyListed:
		for _, v := range p.Listed {
			if m.Find(v) < 0 {
				return fmt.Errorf("policy lists version %.40q, which the model does not have", v)
			}
		}
		return nil
	}
	return fmt.Errorf("versions policy %.40q is none of latest, all, listed", m.Policy.Kind)
}

// weightMax lets shares be said in millionths.
const weightMax = 1_000_000

func (m *Model) checkShares() error {
	sum := 0
	for i, s := range m.Shares {
		if m.Find(s.Version) < 0 {
			return fmt.Errorf("a share of version %.40q, which the model does not have", s.Version)
		}
		if s.Weight < 0 || s.Weight > weightMax {
			return fmt.Errorf("share of version %q: %d, must be 0 to %d", s.Version, s.Weight, weightMax)
		}
		if slices.IndexFunc(m.Shares, func(o Share) bool { return o.Version == s.Version }) != i {
			return fmt.Errorf("two shares of version %q", s.Version)
		}
		sum += s.Weight
	}
	if len(m.Shares) > 0 && sum == 0 {
		return errors.New("shares of 0: no version would get a request")
	}
	for _, p := range m.Past {
		if len(p.Shares) > VersionsMax {
			return fmt.Errorf("past shares of %d versions, at most %d", len(p.Shares), VersionsMax)
		}
	}
	return nil
}
