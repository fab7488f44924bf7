package schema

import (
	"errors"
	"fmt"
)

// PlanState is how far a plan's roll-out is.
type PlanState string

const (
	Proposed  PlanState = "proposed"
	RollsOut  PlanState = "rolls-out"
	InForce   PlanState = "in-force"
	GaveUp    PlanState = "failed" // Reason says why
	Overtaken PlanState = "overtaken"
)

// Plan is the head of an epoch's plan, of one scheduler: which models and how many GPUs form which
// sub-clusters. The sub-clusters are documents of their own (SubCluster), because a plan of
// ten thousand models is larger than a request to etcd may be.
type Plan struct {
	Epoch       uint64    `json:"epoch"`
	At          int64     `json:"at_ns"` // Unix, when it was made
	By          string    `json:"by"`    // the leader's name
	Cause       string    `json:"cause"` // "catalogue", "needs", "interval", "by hand"
	State       PlanState `json:"state"`
	Reason      string    `json:"reason,omitempty"`
	Ended       int64     `json:"ended_ns,omitempty"` // Unix, when the roll-out ended
	SubClusters int       `json:"sub_clusters"`       // how many parts there are
	Models      int       `json:"models"`
	GPUs        int       `json:"gpus"`
	Need        float64   `json:"need"`
	Moves       int       `json:"moves"`               // models that change their sub-cluster
	Scheduler   string    `json:"scheduler,omitempty"` // whose GPUs it is of; empty: the only one's
	Steps       int       `json:"steps,omitempty"`
	StepsDone   int       `json:"steps_done,omitempty"`
}

// ID is the plan's part of its key.
func (p Plan) ID() string { return EpochID(p.Epoch) }

// Check refuses plans that nobody could show.
func (p Plan) Check() error {
	err := errors.Join(checkText("by", p.By), checkText("cause", p.Cause), checkText("reason", p.Reason), checkText("scheduler", p.Scheduler))
	switch p.State {
	case Proposed, RollsOut, InForce, GaveUp, Overtaken:
	default:
		err = errors.Join(err, fmt.Errorf("state %.40q of a plan is none", p.State))
	}
	if p.SubClusters < 0 || p.SubClusters > SubClustersMax {
		err = errors.Join(err, fmt.Errorf("%d sub-clusters, at most %d", p.SubClusters, SubClustersMax))
	}
	if !finite(p.Need) || p.Models < 0 || p.GPUs < 0 || p.Moves < 0 || p.Steps < 0 || p.StepsDone < 0 {
		err = errors.Join(err, fmt.Errorf("negative numbers: %+v", p))
	}
	return err
}

// SubCluster is a part of the plan of Epoch.
type SubCluster struct {
	Epoch      uint64   `json:"epoch"`
	Name       string   `json:"name"`
	DeviceType string   `json:"device_type"`
	Scheduler  string   `json:"scheduler,omitempty"` // which scheduler process runs it; empty: the only one
	Models     []string `json:"models"`              // keys, "name/version"
	GPUs       int      `json:"gpus"`
	Need       float64  `json:"need"`
}

// ID is the part's part of its key.
func (s SubCluster) ID() string { return EpochID(s.Epoch) + "/" + Escape(s.Name) }

// Check refuses sub-clusters that no scheduler could run.
func (s SubCluster) Check() error {
	err := errors.Join(checkName("sub-cluster", s.Name), checkName("device type", s.DeviceType), checkText("scheduler", s.Scheduler))
	if len(s.Models) > SubClusterMax {
		err = errors.Join(err, fmt.Errorf("sub-cluster %s has %d models, at most %d", s.Name, len(s.Models), SubClusterMax))
	}
	for _, m := range s.Models {
		if m == "" || len(m) > 2*NameMax+1 {
			return errors.Join(err, fmt.Errorf("sub-cluster %s: %.40q is no model", s.Name, m))
		}
	}
	if s.GPUs < 0 || !finite(s.Need) {
		err = errors.Join(err, fmt.Errorf("sub-cluster %s: %d GPUs, need %v", s.Name, s.GPUs, s.Need))
	}
	return err
}

// Control is what people switched: a document of its own each.
type Control struct {
	Name  string `json:"name"` // "epochs"
	Off   bool   `json:"off"`
	Why   string `json:"why,omitempty"`
	Since int64  `json:"since_ns"`
}

// Epochs is the name of the Control that pauses the epochs.
const Epochs = "epochs"

// ID is the control's part of its key.
func (c Control) ID() string { return ID(c.Name) }

// Check refuses controls without a name.
func (c Control) Check() error {
	return errors.Join(checkName("control", c.Name), checkText("reason", c.Why))
}
