package config

import (
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
	}
	if s.Heartbeat != 0 {
		r.span("scheduler.heartbeat", s.Heartbeat, heartbeatLeast, standby.BeatMost)
	}
}
