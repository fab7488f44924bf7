package server

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport/mono"
)

// A GPU that owes a report is tried again after a pause, which doubles each time.
const (
	doubtFirst = 5 * mono.Second
	doubtMost  = 5 * 60 * mono.Second
)

// Config.reportGrace is long. A GPU whose batch runs on is busy, whatever the scheduler does: to
// take it out of service early gains nothing, and loses the requests of a batch that only runs
// longer than its profile says, or on a host that stalls. Backends watch GPUs that hang by
// themselves (backend/executor, ErrAstray).

// doubt is a GPU's that owed a report while others of its backend did not.
type doubt struct {
	name  string // the GPU's: its id may be another's by and by
	seat  *seat
	pause mono.Dur
	until mono.Time // it is out until then
	tried bool      // that was, and it was tried again
}

// lookForReports deals with GPUs that have not reported long after they should have: their
// link may live while they hang. If it is all that the backend has, its link is closed. Else
// the GPU is taken out of service, and tried again: its backend may see nothing wrong, or be
// about to say what is. Caller holds mu.
func (s *Server) lookForReports(now mono.Time) {
	for _, b := range s.backends {
		var late []seated
		for _, at := range b.seats {
			if at.gpu.seat.Load().overdue(now, s.cfg.reportGrace) { // a seat of b's is there while it is listed
				late = append(late, at)
			}
		}
		if len(late) > 0 && len(late) == len(b.seats) {
			b.link.Close(fmt.Errorf("GPU %s owes a report since %v", late[0].gpu.name, late[0].gpu.seat.Load().overdueFor(now)))
			continue
		}
		for _, at := range late {
			s.doubts(now, at.gpu)
		}
	}
	for g, d := range s.doubted {
		switch {
		case !d.tried && now >= d.until:
			s.suspect(d, false, "") // if its backend has gone, that changes nothing
			d.tried = true
		case now.Sub(d.until) > doubtMost:
			delete(s.doubted, g)
		}
	}
	if len(s.effects) > 0 {
		s.carryOut(&s.effects)
	}
}

// doubts takes a GPU out of service.
func (s *Server) doubts(now mono.Time, g *gpu) {
	d := s.doubted[g]
	if d == nil || d.name != g.name {
		d = &doubt{name: g.name, pause: doubtFirst / 2}
		s.doubted[g] = d
	}
	d.pause = min(2*d.pause, doubtMost)
	d.seat, d.until, d.tried = g.seat.Load(), now.Add(d.pause), false
	s.suspect(d, true, fmt.Sprintf("it owes a report since %v; it is tried again in %v", d.seat.overdueFor(now), d.pause))
}

func (s *Server) suspect(d *doubt, suspect bool, why string) {
	err := s.cluster.Suspect(d.seat.backend.conn, int(d.seat.pool), int(d.seat.device), suspect, why, &s.effects)
	if err != nil {
		s.log.Error().Err(err).Msg("a GPU that is not its backend's")
	}
}
