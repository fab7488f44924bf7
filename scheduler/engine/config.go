package engine

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/paged"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Sink carries out what the loops decide. Its methods are called on a model
// loop's thread (index says which) and must not block; what the arguments
// point to is valid until they return.
type Sink interface {
	// Dispatch sends a batch to its GPU's backend.
	Dispatch(loop int, d *shard.Dispatch)
	// Drop answers a request that gets no batch.
	Drop(loop int, d *batching.Drop)
	// Completed tells of a batch's report, after the core has taken it.
	Completed(loop int, r *shard.Run, d *Done)
	// Flush ends the loop's turn: what Dispatch and Drop gathered may leave.
	Flush(loop int)
}

// Config of an Engine. Zero values mean the defaults in brackets; without brackets, zero is zero.
type Config struct {
	ModelLoops  int      // threads that batch [1]
	FirstLoop   int      // number of the first loop: batch ids of engines with other numbers differ [0]
	RingSize    int      // requests that wait for a loop's attention [8192]
	RequestsMax int      // requests queued or running, per loop [131072]
	GPUsMax     int      // [4096]
	Margin      mono.Dur // taken off every deadline
	Outstanding int      // undone batches per GPU [2]
	// TunerShare is how much of a processor's time goes into choosing how much of the deferral is
	// spent (scheduler/tuner); 0: nothing is chosen, the whole deferral is spent always.
	TunerShare float64
	// Setting is in force where nothing is chosen: the whole deferral, except in comparisons.
	Setting  batching.Setting
	Headroom rank.Headroom // which GPUs may take early batches
	// Paged: the models' weights come to GPUs and go (scheduler/paged), and nothing is tuned: batches start as soon as they
	// can, or are deferred with any Headroom that is limited. Its Outstanding, ByLatest and Eager do not count: they are the
	// engine's. [nil: all models are on all GPUs]
	Paged *paged.Config
	// Threads are those that the loops run on, with other engines' [nil: of its own, by Placement].
	Threads   *Threads
	Placement            // how the loops share the machine [own threads that sleep]
	Record    *Recording // inputs and decisions of all loops, for replay [nil: none]
}

// Check says what New would refuse.
func (c Config) Check() error { return c.complete() }

func (c *Config) complete() error {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.ModelLoops, 1)
	def(&c.RingSize, 8192)
	def(&c.RequestsMax, 1<<17)
	def(&c.GPUsMax, 4096)
	def(&c.Outstanding, 2)
	if c.Paged != nil {
		of := *c.Paged // the caller's stays as it is
		of.Outstanding, of.ByLatest, of.Eager, of.Residency.Index = c.Outstanding, false, !c.Headroom.Limited, c.FirstLoop
		c.Paged = &of
	}
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("engine: "+format, args...))
		}
	}
	check(c.ModelLoops >= 1 && c.ModelLoops <= 64, "%d model loops, must be 1 to 64", c.ModelLoops)
	check(c.FirstLoop >= 0 && c.FirstLoop+c.ModelLoops <= 256, "loops %d to %d, must be below 256", c.FirstLoop, c.FirstLoop+c.ModelLoops)
	check(c.RingSize >= 2 && c.RingSize <= 1<<22, "ring of %d, must be 2 to 4194304", c.RingSize)
	check(c.RequestsMax >= 1 && c.RequestsMax <= 1<<24, "%d requests, must be 1 to 16777216", c.RequestsMax)
	check(c.GPUsMax >= 1 && c.GPUsMax <= 16384, "%d GPUs, must be 1 to 16384", c.GPUsMax)
	check(c.TunerShare >= 0 && c.TunerShare <= 1, "tuner share %g, must be 0 to 1 of a processor", c.TunerShare)
	check(!c.Headroom.Limited || c.Headroom.Share >= 0 && c.Headroom.Share <= 100, "headroom %v, must be 0 to 100 of the need", c.Headroom)
	check(c.Margin >= 0, "margin %v must not be negative", c.Margin)
	check(min(c.Spin, c.ModelPoll, c.RankPoll, c.Doze) >= 0, "spin %v, polls %v and %v, and doze %v must not be negative", c.Spin, c.ModelPoll, c.RankPoll, c.Doze)
	check(c.ThreadsMax >= 0, "at most %d threads, must not be negative", c.ThreadsMax)
	return errors.Join(errs...)
}

// shard is the configuration of model loop i's shard, whose batches' ids begin after serial.
func (c *Config) shard(i int, serial uint64) shard.Config {
	return shard.Config{Index: c.FirstLoop + i, RequestsMax: c.RequestsMax, BatchesMax: c.GPUsMax * c.Outstanding, Serial: serial}
}

// firstSerial makes the batches and loads of an engine others than those of one that had its loops' numbers
// before: a late report of one finds no batch of the other. A loop makes fewer of them than one in
// serialUnit, so what it has numbered lies before the time that a later one begins with.
func firstSerial(now mono.Time) uint64 { return uint64(now) / uint64(serialUnit) }

const serialUnit = mono.Microsecond

// pagedFrom is the configuration of the engine's paged.Paged, whose loads' numbers begin after serial.
func (c *Config) pagedFrom(serial uint64) paged.Config {
	p := *c.Paged
	p.Residency.Serial = serial
	return p
}

// rank is the configuration of the engine's rank.
func (c *Config) rank() rank.Config {
	return rank.Config{Outstanding: c.Outstanding, Headroom: c.Headroom}
}

// Done is a backend's report of a batch.
type Done struct {
	Batch wire.BatchID
	Start mono.Time
	End   mono.Time
	Fetch mono.Dur // order's arrival at the backend until all inputs were there
	Ran   int
	// Refused says why the backend answered none of its requests, which are queued again: ReasonLate, ReasonCold;
	// ReasonNone: it answered them.
	Refused wire.Reason
	Cold    bool      // it was the first one with its weights
	Parts   bool      // it ran in several parts, as some of it failed: its times say nothing of how long batches take
	told    mono.Time // when it came to the engine
}

// GPU names one life of a GPU.
type GPU struct {
	ID   wire.GPUID
	Life rank.Life
}
