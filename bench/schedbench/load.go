package schedbench

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// ErrNothing is the cause when a run ended before it had measured anything.
var ErrNothing = errors.New("nothing was measured")

// Config of a run. Zero values mean the defaults in brackets.
type Config struct {
	Loops     int              // model loops [1]
	GPUs      int              // [64]
	Models    int              // [20]
	Process   workload.Process // poisson, gamma [poisson]
	Shape     float64          // of gamma
	Rate      float64          // requests/s [100,000]
	Duration  mono.Dur         // that counts [5 s]
	Warmup    mono.Dur         // before it [1 s]
	SLO       mono.Dur         // [100 ms]
	Zoo       *zoo.Model       // its profile and SLO for all models; nil: made for the rate
	Delay     mono.Dur         // the network's bound that the scheduler allows for [100 us]
	Quantum   mono.Dur         // the world's sleep between two turns [200 us]
	Seed      uint64
	Tuner     float64          // share of a processor for the engine's tuner; 0: none, the whole deferral
	Setting   batching.Setting // in force without a tuner
	Record    *engine.Recording
	Placement engine.Placement

	tape *tape // shared by the runs of a search
}

// maxBatch bounds batches, as servers do.
const maxBatch = 32

func (c *Config) complete() error {
	def(&c.Loops, 1)
	def(&c.GPUs, 64)
	def(&c.Models, 20)
	def(&c.Process, workload.Poisson)
	def(&c.Rate, 100_000)
	def(&c.Duration, 5*mono.Second)
	def(&c.Warmup, mono.Second)
	def(&c.SLO, 100*mono.Millisecond)
	def(&c.Delay, 100*mono.Microsecond)
	def(&c.Quantum, 200*mono.Microsecond)
	if c.Zoo != nil {
		c.SLO = c.Zoo.SLO
	}
	for _, f := range []struct {
		name           string
		v, least, most float64
	}{
		{"loops", float64(c.Loops), 1, 64},
		{"gpus", float64(c.GPUs), 1, 4096},
		{"models", float64(c.Models), 1, engine.ModelsMax},
		{"rate", c.Rate, 1, 1e8},
		{"duration", c.Duration.Seconds(), 0.01, 3600},
		{"slo", c.SLO.Seconds(), 0.001, 60},
		{"delay", c.Delay.Seconds(), 0, c.SLO.Seconds() / 4},
		{"quantum", c.Quantum.Seconds(), 1e-6, 0.01},
	} {
		if !(f.v >= f.least && f.v <= f.most) {
			return fmt.Errorf("%s: %v, must be between %v and %v", f.name, f.v, f.least, f.most)
		}
	}
	if c.tape == nil {
		t, err := newTape(c.Process, c.Shape, c.Models, c.Seed)
		if err != nil {
			return err
		}
		c.tape = t
	}
	return nil
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// The made profile has beta = 2*alpha and batches up to 32. A batch of 17 then has
// 95 % of the efficiency of the largest, so the scheduler finds it ripe and starts
// it where a GPU is idle, whatever the SLO and the number of models; larger ones
// come about where GPUs are short.
const (
	fixPerItem   = 2
	ripeBatch    = 17
	busyTarget   = 0.75
	sloShareMost = 0.6 // of the SLO for a batch of ripeBatch; with more time GPUs stay idle instead
)

// profileFor makes the profile with which the GPUs carry the rate in batches of
// ripeBatch at busyTarget, or less busy where such batches would take too long.
func (c *Config) profileFor() (*profile.Profile, error) {
	if c.Zoo != nil {
		return profile.Linear(c.Zoo.Alpha, c.Zoo.Beta, maxBatch)
	}
	units := float64(ripeBatch + fixPerItem)
	batch := busyTarget * ripeBatch * float64(c.GPUs) / c.Rate // seconds of a batch
	batch = min(batch, sloShareMost*c.SLO.Seconds())
	alpha := max(1, mono.FromSeconds(batch/units))
	return profile.Linear(alpha, fixPerItem*alpha, maxBatch)
}
