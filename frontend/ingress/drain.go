package ingress

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// drainGrace is how long connections may still come, and kept ones speak, while a drain
	// refuses what they ask for. A client whose connection is closed while it sends cannot
	// tell whether it was served; one that reads 503 and "Connection: close" can.
	drainGrace = 500 * time.Millisecond
	// drainAnswers is how long what was given up may take to be answered.
	drainAnswers = 250 * time.Millisecond
	// drainPause is how often a drain looks for connections.
	drainPause = 5 * time.Millisecond
)

// Drain ends in four steps, so that nobody is left without an answer:
//
//	grace      not ready; new requests get 503; inferences run on
//	shut       the ports and the idle connections close
//	open       waits for what runs, as long as ctx does
//	given up   what still runs is answered 503 (Config.GiveUp), what is still being read 503
//
// Connections that have not taken their answer then are cut, and the error says how many.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	s.end() // who waits for a model waits at another server
	grace, cancel := context.WithTimeout(ctx, drainGrace)
	_ = s.emptied(grace)
	cancel()
	err := errors.Join(s.http.ShutdownWithContext(ctx), s.watching.ShutdownWithContext(ctx), s.admin.ShutdownWithContext(ctx))
	if err == nil { // answered, but a refused body may still be coming
		err = s.emptied(ctx)
	}
	defer s.metrics.unregister()
	if s.regions != nil {
		defer s.regions.Unregister("")
	}
	if busy := s.open(); busy > 0 {
		s.giveUp()
		return fmt.Errorf("ingress: %d connections were still busy; %d have been cut without an answer: %w", busy, s.abort(), err)
	}
	return err
}

// emptied waits until there are no connections.
func (s *Server) emptied(ctx context.Context) error {
	for s.open() > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(drainPause):
		}
	}
	return nil
}

// giveUp ends reads and inferences, so that their handlers answer, and waits a moment.
func (s *Server) giveUp() {
	s.givenUp.Store(true)
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Conn.SetReadDeadline(past())
	}
	s.mu.Unlock()
	if s.cfg.GiveUp != nil {
		s.cfg.GiveUp()
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainAnswers)
	defer cancel()
	_ = s.emptied(ctx)
}

// past is a deadline that has passed.
func past() time.Time { return time.Unix(1, 0) }

// shuttingDown refuses what comes while the server drains.
func shuttingDown() *refusal {
	return &refusal{status: 503, reason: "draining", msg: "the server is shutting down: connect again, to another one or later", after: pause, close: true}
}

func (s *Server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// abort cuts the connections that are left, and counts those that had no answer.
func (s *Server) abort() (unanswered int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if !c.linger.Load() { // those have theirs: it is the rest of a body that they wait for
			unanswered++
		}
		c.abort()
	}
	return unanswered
}

// Close ends at once.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Drain(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
