package fleet

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// ErrInvalid is the cause of every refused configuration.
var ErrInvalid = errors.New("invalid fleet")

// Base is a model that the catalogue's are made of.
type Base struct {
	Name    string
	Profile *profile.Profile
	SLO     mono.Dur
}

// Config of a day.
type Config struct {
	GPUs, Models, SubClusters int
	PerHost                   int   // GPUs of a host
	Memory                    int64 // bytes of a GPU
	Base                      []Base
	Popularity                string  // of package workload: "zipf:0.8"
	Peak                      float64 // the greatest need of the day, in GPUs of one undivided cluster
	Length                    mono.Dur
	Seed                      uint64

	Partition Partitioner
	MovesMax  int // models that an epoch may move beside new ones and versions
	Limits    plan.Limits
	Epochs    plan.EpochConfig

	Changes  int      // of the catalogue in the Length: a third each new models, new versions, removals
	Failures int      // of GPUs in the Length
	Away     mono.Dur // of a GPU that failed
	Restarts int      // of the controller
	LoadFail float64  // share of loads that fail
	LoadLost float64  // share of loads of which nobody hears again
	LoadRate float64  // bytes/s at which a GPU loads

	Regular  int      // stretches of the day that are simulated request by request, evenly spread
	RollOuts int      // roll-outs of which a stretch is
	Stretch  mono.Dur // counted length of each
	Warmup   mono.Dur // before it
}

// Demand is a model as the partitioner sees it.
type Demand struct {
	Key             string
	Rate            float64 // requests/s
	Need            float64 // GPUs that its requests keep busy
	Batch           float64 // requests in a batch then
	Slack           float64 // seconds: SLO - l(1)
	Static, Dynamic int64   // bytes
}

// Partitioner divides models among sub-clusters. from is where each is, -1: nowhere; moves is
// how many of the others may change. wants are the GPUs of each sub-cluster so that 99 % of its
// requests are in time, not in whole ones.
type Partitioner interface {
	Partition(models []Demand, from []int, subClusters int, memory int64, moves int, seed uint64) (of []int, err error)
	Wants(models []Demand, of []int, subClusters int) (wants []float64)
}

// Check says what is wrong with the configuration.
func (c *Config) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case c.GPUs < 1 || c.Models < 1 || c.SubClusters < 1 || c.PerHost < 1 || c.Memory < 1:
		return bad("%d GPUs, %d a host, of %d bytes, %d models, %d sub-clusters: each must be at least 1", c.GPUs, c.PerHost, c.Memory, c.Models, c.SubClusters)
	case len(c.Base) == 0 || c.Partition == nil:
		return bad("no models to make others of, or no partitioner")
	case !(c.Peak > 0) || c.Length < mono.Second || c.Stretch <= 0 || c.Warmup < 0:
		return bad("a peak of %g GPUs, a length of %v, stretches of %v after %v: must be above 0", c.Peak, c.Length, c.Stretch, c.Warmup)
	case !(c.LoadRate > 0) || !(c.LoadFail >= 0 && c.LoadFail < 1) || !(c.LoadLost >= 0 && c.LoadLost < 1):
		return bad("loads at %g bytes/s, of which %g fail and %g are lost: the first must be above 0, the others shares", c.LoadRate, c.LoadFail, c.LoadLost)
	}
	_, err := workload.Shares(c.Popularity, c.Models)
	return err
}
