package parts

import (
	"reflect"
	"testing"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/transport/mono"
)

// What the configuration says goes over the default of the machine, each key alone.
func TestPlacement(t *testing.T) {
	base := config.Default().Scheduler
	for name, c := range map[string]struct {
		change func(*config.Scheduler)
		cores  int
		want   engine.Placement
	}{
		"two cores":     {func(*config.Scheduler) {}, 2, engine.Placement{ThreadsMax: 2, Joined: true}},
		"sixteen cores": {func(*config.Scheduler) {}, 16, engine.PlacementOn(cores(16), 16, 1)},
		"own thread":    {func(c *config.Scheduler) { c.RankThread = "own" }, 2, engine.Placement{ThreadsMax: 2}},
		"shared thread": {func(c *config.Scheduler) {
			c.RankThread, c.Pin, c.ModelWait, c.RankWait = "shared", "never", "park", "park"
		}, 16, engine.Placement{ThreadsMax: 16, Joined: true}},
		"spin models":       {func(c *config.Scheduler) { c.ModelWait = "spin" }, 2, engine.Placement{ThreadsMax: 2, Joined: true, ModelPoll: engine.Spinning}},
		"poll ranks":        {func(c *config.Scheduler) { c.RankWait, c.RankThread = "poll", "own" }, 2, engine.Placement{ThreadsMax: 2, RankPoll: engine.HalfPoll}},
		"pinned on two":     {func(c *config.Scheduler) { c.Pin = "always" }, 2, engine.Placement{ThreadsMax: 2, Joined: true, Cores: []int{1, 0}}},
		"doze and spin too": {func(c *config.Scheduler) { c.Doze, c.Spin = 20*mono.Microsecond, mono.Microsecond }, 2, engine.Placement{ThreadsMax: 2, Joined: true, Doze: 20 * mono.Microsecond, Spin: mono.Microsecond}},
	} {
		cfg := base
		c.change(&cfg)
		if got := placement(cfg, cores(c.cores), c.cores); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func cores(n int) []int {
	var out []int
	for c := range n {
		out = append(out, c)
	}
	return out
}
