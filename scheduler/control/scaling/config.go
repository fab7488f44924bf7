package scaling

import (
	"math"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Config of a Group. Zero values mean the defaults in brackets.
type Config struct {
	Min      int      // GPUs [1]
	Max      int      // GPUs; 0: no limit
	PerUnit  int      // GPUs of a replica; 0: as many as one was seen to have
	BadRate  float64  // bound on the share of bad requests [1 %]
	Interval mono.Dur // an epoch [10 s]
	CoolUp   mono.Dur // from any change to the next addition [1 minute]
	CoolDown mono.Dur // from any change to the next removal; GPUs must be to spare all the while [10 minutes]
	Lead     mono.Dur // that a replica takes from the order until it serves [5 minutes]
	Drain    mono.Dur // that replicas may take to end what they have, before the removal is called off [10 minutes]
	RetryMax mono.Dur // between two tries of what does not come; Lead at first, then twice as long each time [1 hour]
	Hints    []Hint   // GPUs that there are to be at certain times
	Absolute bool     // orders are carried out as they are, whatever there is: none before the group is settled
	Advises  bool     // nobody acts: nothing is ordered, nothing drains
}

// unlimited stands for no limit, in GPUs and replicas.
const unlimited = math.MaxInt32

func (c *Config) fill() {
	c.Min = max(1, c.Min)
	if c.Max <= 0 {
		c.Max = unlimited
	}
	c.Max = max(c.Min, c.Max)
	for _, d := range []struct {
		v   *mono.Dur
		def mono.Dur
	}{{&c.Interval, 10 * mono.Second}, {&c.CoolUp, 60 * mono.Second}, {&c.CoolDown, 600 * mono.Second}, {&c.Lead, 300 * mono.Second},
		{&c.Drain, 600 * mono.Second}, {&c.RetryMax, 3600 * mono.Second}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	c.RetryMax = max(c.RetryMax, c.Lead)
}

// hold is for how many epochs in a row GPUs must be to spare before some go.
func (c *Config) hold() int {
	return int(max(1, (c.CoolDown+c.Interval-1)/c.Interval))
}
