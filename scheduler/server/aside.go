package server

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// aside is a GPU that the members' core has and the engine has not: its backend has not promised to
// obey this scheduler. Everything else of a backend is as if it had. Guarded by Server.mu.
type aside struct {
	pool          *pool
	gpu           *gpu
	index, device int
	free          mono.Time
	retired       bool // it shall get nothing new; when it is seated, too
}

// obeyed reports whether a backend's GPUs may be used, and orders given to it.
func (s *Server) obeyed(b *backend) bool { return s.group == nil || b.reign != 0 }

// putAside keeps a GPU until its backend has promised.
func (s *Server) putAside(b *backend, a *aside) {
	b.aside = append(b.aside, a)
	a.pool.aside.Add(1)
}

// asideOf finds a GPU that waits so; nil: it does not.
func (s *Server) asideOf(p *pool, g *gpu) (*backend, *aside) {
	if s.group == nil {
		return nil, nil
	}
	for _, b := range s.backends {
		for _, a := range b.aside {
			if a.pool == p && a.gpu == g {
				return b, a
			}
		}
	}
	return nil, nil
}

// unput ends a GPU's wait.
func (b *backend) unput(a *aside) {
	b.aside = slices.DeleteFunc(b.aside, func(x *aside) bool { return x == a })
	a.pool.aside.Add(-1)
}

// awaits reports whether requests of a pool without GPUs wait: this scheduler leads, and has asked
// for those that there are.
func (s *Server) awaits(p *pool) bool { return p.aside.Load() > 0 && s.leads.Load() }

// uses lets a backend obey: it has promised to. Its GPUs are free when what runs there has ended.
// Caller holds mu.
func (s *Server) uses(conn members.Conn, reign wire.Epoch) {
	b := s.backends[conn]
	if b == nil || s.closed {
		return // it left just now
	}
	b.reign = reign
	now := mono.Now()
	for _, a := range b.aside {
		free := max(a.free, s.held.until(conn, a.index, a.device))
		if err := s.seatGPU(b, a.pool, a.gpu, a.index, a.device, max(0, free.Sub(now))); err != nil {
			s.log.Error().Str("gpu", a.gpu.name).Err(err).Msg("the engine does not take this GPU")
		}
		a.pool.aside.Add(-1) // once it is seated: in between a request would find neither
	}
	seated := b.aside
	b.aside = nil
	for _, a := range seated {
		if a.retired && a.gpu.seat.Load() != nil {
			s.retireGPU(a.pool, a.gpu.id) // and its drain is noted anew: it has a seat now
		}
	}
	s.lookAtDoor(now)
	s.cluster.Recall(now, conn, &s.effects)
	s.carryOut(&s.effects)
}

// disobeys ends that: the backend is gone. Caller holds mu.
func (s *Server) disobeys(b *backend) {
	for _, a := range b.aside {
		a.pool.aside.Add(-1)
	}
	b.aside, b.reign = nil, 0
	s.group.backendDown(b.conn)
	s.release(s.held.lost(b.conn))
	s.lookAtDoor(mono.Now())
}

// reignAt is whose orders a backend obeys when they are this scheduler's.
func (s *Server) reignAt(b *backend) wire.Epoch {
	if s.group == nil {
		return s.epoch
	}
	return b.reign
}
