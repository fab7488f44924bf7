package config

import (
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
)

// heartbeatLeast: faster ones cost a processor.
const heartbeatLeast = 100 * mono.Microsecond

func (s *Scheduler) validateGroup(r *report) {
	if len(s.Standby) > 0 {
		s.Standby.validate(r, "scheduler.standby", transport.GroupMax)
		for _, a := range s.Standby {
			r.need(!strings.Contains(a, "+"), "scheduler.standby", "%q: the schedulers of the group stand apart, with commas between", a)
		}
		// Others are told of one address then, know of no group, and obey nobody by name: their GPUs would not be used.
		r.need(len(s.Standby) > 1 || !slices.Contains(s.Listen, s.Standby[0]), "scheduler.standby", "has this scheduler's own address only: a group has two or more; leave it out (--standby) where there is one scheduler")
	}
	if s.Heartbeat != 0 {
		r.span("scheduler.heartbeat", s.Heartbeat, heartbeatLeast, standby.BeatMost)
	}
}
