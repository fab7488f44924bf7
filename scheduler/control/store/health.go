package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// State is whether etcd answers.
type State struct {
	Away  bool
	Since time.Time // of the last answer, if it is away; since when it is there otherwise
	Why   string
}

const (
	probeEvery = time.Second           // a small read: no write, no log, no disk
	probeMax   = 2 * time.Second       // for its answer
	probeMin   = 50 * time.Millisecond // between two of them
	awayAfter  = 3 * time.Second       // without an answer
)

// health asks etcd every second whether it is there. Calls that fail make it ask at once. It
// tells when etcd goes and when it is back, each in one line; and it finds out that the etcd
// that is back is another one, or has lost what it had: then all that was read is void.
type health struct {
	s    *Store
	kick chan struct{} // has a token when a call failed

	answered time.Time // the last time; owned by run

	mu      sync.Mutex // Guards what follows.
	state   State
	changed chan struct{} // closed, and made anew, when state or age changes
	age     int           // rises when etcd is another one: watches and leases begin anew

	away    prometheus.Gauge
	outages prometheus.Counter
}

func newHealth(s *Store) *health {
	now := time.Now()
	return &health{s: s, kick: make(chan struct{}, 1), answered: now, state: State{Since: now}, changed: make(chan struct{}),
		away:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "symphony_control_store_away", Help: "Whether the control plane's etcd does not answer (1); what is served goes on."}),
		outages: prometheus.NewCounter(prometheus.CounterOpts{Name: "symphony_control_store_outages_total", Help: "Times that the control plane's etcd went away."})}
}

// doubt makes the next probe come now.
func (h *health) doubt() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

// now is the state, the age, and what is closed when one of them changes.
func (h *health) now() (State, int, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state, h.age, h.changed
}

func (h *health) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	close(h.changed)
	h.changed = make(chan struct{})
}

// run probes until the store closes.
func (h *health) run(ctx context.Context) {
	timer := time.NewTimer(probeEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-h.kick:
			if !sleep(ctx, probeMin) { // a storm of failed calls is one probe
				return
			}
		}
		h.probe(ctx)
		timer.Reset(probeEvery)
		if ctx.Err() != nil {
			return
		}
	}
}

// probe asks once.
func (h *health) probe(ctx context.Context) {
	err := h.ask(ctx)
	state, _, _ := h.now()
	switch now := time.Now(); {
	case ctx.Err() != nil:
	case err == nil:
		h.answered = now
		if state.Away {
			h.away.Set(0)
			h.s.cfg.Logger.Info().Str("where", h.s.cfg.where()).Dur("after", now.Sub(state.Since)).Msg("the control plane's etcd is back: changes are taken up")
			h.set(func() { h.state = State{Since: now} })
		}
	case !state.Away && (now.Sub(h.answered) >= awayAfter || h.s.died() != ""):
		why := plainCause(err).Error()
		h.away.Set(1)
		h.outages.Inc()
		h.s.cfg.Logger.Warn().Str("where", h.s.cfg.where()).Str("why", why).Msg("the control plane's etcd does not answer: what is served goes on, changes wait")
		h.set(func() { h.state = State{Away: true, Since: h.answered, Why: why} })
	}
}

// ask reads the schema's key.
func (h *health) ask(ctx context.Context) error {
	if why := h.s.died(); why != "" {
		return fmt.Errorf("the etcd in this process ended: %s: free disk space if that is it, then restart", why)
	}
	n := note{caller: ctx}
	call, cancel := context.WithTimeout(context.WithValue(ctx, noteKey{}, &n), probeMax)
	defer cancel()
	newest := h.s.newest.Load() // before: what is told meanwhile may be newer than the answer
	resp, err := h.s.client.Get(call, h.s.schemaKey())
	if err != nil && n.detail != "" {
		err = errors.New(n.detail)
	}
	if err != nil {
		return err
	}
	another := resp.Header.Revision < newest
	if len(resp.Kvs) == 0 || resp.Kvs[0].ModRevision != h.s.schema.Load() || string(resp.Kvs[0].Value) != h.s.schemaValue {
		was := h.s.identity
		if err := h.s.prepare(ctx); err != nil {
			return errors.Join(errors.New("its state is not what it was"), err)
		}
		another = another || h.s.identity != was
	}
	if another {
		h.s.newest.Store(resp.Header.Revision)
		h.s.cfg.Logger.Warn().Str("where", h.s.cfg.where()).Msg("the control plane's etcd is another one, or has lost its newest changes: all is read again")
		h.set(func() { h.age++ })
	}
	return nil
}

// State is whether etcd answers, and what is closed when that changes.
func (s *Store) State() (State, <-chan struct{}) {
	state, _, changed := s.health.now()
	return state, changed
}

// Await waits until etcd answers, or ctx ends.
func (s *Store) Await(ctx context.Context) error {
	for {
		state, changed := s.State()
		if !state.Away {
			return nil
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pause waits a moment before another try, longer while etcd is away; false when ctx or the
// store ends.
func (s *Store) pause(ctx context.Context, d time.Duration) bool {
	state, changed := s.State()
	if !state.Away {
		changed = nil
	} else {
		d = time.Minute // its return wakes us up
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return ctx.Err() == nil && s.ctx.Err() == nil
}

// get reads one key.
func (s *Store) get(ctx context.Context, doing, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	call, cancel, err := s.begin(ctx, doing)
	if err != nil {
		return nil, err
	}
	defer cancel()
	resp, err := s.client.Get(call, key, opts...)
	if err == nil {
		s.told(resp.Header.Revision)
	}
	return resp, s.wrong(call, doing, false, err)
}

// sleep is false when ctx ends before d is over.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (h *health) metrics() []prometheus.Collector { return []prometheus.Collector{h.away, h.outages} }
