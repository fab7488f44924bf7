package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Control says where the control plane keeps its state: in an etcd in this process (data or
// ephemeral), or in an etcd cluster (endpoints).
type Control struct {
	Data         string       `yaml:"data"`          // folder of the etcd in this process: a restart finds all in it
	Ephemeral    bool         `yaml:"ephemeral"`     // an etcd in this process, in memory, gone at the end
	Listen       string       `yaml:"listen"`        // loopback host:port of the etcd in this process; empty: a Unix socket in its folder
	Endpoints    []string     `yaml:"endpoints"`     // of an etcd cluster: https://host:2379
	CA           string       `yaml:"ca"`            // file: the authorities of the cluster's certificates; empty: the system's
	Cert         string       `yaml:"cert"`          // file: this process's certificate, where the cluster wants one
	Key          string       `yaml:"key"`           // file: its key
	User         string       `yaml:"user"`          // where the cluster has users
	Password     store.Secret `yaml:"password"`      // better by the environment (SYMPHONY_CONTROL__PASSWORD) or password_file
	PasswordFile string       `yaml:"password_file"` // file that holds the password
	Prefix       string       `yaml:"prefix"`        // of all keys: clusters that share an etcd have one each
	Lease        mono.Dur     `yaml:"lease"`         // how long a leader or a backend that is gone is still believed in

	Name        string    `yaml:"name"`         // of this controller; empty: the host's and the process's number
	HTTP        string    `yaml:"http"`         // host:port of its API, for symphony model and symphony plan
	Scheduler   Addresses `yaml:"scheduler"`    // where the scheduler listens; several: each has backends of its own, and models are spread over them; A+B: a group of which one leads
	SubClusters int       `yaml:"sub_clusters"` // of each device type; 0: as few as memory and one rank loop carry
	Objective   string    `yaml:"objective"`    // of a partition: gpus (as few as serve the needs), or balance (of rate and memory, as in the paper)
	RateMax     float64   `yaml:"rate_max"`     // requests/s of a sub-cluster; 0: no cap
	Interval    mono.Dur  `yaml:"interval"`     // between epochs that nothing else calls for
	Moves       float64   `yaml:"moves"`        // share of the models' bytes that an epoch may move
	Autoscale   Autoscale `yaml:"autoscale"`    // how many GPUs there should be, and who acts on it
	KEDA        string    `yaml:"keda"`         // host:port of the gRPC service for KEDA; empty: none
}

// Configured is whether there is a control plane.
func (c Control) Configured() bool { return c.Data != "" || c.Ephemeral || len(c.Endpoints) > 0 }

// Store is the configuration of package store; the password is read from its file. Logger and
// Metrics are the caller's.
func (c Control) Store() (store.Config, error) {
	s := c.store()
	if c.PasswordFile != "" {
		text, err := os.ReadFile(c.PasswordFile)
		if err != nil {
			return s, fmt.Errorf("control.password_file: %w", err)
		}
		s.Password = store.Secret(strings.TrimRight(string(text), "\r\n"))
		if s.Password == "" {
			return s, fmt.Errorf("control.password_file: %s is empty", c.PasswordFile)
		}
	}
	return s, nil
}

func (c Control) store() store.Config {
	return store.Config{Data: c.Data, Ephemeral: c.Ephemeral, Listen: c.Listen, Endpoints: c.Endpoints, CA: c.CA, Cert: c.Cert, Key: c.Key,
		User: c.User, Password: c.Password, Prefix: c.Prefix, LeaseTTL: c.Lease.Std()}
}

// validate leaves out what is not used, and does not read files: other commands are
// configured by the same file on other hosts.
func (c Control) validate(r *report) {
	if reflect.DeepEqual(c, Default().Control) {
		return
	}
	r.hostPort("control.http", c.HTTP)
	c.Scheduler.validateGroups(r, "control.scheduler", schema.SchedulersMax)
	r.between("control.sub_clusters", int64(c.SubClusters), 0, 256)
	r.oneOf("control.objective", c.Objective, "gpus", "balance")
	r.need(c.RateMax >= 0, "control.rate_max", "is %g, must be 0 (no cap) or more", c.RateMax)
	r.span("control.interval", c.Interval, mono.Second, 24*3600*mono.Second)
	r.need(c.Moves > 0 && c.Moves <= 1, "control.moves", "is %g, must be above 0 and at most 1", c.Moves)
	c.Autoscale.validate(r)
	if c.KEDA != "" {
		r.hostPort("control.keda", c.KEDA)
		r.need(c.Autoscale.Scaler == ScalerKubernetes, "control.keda", "needs control.autoscale.scaler kubernetes, not %s: else what it is to remove would not drain", c.Autoscale.Scaler)
	}
	r.need(c.Password == "" || c.PasswordFile == "", "control.password", "is there beside password_file: leave one of them out")
	s := c.store()
	s.Ephemeral = s.Ephemeral || !c.Configured() // what serve takes where nothing is said; controller asks
	if c.PasswordFile != "" {
		s.Password = "of the file"
	}
	if err := s.Check(); err != nil {
		var many interface{ Unwrap() []error }
		if !errors.As(err, &many) {
			r.errs = append(r.errs, fmt.Errorf("control: %w", err))
			return
		}
		for _, e := range many.Unwrap() {
			r.errs = append(r.errs, fmt.Errorf("control: %w", e))
		}
	}
}
