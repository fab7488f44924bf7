package api

import (
	"fmt"
	"slices"
	"time"
)

// Span is a time.Duration that is written "50ms".
type Span time.Duration

// MarshalText implements encoding.TextMarshaler.
func (s Span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no span of time: write it with its unit, like \"50ms\"", text)
	}
	*s = Span(d)
	return nil
}

func (s Span) String() string { return time.Duration(s).String() }

// Settings are what changes without loading a model again. A zero field: what the model's own
// config.yaml says.
type Settings struct {
	SLO         Span     `json:"slo,omitempty"`
	MaxBatch    int      `json:"max_batch,omitempty"`
	DropPolicy  string   `json:"drop_policy,omitempty"`  // target, head
	DeviceTypes []string `json:"device_types,omitempty"` // where it may be served; empty: wherever it can
}

// Patch changes some settings; nil: as before, zero: what the model's own config.yaml says.
type Patch struct {
	SLO         *Span     `json:"slo,omitempty"`
	MaxBatch    *int      `json:"max_batch,omitempty"`
	DropPolicy  *string   `json:"drop_policy,omitempty"`
	DeviceTypes *[]string `json:"device_types,omitempty"`
}

// Empty reports whether the patch changes nothing.
func (p Patch) Empty() bool {
	return p.SLO == nil && p.MaxBatch == nil && p.DropPolicy == nil && p.DeviceTypes == nil
}

// Apply changes settings.
func (p Patch) Apply(s *Settings) {
	if p.SLO != nil {
		s.SLO = *p.SLO
	}
	if p.MaxBatch != nil {
		s.MaxBatch = *p.MaxBatch
	}
	if p.DropPolicy != nil {
		s.DropPolicy = *p.DropPolicy
	}
	if p.DeviceTypes != nil {
		s.DeviceTypes = *p.DeviceTypes
	}
}

// Desired is whether people want a model served.
type Desired string

const (
	Served  Desired = "served"
	Stopped Desired = "stopped" // its versions stay known, and nothing of it is loaded
)

// Kinds of Policy.
const (
	PolicyLatest = "latest" // the newest Latest versions
	PolicyAll    = "all"
	PolicyListed = "listed"
)

// Policy says which versions of a model are served.
type Policy struct {
	Kind   string   `json:"kind"`
	Latest int      `json:"latest,omitempty"` // of kind latest; 0: one
	Listed []string `json:"listed,omitempty"` // of kind listed
}

// Share is a version's part of the requests that name no version: Weight of the sum of all.
type Share struct {
	Version string `json:"version"`
	Weight  int    `json:"weight"`
}

// Shares is what PUT .../shares takes. Empty: the highest version that is served answers.
type Shares struct {
	Shares []Share `json:"shares"`
}

// VersionSpec is a version that is wanted.
type VersionSpec struct {
	// Source is the URL of a folder with config.yaml and the version's files, or of an object
	// store's prefix: file:///models/m, s3://bucket/m, gs://..., azblob://...
	Source   string   `json:"source"`
	Digest   string   `json:"digest,omitempty"` // of the files; empty: whatever is there
	Bytes    int64    `json:"bytes,omitempty"`  // of all files together; 0: not known
	Settings Settings `json:"settings,omitzero"`
}

// Files are where a version's files are from now on.
type Files struct {
	Source string `json:"source"`           // as VersionSpec has it
	Digest string `json:"digest,omitempty"` // empty: whatever is there when it is loaded first
	Bytes  int64  `json:"bytes,omitempty"`
}

// State is where a version is on its way to being served.
type State string

const (
	Waiting   State = "waiting"   // for a GPU, a plan, or the turn of others
	Fetching  State = "fetching"  // its files are on their way
	Loading   State = "loading"   // onto GPUs, and warming up
	Measuring State = "measuring" // its profile is made
	Serving   State = "serving"
	Unloading State = "unloading"
	Idle      State = "idle"   // stopped, or left out by the versions policy
	Failed    State = "failed" // Reason says why; tried again at Next
)

// States are all of them.
func States() []State {
	return []State{Waiting, Fetching, Loading, Measuring, Serving, Unloading, Idle, Failed}
}

// Version is a version: what is wanted, and what became of it.
type Version struct {
	Version string `json:"version"`
	VersionSpec
	Added time.Time `json:"added"`

	State      State     `json:"state"`
	Reason     string    `json:"reason,omitempty"` // of failed; what is waited for
	Since      time.Time `json:"since"`            // of the state
	Done       int64     `json:"done,omitempty"`   // bytes fetched, of Total
	Total      int64     `json:"total,omitempty"`
	SubCluster string    `json:"sub_cluster,omitempty"` // where its requests go
	GPUs       int       `json:"gpus,omitempty"`        // on which it is resident
	Tries      int       `json:"tries,omitempty"`       // that failed, one after the other
	Next       time.Time `json:"next,omitzero"`         // of the next try
	Rate       float64   `json:"rate,omitempty"`        // requests/s
	// Of the files that were loaded first: without a Digest, those are ordered of all who follow.
	LoadedDigest string  `json:"loaded_digest,omitempty"`
	LoadedBytes  int64   `json:"loaded_bytes,omitempty"`
	Need         float64 `json:"need,omitempty"` // GPUs that it keeps busy
}

// Model is a model with all its versions.
type Model struct {
	Name     string    `json:"name"`
	Revision uint64    `json:"revision"` // another one whenever anything here has changed
	Desired  Desired   `json:"desired"`
	Policy   Policy    `json:"policy"`
	Settings Settings  `json:"settings,omitzero"`
	Versions []Version `json:"versions"` // in the order in which they were added: the last one is the newest
	Shares   []Share   `json:"shares,omitempty"`
	Before   []Share   `json:"before,omitempty"`   // shares that a roll-back returns to
	Rollback bool      `json:"rollback,omitempty"` // whether there is something to roll back to
}

// Find is a version, or nil.
func (m *Model) Find(version string) *Version {
	for i := range m.Versions {
		if m.Versions[i].Version == version {
			return &m.Versions[i]
		}
	}
	return nil
}

// Wanted reports whether a version is to be served, as Desired and Policy have it; one that has
// a share of the requests is, whatever the policy says of the others.
func (m *Model) Wanted(version string) bool {
	at := slices.IndexFunc(m.Versions, func(v Version) bool { return v.Version == version })
	switch {
	case at < 0 || m.Desired != Served:
		return false
	case slices.ContainsFunc(m.Shares, func(s Share) bool { return s.Version == version && s.Weight > 0 }):
		return true
	case m.Policy.Kind == PolicyAll:
		return true
	case m.Policy.Kind == PolicyListed:
		return slices.Contains(m.Policy.Listed, version)
	}
	return at >= len(m.Versions)-max(1, m.Policy.Latest)
}

// Page is a part of the models, in the order of their names.
type Page struct {
	Models []Model `json:"models"`
	Next   string  `json:"next,omitempty"` // "after" of the next page; empty: this is the last one
}

// Query says which models a page has.
type Query struct {
	After string // names after this one
	Limit int    // at most so many
	State State  // only models that have a version in this state; empty: all
}

// LoadOrder is what POST .../load may say beside "serve it".
type LoadOrder struct {
	Settings Patch   `json:"settings,omitzero"`
	Policy   *Policy `json:"policy,omitempty"`
}
