package schema

import (
	"errors"
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// State is where a model version is on its way to being served.
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

// Observation is what became of a model version: the controller writes it, people read it.
type Observation struct {
	Model      string `json:"model"`
	Version    string `json:"version"`
	State      State  `json:"state"`
	Reason     string `json:"reason,omitempty"` // of Failed; what is waited for
	Since      int64  `json:"since_ns"`         // Unix, of the state
	Done       int64  `json:"done,omitempty"`   // bytes fetched, of Total
	Total      int64  `json:"total,omitempty"`
	SubCluster string `json:"sub_cluster,omitempty"` // where it is routed
	GPUs       int    `json:"gpus,omitempty"`        // on which it is resident
	Tries      int    `json:"tries,omitempty"`       // that failed, one after the other
	Next       int64  `json:"next_ns,omitempty"`     // Unix, of the next try
	// Of the files that backends loaded first. They hold for those that follow, where people have
	// given no digest, as long as Files is the version's (ModelVersion.Files).
	Digest string `json:"digest,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	Files  int64  `json:"files_ns,omitempty"`
}

// ID is the model version's part of its key.
func (o Observation) ID() string { return ID(o.Model, o.Version) }

// Check refuses observations that nobody could show.
func (o Observation) Check() error {
	err := errors.Join(checkVersion(o.Model, o.Version), checkText("reason", o.Reason), checkText("digest", o.Digest))
	switch o.State {
	case Waiting, Fetching, Loading, Measuring, Serving, Unloading, Idle, Failed:
	default:
		err = errors.Join(err, fmt.Errorf("state %.40q is none", o.State))
	}
	if o.Done < 0 || o.Total < 0 || o.GPUs < 0 || o.Tries < 0 || o.Bytes < 0 {
		err = errors.Join(err, fmt.Errorf("negative numbers: %+v", o))
	}
	if o.SubCluster != "" {
		err = errors.Join(err, checkName("sub-cluster", o.SubCluster))
	}
	return err
}

func checkVersion(model, version string) error {
	return errors.Join(checkName("model", model), checkName("version", version))
}

// Device is a GPU, or what stands for one, of a backend.
type Device struct {
	Name       string `json:"name"` // "host1/emulated/0": backend, device type, index
	DeviceType string `json:"device_type"`
	Memory     int64  `json:"memory,omitempty"` // bytes for models and batches; 0: not known
	Out        string `json:"out,omitempty"`    // why it is out of service; empty: it is in service
}

// Backend is a backend that is there, and its devices.
type Backend struct {
	Name     string   `json:"name"`
	Instance uint64   `json:"instance"` // of its process
	Since    int64    `json:"since_ns"` // Unix
	Devices  []Device `json:"devices"`
}

// ID is the backend's part of its key.
func (b Backend) ID() string { return ID(b.Name) }

// Check refuses backends with too much or nameless parts.
func (b Backend) Check() error {
	err := checkName("backend", b.Name)
	if len(b.Devices) > DevicesMax {
		return errors.Join(err, fmt.Errorf("%d devices, at most %d", len(b.Devices), DevicesMax))
	}
	for _, d := range b.Devices {
		err = errors.Join(err, checkText("device", d.Name), checkName("device type", d.DeviceType), checkText("reason", d.Out))
		if d.Name == "" || d.Memory < 0 {
			err = errors.Join(err, fmt.Errorf("device %q with %d bytes", d.Name, d.Memory))
		}
	}
	return err
}

// Need is what a model needs of a device type.
type Need struct {
	DeviceType string  `json:"device_type"`
	GPUs       float64 `json:"gpus"`
}

// Load is what was measured of a model version's requests.
type Load struct {
	Model   string  `json:"model"`
	Version string  `json:"version"`
	Rate    float64 `json:"rate"`  // requests/s
	Needs   []Need  `json:"needs"` // by device type
	At      int64   `json:"at_ns"` // Unix
}

// ID is the model version's part of its key.
func (l Load) ID() string { return ID(l.Model, l.Version) }

// Check refuses numbers that no planner could use.
func (l Load) Check() error {
	err := checkVersion(l.Model, l.Version)
	if !finite(l.Rate) {
		err = errors.Join(err, fmt.Errorf("rate %v", l.Rate))
	}
	if len(l.Needs) > TypesMax {
		err = errors.Join(err, fmt.Errorf("needs of %d device types, at most %d", len(l.Needs), TypesMax))
	}
	for _, n := range l.Needs {
		err = errors.Join(err, checkName("device type", n.DeviceType))
		if !finite(n.GPUs) {
			err = errors.Join(err, fmt.Errorf("need of %v GPUs", n.GPUs))
		}
	}
	return err
}

func finite(v float64) bool { return v >= 0 && !math.IsInf(v, 0) } // NaN is not >= 0

// Measured is a model version's latency profile on a device type, and the memory it takes.
type Measured struct {
	Model       string          `json:"model"`
	Version     string          `json:"version"`
	DeviceType  string          `json:"device_type"`
	Digest      string          `json:"digest,omitempty"` // of the files that it was measured with
	Environment string          `json:"environment,omitempty"`
	Profile     catalog.Profile `json:"profile"`
	Static      int64           `json:"static"`  // bytes that stay while it is loaded
	Dynamic     int64           `json:"dynamic"` // bytes that its largest batch takes
	At          int64           `json:"at_ns"`   // Unix
}

// ID is the profile's part of its key.
func (p Measured) ID() string { return ID(p.Model, p.Version, p.DeviceType) }

// Check refuses profiles without times.
func (p Measured) Check() error {
	err := errors.Join(checkVersion(p.Model, p.Version), checkName("device type", p.DeviceType),
		checkText("digest", p.Digest), checkText("environment", p.Environment))
	if p.Profile.Alpha < 0 || p.Profile.Beta < 0 || len(p.Profile.Table) > batchMax {
		err = errors.Join(err, fmt.Errorf("profile of alpha %v, beta %v, %d sizes", p.Profile.Alpha, p.Profile.Beta, len(p.Profile.Table)))
	}
	for i, l := range p.Profile.Table {
		if l <= 0 {
			err = errors.Join(err, fmt.Errorf("a batch of %d takes %v", i+1, l))
			break
		}
	}
	if p.Static < 0 || p.Dynamic < 0 {
		err = errors.Join(err, fmt.Errorf("memory of %d and %d bytes", p.Static, p.Dynamic))
	}
	return err
}

// Leader says who leads. It is no kind of documents: there is one.
type Leader struct {
	Name    string `json:"name"`    // of the host or the process
	Address string `json:"address"` // where its API listens
	Since   int64  `json:"since_ns"`
}

// Check refuses leaders without a name.
func (l Leader) Check() error {
	return errors.Join(checkName("leader", l.Name), checkText("address", l.Address))
}
