package parts

import (
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
)

// Placement is how the scheduler's loops share this machine's cores.
func Placement(c config.Scheduler) engine.Placement {
	return placement(c, ring.Cores(), cli.Processors())
}

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

// procs is how many goroutines may run at a time. A loop that wakes from its futex needs
// a P at once. With as many Ps as processors, it would wait for a busy goroutine to be
// preempted (20 ms); with some to spare, the kernel decides, and it prefers who slept.
func procs(c config.Config, processors, polling int) int {
	if c.Procs != 0 {
		return c.Procs
	}
	return processors + polling + lateThreads*max(1, len(c.Backend.Pools)) + c.Scheduler.ModelLoops
}

// lateThreads are the threads of a pool that must be on time: model loop, rank
// loop, emulated clock. (One more polls an RDMA device: newNetwork tells.)
const lateThreads = 3

// decoders is how many images are decoded at a time: one processor is left for the rest.
func decoders(c config.Frontend, processors int) int {
	if c.Preprocess != 0 {
		return c.Preprocess
	}
	return max(1, processors-1)
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
