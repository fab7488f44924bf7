package controller

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/partition"
	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Config of a Controller. Zero values mean the defaults in brackets.
type Config struct {
	Name    string // of this process, for people; unique among controllers
	Address string // where its API listens, for people
	Version string // of the program
	Store   *store.Store
	// Schedulers are their addresses. Where there are several each has GPUs of its own, and a model
	// is at one of them (package spread). A plan that names none, of when there was one, is the
	// first one's.
	Schedulers []string
	Network    transport.Network
	Token      string // the cluster's secret [none]
	Plan       lead.Config
	Scaling    Scaling               // of GPUs
	Effort     mono.Dur              // of a partition's search [1 s]
	Solver     partition.Solver      // after the search [none]
	Logger     zerolog.Logger        // [silent]
	Metrics    prometheus.Registerer // [none]
}

func (c *Config) complete() error {
	c.Scaling.complete()
	if c.Effort <= 0 {
		c.Effort = mono.Second
	}
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New("it needs a name"))
	}
	if c.Store == nil || c.Network == nil || len(c.Schedulers) == 0 || slices.Contains(c.Schedulers, "") {
		errs = append(errs, errors.New("it needs a store, a network and the address of a scheduler"))
	}
	if n := len(c.Schedulers); n > schema.SchedulersMax || n > len(slices.Compact(slices.Sorted(slices.Values(c.Schedulers)))) {
		errs = append(errs, fmt.Errorf("schedulers %v: at most %d, and none twice", c.Schedulers, schema.SchedulersMax))
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
