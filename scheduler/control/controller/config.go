package controller

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/partition"
	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Config of a Controller. Zero values mean the defaults in brackets.
type Config struct {
	Name      string // of this process, for people; unique among controllers
	Address   string // where its API listens, for people
	Version   string // of the program
	Store     *store.Store
	Scheduler string // its address
	Network   transport.Network
	Token     string // the cluster's secret [none]
	Plan      lead.Config
	Effort    mono.Dur              // of a partition's search [1 s]
	Solver    partition.Solver      // after the search [none]
	Logger    zerolog.Logger        // [silent]
	Metrics   prometheus.Registerer // [none]
}

func (c *Config) complete() error {
	if c.Effort <= 0 {
		c.Effort = mono.Second
	}
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New("it needs a name"))
	}
	if c.Store == nil || c.Network == nil || c.Scheduler == "" {
		errs = append(errs, errors.New("it needs a store, a network and the address of a scheduler"))
	}
	if c.Plan.SubClusters < 0 || c.Plan.SubClusters > 256 {
		errs = append(errs, fmt.Errorf("%d sub-clusters, must be 0 (as few as it takes) to 256", c.Plan.SubClusters))
	}
	if c.Plan.MovesMax < 0 || c.Plan.MovesMax > 1 {
		errs = append(errs, fmt.Errorf("at most %g of the models' bytes move in an epoch: must be 0 to 1", c.Plan.MovesMax))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	return nil
}
