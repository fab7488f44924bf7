package api

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// Limits of the API. Those of the store are the same or wider.
const (
	BodyMax     = 64 << 10 // bytes of a call
	PlanBodyMax = 8 << 20  // likewise, of one that brings a plan
	PartsMax    = 256      // sub-clusters of a plan
	PartMax     = 4096     // models of a sub-cluster
	GPUsMax     = 1 << 16  // of a plan
	NameMax     = 256      // bytes of a model's name
	TextMax     = 1024     // bytes of a source or a reason
	VersionsMax = 32       // of a model
	TypesMax    = 16       // device types that a model names
	PageMax     = 1000     // models of a page
	PageDefault = 200
	WaitMax     = time.Minute // of a call that waits
	SLOMax      = time.Hour
	BatchMax    = 1024
	// WeightMax bounds the sum of a model's weights: a share can be said to a hundredth of a
	// per cent, and frontends keep it exactly (frontend/shares.go).
	WeightMax = 10_000
)

// CheckName refuses what cannot be a model's folder in a repository.
func CheckName(field, name string) error {
	switch {
	case name == "":
		return Invalid(field, "is empty: give the model's name")
	case len(name) > NameMax:
		return Invalid(field, "has %d bytes, at most %d", len(name), NameMax)
	case strings.HasPrefix(name, "."):
		return Invalid(field, "%q begins with a dot: repositories leave such folders out", name)
	case strings.ContainsAny(name, `/\`):
		return Invalid(field, "%q has a slash: it must be the name of one folder", name)
	case name != strings.TrimSpace(name) || !printable(name):
		return Invalid(field, "%q has characters that cannot be printed, or spaces at an end", name)
	}
	return nil
}

// CheckVersion refuses what cannot be a version's folder in a repository.
func CheckVersion(field, version string) error {
	if err := catalog.CheckVersion(version); err != nil {
		return Invalid(field, "%s", err)
	}
	return nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func checkText(field, text string) error {
	if len(text) > TextMax {
		return Invalid(field, "has %d bytes, at most %d", len(text), TextMax)
	}
	if !printable(text) {
		return Invalid(field, "has characters that cannot be printed")
	}
	return nil
}

// schemes are those of the places that backends can fetch from.
func schemes() []string { return []string{"file", "s3", "gs", "azblob"} }

// Check refuses what no backend could serve.
func (v *VersionSpec) Check() error {
	if err := checkText("source", v.Source); err != nil {
		return err
	}
	u, err := url.Parse(v.Source)
	switch {
	case v.Source == "":
		return Invalid("source", "is missing: give the URL of the model's folder, like file:///models/resnet50 or s3://bucket/resnet50")
	case err != nil:
		return Invalid("source", "%q is no URL: %v", v.Source, err)
	case u.Scheme == "":
		return Invalid("source", "%q has no scheme: for a folder on the backends' disks write file://%s", v.Source, v.Source)
	case !slices.Contains(schemes(), u.Scheme):
		return Invalid("source", "%q: scheme %q is none of %s", v.Source, u.Scheme, strings.Join(schemes(), ", "))
	case u.User != nil:
		return Invalid("source", "it has a user or a password in it: give backends access by their environment instead")
	case v.Bytes < 0:
		return Invalid("bytes", "%d is negative", v.Bytes)
	}
	if d := v.Digest; d != "" && (len(d) != 32 || strings.ContainsFunc(d, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) })) {
		return Invalid("digest", "%.40q must be 32 hexadecimal digits, in lower case", d)
	}
	return v.Settings.check("settings.")
}

// Check likewise.
func (f *Files) Check() error {
	return (&VersionSpec{Source: f.Source, Digest: f.Digest, Bytes: f.Bytes}).Check()
}

func (s *Settings) check(field string) error {
	return Patch{&s.SLO, &s.MaxBatch, &s.DropPolicy, &s.DeviceTypes}.check(field)
}

// Check refuses settings that nobody could keep.
func (p Patch) Check() error { return p.check("") }

func (p Patch) check(field string) error {
	if p.SLO != nil && (*p.SLO < 0 || time.Duration(*p.SLO) > SLOMax) {
		return Invalid(field+"slo", "%v, must be above 0 and at most %v, or 0 for what the model's config.yaml says", *p.SLO, SLOMax)
	}
	if p.MaxBatch != nil && (*p.MaxBatch < 0 || *p.MaxBatch > BatchMax) {
		return Invalid(field+"max_batch", "%d, must be 1 to %d, or 0 for what the model's config.yaml says", *p.MaxBatch, BatchMax)
	}
	if p.DropPolicy != nil && *p.DropPolicy != "" && *p.DropPolicy != "target" && *p.DropPolicy != "head" {
		return Invalid(field+"drop_policy", "%.40q is none of target, head", *p.DropPolicy)
	}
	if p.DeviceTypes == nil {
		return nil
	}
	if n := len(*p.DeviceTypes); n > TypesMax {
		return Invalid(field+"device_types", "%d of them, at most %d", n, TypesMax)
	}
	for i, t := range *p.DeviceTypes {
		at := fmt.Sprintf("%sdevice_types[%d]", field, i)
		if t == "" || len(t) > NameMax || !printable(t) || strings.Contains(t, "/") {
			return Invalid(at, "%.40q is no device type", t)
		}
		if slices.Index(*p.DeviceTypes, t) != i {
			return Invalid(at, "%q is there twice", t)
		}
	}
	return nil
}

// Check refuses policies that say nothing.
func (p *Policy) Check() error { return p.check("") }

func (p *Policy) check(field string) error {
	switch {
	case p.Kind != PolicyLatest && p.Kind != PolicyAll && p.Kind != PolicyListed:
		return Invalid(field+"kind", "%.40q is none of %s, %s, %s", p.Kind, PolicyLatest, PolicyAll, PolicyListed)
	case p.Latest < 0 || p.Latest > VersionsMax:
		return Invalid(field+"latest", "%d versions, must be 1 to %d", p.Latest, VersionsMax)
	case p.Latest != 0 && p.Kind != PolicyLatest:
		return Invalid(field+"latest", "is of kind %s, this is %s", PolicyLatest, p.Kind)
	case len(p.Listed) > 0 && p.Kind != PolicyListed:
		return Invalid(field+"listed", "is of kind %s, this is %s", PolicyListed, p.Kind)
	case len(p.Listed) == 0 && p.Kind == PolicyListed:
		return Invalid(field+"listed", "is empty: list versions, or unload the model to have none served")
	case len(p.Listed) > VersionsMax:
		return Invalid(field+"listed", "%d versions, at most %d", len(p.Listed), VersionsMax)
	}
	for i, v := range p.Listed {
		at := fmt.Sprintf("%slisted[%d]", field, i)
		if err := CheckVersion(at, v); err != nil {
			return err
		}
		if slices.Index(p.Listed, v) != i {
			return Invalid(at, "version %s is there twice", v)
		}
	}
	return nil
}

// Check refuses shares that give no version anything, or more than can be kept exactly.
func (s *Shares) Check() error {
	if n := len(s.Shares); n > VersionsMax {
		return Invalid("shares", "%d of them, at most %d", n, VersionsMax)
	}
	sum := 0
	for i, k := range s.Shares {
		at := fmt.Sprintf("shares[%d].", i)
		if err := CheckVersion(at+"version", k.Version); err != nil {
			return err
		}
		if slices.IndexFunc(s.Shares, func(o Share) bool { return o.Version == k.Version }) != i {
			return Invalid(at+"version", "version %s is there twice", k.Version)
		}
		if k.Weight < 0 || k.Weight > WeightMax {
			return Invalid(at+"weight", "%d, must be 0 to %d", k.Weight, WeightMax)
		}
		sum += k.Weight
	}
	switch {
	case sum > WeightMax:
		return Invalid("shares", "the weights' sum is %d, at most %d: with %d a weight is a hundredth of a per cent", sum, WeightMax, WeightMax)
	case sum == 0 && len(s.Shares) > 0:
		return Invalid("shares", "all weights are 0: no version would answer; leave all out to let the newest answer")
	}
	return nil
}

// Check refuses orders that nobody could carry out.
func (o *LoadOrder) Check() error {
	if o.Policy != nil {
		if err := o.Policy.check("policy."); err != nil {
			return err
		}
	}
	return o.Settings.check("settings.")
}

// Check bounds the reason.
func (p *Pause) Check() error { return checkText("why", p.Why) }

// Check refuses plans that no cluster could roll out. Whether this one can is for the plan's
// maker to say.
func (p *PlanSpec) Check() error {
	if n := len(p.SubClusters); n == 0 || n > PartsMax {
		return Invalid("sub_clusters", "%d of them, must be 1 to %d", n, PartsMax)
	}
	home, gpus := map[string]string{}, 0
	for i := range p.SubClusters {
		s, at := &p.SubClusters[i], fmt.Sprintf("sub_clusters[%d].", i)
		if err := s.check(at, home); err != nil {
			return err
		}
		if slices.IndexFunc(p.SubClusters, func(o PlanPart) bool { return o.Name == s.Name && o.Scheduler == s.Scheduler }) != i {
			return Invalid(at+"name", "%q is there twice", s.Name)
		}
		gpus += s.GPUs
	}
	if gpus > GPUsMax {
		return Invalid("sub_clusters", "%d GPUs in all, at most %d", gpus, GPUsMax)
	}
	return nil
}

// check is of one sub-cluster; home is where models are by now.
func (s *PlanPart) check(at string, home map[string]string) error {
	t := s.DeviceType
	switch {
	case t == "" || len(t) > NameMax || !printable(t) || strings.Contains(t, "/"):
		return Invalid(at+"device_type", "%.40q is no device type", t)
	case s.Name == "" || len(s.Name) > NameMax || !printable(s.Name) || strings.HasPrefix(s.Name, "/") && s.Name != "/"+t:
		return Invalid(at+"name", "%.40q must be a name without a slash in front; /%s is the one of all GPUs that no other has", s.Name, t)
	case s.GPUs < 0 || s.GPUs > GPUsMax:
		return Invalid(at+"gpus", "%d, must be 0 to %d", s.GPUs, GPUsMax)
	case !(s.Need >= 0 && s.Need <= GPUsMax):
		return Invalid(at+"need", "%g GPUs, must be 0 to %d", s.Need, GPUsMax)
	case len(s.Scheduler) > NameMax || !printable(s.Scheduler):
		return Invalid(at+"scheduler", "%.40q is no scheduler", s.Scheduler)
	case len(s.Models) > PartMax:
		return Invalid(at+"models", "%d of them, at most %d", len(s.Models), PartMax)
	}
	for i, key := range s.Models {
		field := fmt.Sprintf("%smodels[%d]", at, i)
		name, version, has := strings.Cut(key, "/")
		if !has {
			return Invalid(field, "%.300q names no version: write NAME/VERSION, like resnet50/1", key)
		}
		if err := CheckName(field, name); err != nil {
			return err
		}
		if err := CheckVersion(field, version); err != nil {
			return err
		}
		if home[key] != "" {
			return Invalid(field, "%s is in %s already: a model is in one sub-cluster", key, home[key])
		}
		home[key] = s.Name
	}
	return nil
}
