package parts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/scheduler/server"
)

// Scheduling runs a scheduler of a group: one server after the other. A leader that another one has
// overtaken ends, and begins anew as a spare, with all that belongs to it: nothing of what it thought
// then can be taken for what is so now.
type Scheduling struct {
	p    *Process
	cfg  server.Config
	stop chan struct{} // closed by Drain
	done chan struct{} // closed when run has ended

	mu     sync.Mutex
	server *server.Server // nil: between two
	err    error          // why there will be none any more
}

// Scheduling starts the scheduler as a member of its group (scheduler.standby).
func (p *Process) Scheduling() (*Scheduling, error) {
	cfg, err := p.scheduler()
	if err != nil {
		return nil, err
	}
	cfg.Past = &server.Past{}
	k := &Scheduling{p: p, cfg: cfg, stop: make(chan struct{}), done: make(chan struct{})}
	if k.server, err = server.New(cfg); err != nil {
		return nil, err
	}
	p.watchScheduler(k.server)
	k.cfg.Listen = k.server.Addresses() // a port of its choice stays its port
	go k.run(k.server)
	return k, nil
}

// Addresses are where it listens.
func (k *Scheduling) Addresses() []string { return k.cfg.Listen }

// Done is closed when it has ended; Err says why.
func (k *Scheduling) Done() <-chan struct{} { return k.done }

// Err is why it has ended by itself; nil: it has not.
func (k *Scheduling) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

func (k *Scheduling) run(s *server.Server) {
	defer close(k.done)
	for {
		select {
		case <-k.stop:
			return
		case <-s.Over():
		}
		k.set(nil, nil)
		if err := s.Close(); err != nil {
			k.p.Log.Warn().Err(err).Msg("the scheduler that was overtaken did not end well")
		}
		var err error
		if s, err = k.next(); s == nil {
			k.set(nil, err)
			return
		}
		k.p.watchScheduler(s)
		k.set(s, nil)
	}
}

func (k *Scheduling) set(s *server.Server, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.server, k.err = s, err
}

const (
	// nextTries are how often the next server is tried: others may take the port meanwhile.
	nextTries = 100
	nextPause = 100 * time.Millisecond
)

// next begins anew; nil without an error: it is to end.
func (k *Scheduling) next() (s *server.Server, err error) {
	for range nextTries {
		if s, err = server.New(k.cfg); err == nil {
			return s, nil
		}
		select {
		case <-k.stop:
			return nil, nil
		case <-time.After(nextPause):
		}
	}
	return nil, fmt.Errorf("the scheduler was overtaken, and cannot begin anew as a spare: %w", err)
}

// Drain hands over where it leads and there is a spare, finishes what is open where there is none,
// and ends.
func (k *Scheduling) Drain(ctx context.Context) error {
	close(k.stop)
	<-k.done
	k.mu.Lock()
	s, err := k.server, k.err
	k.mu.Unlock()
	if s == nil {
		return err
	}
	return errors.Join(s.Drain(ctx), s.Close())
}
