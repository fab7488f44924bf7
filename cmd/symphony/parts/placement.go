package parts

import (
	"runtime"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
)

// processors is what the process may use of the cores: less where a container has a quota,
// or GOMAXPROCS is set. (Read before anything raises it.)
var processors = runtime.GOMAXPROCS(0)

// Placement is how the scheduler's loops share this machine's cores.
func Placement(c config.Scheduler) engine.Placement { return placement(c, ring.Cores(), processors) }

// placement is how the scheduler's loops share these cores: the default for them, and
// over that what the configuration says. Pinned always, loops take all cores in
// turn, from the last one down; those of pools beyond them float.
func placement(c config.Scheduler, cores []int, processors int) engine.Placement {
	p := engine.PlacementOn(cores, processors, c.ModelLoops)
	switch c.RankThread {
	case "own":
		p.Joined = false
	case "shared":
		p.Joined = true
	}
	switch c.Pin {
	case "never":
		p.Cores = nil
	case "always":
		p.Cores = engine.LastCores(cores, len(cores))
	}
	p.ModelPoll, p.RankPoll = waitOf(c.ModelWait, p.ModelPoll), waitOf(c.RankWait, p.RankPoll)
	p.Spin, p.Doze = c.Spin, c.Doze
	return p
}

// waitOf is the poll that a word of the configuration means.
func waitOf(word string, auto mono.Dur) mono.Dur {
	switch word {
	case "park":
		return 0
	case "poll":
		return engine.HalfPoll
	case "spin":
		return engine.Spinning
	}
	return auto
}
