package fleet

import "github.com/symphony-serving/symphony/bench/sim/fleet"

// planner is a partitioner by name. Each has a day of its own, with the same catalogue and course,
// and what happens at the same instants.
type planner struct {
	name string
	by   fleet.Partitioner
}

func planners() []planner {
	return []planner{{"balance of needs", fleet.Greedy{}}}
}
