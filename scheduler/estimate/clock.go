package estimate

import "github.com/symphony-serving/symphony/transport/mono"

// Clock is the frequency of a GPU in MHz; 0 is not known, and taken for Reference.
type Clock uint32

// Reference is the clock that executions are kept for: a V100's, as Clockwork has it.
const Reference Clock = 1380

// Scale is what at clock `to` takes as many cycles as d is at clock `from`, to the nearest nanosecond.
// Spans of up to an hour and clocks up to 1 THz keep away from overflow.
func Scale(d mono.Dur, from, to Clock) mono.Dur {
	if from == 0 {
		from = Reference
	}
	if to == 0 {
		to = Reference
	}
	if from == to {
		return d
	}
	return (d*mono.Dur(from) + mono.Dur(to)/2) / mono.Dur(to)
}
