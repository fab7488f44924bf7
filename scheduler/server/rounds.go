package server

import "time"

// rounds is a goroutine that tells others what has changed: at once after a quiet time, and then no more
// often than each tellRest, so that what changes meanwhile is told together.
type rounds struct {
	server *Server
	wake   chan struct{}
	done   chan struct{}
}

func newRounds(s *Server) rounds {
	return rounds{server: s, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// look makes it look whether anybody knows less than there is.
func (r *rounds) look() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run is the goroutine; tell brings all up to date, and says whether somebody's link could not take it.
func (r *rounds) run(tell func() (behind bool)) {
	defer close(r.done)
	for {
		select {
		case <-r.server.stop:
			return
		case <-r.wake:
		}
		if tell() {
			r.look()
		}
		select {
		case <-r.server.stop:
			return
		case <-time.After(tellRest):
		}
	}
}
