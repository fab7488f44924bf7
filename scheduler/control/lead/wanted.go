package lead

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// version is one version of a model that people have added.
type version struct {
	key      string
	name     string
	wanted   bool // shall be served
	source   catalog.Source
	settings schema.Settings
	files    int64 // which they are: schema.ModelVersion.Files
	order    int   // among the model's versions: the last one added has the highest
}

// known is a model as people want it, made ready.
type known struct {
	doc      schema.Model
	versions []version // in the order in which they were added
}

// know makes a model ready.
func know(doc schema.Model) *known {
	k := &known{doc: doc}
	for i := range doc.Versions {
		v := &doc.Versions[i]
		s := settingsOf(&doc, v)
		k.versions = append(k.versions, version{key: doc.Name + "/" + v.Version, name: doc.Name, order: i, settings: s, files: v.Files(),
			source: catalog.Source{Name: doc.Name, Version: v.Version, URL: v.Source, Digest: catalog.Digest(v.Digest), Bytes: v.Size,
				SLO: int64(s.SLO), MaxBatch: s.MaxBatch, DropPolicy: s.DropPolicy}})
	}
	if doc.Desired != schema.Served {
		return k
	}
	switch p := doc.Policy; p.Kind {
	case schema.PolicyAll:
		for i := range k.versions {
			k.versions[i].wanted = true
		}
	case schema.PolicyListed:
		for i := range k.versions {
			k.versions[i].wanted = slices.Contains(p.Listed, k.versions[i].source.Version)
		}
	default:
		for i := max(0, len(k.versions)-max(1, p.Latest)); i < len(k.versions); i++ {
			k.versions[i].wanted = true
		}
	}
	for _, s := range doc.Shares { // a version that has a share is served, whatever the policy says of the others
		if i := doc.Find(s.Version); i >= 0 && s.Weight > 0 {
			k.versions[i].wanted = true
		}
	}
	return k
}

// find is a version by its key; nil: there is none.
func (k *known) find(key string) *version {
	for i := range k.versions {
		if k.versions[i].key == key {
			return &k.versions[i]
		}
	}
	return nil
}

// settingsOf are a version's: its own where it has any, else the model's.
func settingsOf(m *schema.Model, v *schema.ModelVersion) schema.Settings {
	s := m.Settings
	if own := v.Settings; own != nil {
		if own.SLO > 0 {
			s.SLO = own.SLO
		}
		if own.MaxBatch > 0 {
			s.MaxBatch = own.MaxBatch
		}
		if own.DropPolicy != "" {
			s.DropPolicy = own.DropPolicy
		}
		if len(own.DeviceTypes) > 0 {
			s.DeviceTypes = own.DeviceTypes
		}
	}
	return s
}

// wanted reports whether people want a version served, wherever it can be.
func (l *Lead) wanted(key string) bool {
	v := l.version(key)
	return v != nil && v.wanted && !l.renew[key]
}

// wouldWant is what is so of a version once the Lead is given its model (SetModel): whether it is wanted,
// and whether its files are other ones than GPUs here have and first unload.
func (l *Lead) wouldWant(key string, doc schema.Model) (wanted, renew bool) {
	v := know(doc).find(key)
	if v == nil {
		return false, false
	}
	f, known := l.files[key]
	renew = known && f.of != v.files && l.ordered(key)
	return v.wanted && !renew, renew
}

// sets is what a roll-out shall put in force without loading anything.
func (v *version) sets() plan.Settings {
	return plan.Settings{SLO: v.settings.SLO, Drop: v.settings.DropPolicy, MaxBatch: v.settings.MaxBatch}
}

// mayBeOn reports whether people let it be served on the device type.
func (v *version) mayBeOn(deviceType string) bool {
	return len(v.settings.DeviceTypes) == 0 || slices.Contains(v.settings.DeviceTypes, deviceType)
}

// name is which of the model's versions answer requests that name none: as the shares say, of
// those that are routed. Without shares it says nothing, and the highest version answers.
func (k *known) name(routed func(key string) bool) catalog.Name {
	n := catalog.Name{Name: k.doc.Name}
	for _, s := range k.doc.Shares {
		if s.Weight > 0 && routed(k.doc.Name+"/"+s.Version) {
			n.Shares = append(n.Shares, catalog.Share{Version: s.Version, Weight: uint32(s.Weight)})
		}
	}
	return n
}
