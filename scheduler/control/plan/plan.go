package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

// ErrInvalid is the cause of every refused plan and of facts that contradict themselves.
var ErrInvalid = errors.New("invalid plan")

// Plan is the target of an epoch: which models each sub-cluster serves, and with how many GPUs.
type Plan struct {
	Epoch       uint64
	SubClusters []SubCluster
	Successions []Succession // in any order
	Settings    []ModelSettings
}

// SubCluster is models and GPUs of one device type under one rank loop.
type SubCluster struct {
	Name       string // unique in the cluster, and never ""
	DeviceType string
	Models     []string // keys: "name/version"; a key is in one sub-cluster
	GPUs       int      // how many; which ones is for the roll-out to find (goals.go)
	Need       float64  // GPUs that its models need, bursts included, as the planner reckoned; for people
}

// Succession keeps Old, which is in no sub-cluster of the plan any more, served until New is.
// If New fails, Old stays.
type Succession struct{ Old, New string }

// ModelSettings is what a model's settings are to be.
type ModelSettings struct {
	Key      string
	Settings Settings
}

// Settings change without reloading anything.
type Settings struct {
	SLO      mono.Dur
	Drop     string  // policy's name; "": the default
	MaxBatch int     // 0: as its profile has it
	Share    float64 // weight among the versions of its name; all 0: they are alike
}

// Unplanned is the sub-cluster of all GPUs of a type where nobody has planned. Its name has a
// slash in front, which a planned one's must not have.
func Unplanned(deviceType string) string { return "/" + deviceType }

// Check says what is wrong with the plan by itself.
func (p *Plan) Check() error {
	home := map[string]string{} // key -> sub-cluster
	names := map[string]bool{}
	for i := range p.SubClusters {
		s := &p.SubClusters[i]
		switch {
		case s.Name == "" || strings.HasPrefix(s.Name, "/") && s.Name != Unplanned(s.DeviceType):
			return fmt.Errorf("%w: a sub-cluster's name %q: must not be empty, nor begin with a slash", ErrInvalid, s.Name)
		case names[s.Name]:
			return fmt.Errorf("%w: two sub-clusters are called %s", ErrInvalid, s.Name)
		case s.DeviceType == "":
			return fmt.Errorf("%w: sub-cluster %s has no device type", ErrInvalid, s.Name)
		case s.GPUs < 0:
			return fmt.Errorf("%w: sub-cluster %s has %d GPUs", ErrInvalid, s.Name, s.GPUs)
		}
		names[s.Name] = true
		for _, key := range s.Models {
			if key == "" || home[key] != "" {
				return fmt.Errorf("%w: model %q is in sub-cluster %s and in %s: it must be in one", ErrInvalid, key, s.Name, home[key])
			}
			home[key] = s.Name
		}
	}
	for _, c := range p.Successions {
		if home[c.Old] != "" || home[c.New] == "" {
			return fmt.Errorf("%w: %s is to follow %s: the plan must have the first and not the second", ErrInvalid, c.New, c.Old)
		}
	}
	return nil
}

// Find is the sub-cluster of that name; nil: there is none.
func (p *Plan) Find(name string) *SubCluster {
	i := slices.IndexFunc(p.SubClusters, func(s SubCluster) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &p.SubClusters[i]
}
