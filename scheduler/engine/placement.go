package engine

import (
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Placement says how the loops share the machine: which have a thread of their
// own, on which core, and how each waits. The zero value: threads of their own
// that float, and sleep when there is nothing to do.
type Placement struct {
	// Joined: the rank loop rides on the first model loop's thread. Where cores are few
	// two threads would only wake each other: a grant takes half the time without.
	Joined bool
	// Cores are those of the model loops' threads, then of the rank loop's; threads
	// beyond them float.
	Cores []int
	// ModelPoll and RankPoll are how long a loop looks for news before it sleeps: 0
	// is not at all, Spinning for ever, which takes a core. A joined rank loop polls
	// as its model loop does.
	ModelPoll, RankPoll mono.Dur
	// Spin is how long before a timer's instant a sleep ends, to spin until then.
	Spin mono.Dur
	// Doze is how long requests that come in a dense row may wait for a model loop,
	// so that it takes several at each wake-up; 0: each wakes it.
	Doze mono.Dur
	// ThreadsMax is how many threads the loops of all engines that share them (NewThreads) may
	// have, where one engine does not need more; 0: as many as they ask for.
	ThreadsMax int
}

// Spinning is a poll without end.
const Spinning = mono.Dur(mono.Never)

// HalfPoll is how long loops look before they sleep where cores are many: about
// what a sleep and a wake-up take.
const HalfPoll = 50 * mono.Microsecond

// PlacementOn is the default on these cores, of which the process may use so much time
// (processors: fewer than cores where a container has a quota). With less than one for
// each loop and one for the rest, the rank loop has no thread of its own and all
// sleep. With twice as many as loops and two to spare, and no quota, each has a core, from
// the last one down (the first ones take most interrupts), and looks a while before it
// sleeps.
//
// Engines that share threads have one for each core at most: with more loops than cores they would
// only take turns, and be woken one by one.
func PlacementOn(cores []int, processors, modelLoops int) Placement {
	threads := modelLoops + 1
	switch n := min(len(cores), processors); {
	case n <= threads:
		return Placement{Joined: true, ThreadsMax: n}
	case n < 2*threads+2 || n < len(cores):
		return Placement{ThreadsMax: n}
	}
	return Placement{ModelPoll: HalfPoll, RankPoll: HalfPoll, ThreadsMax: len(cores), Cores: LastCores(cores, threads)}
}

// LastCores are n of the cores, from the last one down, or all that there are.
func LastCores(cores []int, n int) []int {
	out := slices.Clone(cores[max(0, len(cores)-n):])
	slices.Reverse(out)
	return out
}
