package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/sampled"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Server is the scheduler's process.
type Server struct {
	cfg       Config
	log       zerolog.Logger
	epoch     wire.Epoch
	metrics   *metrics
	listeners []transport.Listener
	refusals  sampled.Refusals
	overfull  overfull
	draining  atomic.Bool
	reign     atomic.Uint64 // wire.Epoch of its orders: epoch, or, in a group, what was promised it; 0: it leads nobody
	leads     atomic.Bool   // of a group
	busy      atomic.Bool   // of a group: a request has come since the last look
	mute      atomic.Bool   // it has led, and another does: nothing of requests is sent any more
	group     *group        // Immutable; nil: it is alone
	held      *held         // likewise
	door      door
	peers     atomic.Int64    // frontends and backends admitted now
	stop      chan struct{}   // closed by Close
	threads   *engine.Threads // Immutable: of all pools' loops
	ticking   sync.WaitGroup
	ending    sync.WaitGroup // engines of sub-clusters that have ended

	// Snapshots for the request path; replaced under mu.
	routes      atomic.Pointer[[]route]     // by wire.ModelID
	frontendsBy atomic.Pointer[[]*frontend] // by wire.FrontendID; nil where one left
	byLoop      atomic.Pointer[[]*pool]     // by the loop in a wire.BatchID; nil where there is none

	mu             sync.Mutex // Guards what follows: membership, the cold path.
	closed         bool
	hastened       bool // nothing is deferred any more
	cluster        *members.Cluster
	effects        members.Effects // scratch
	conns          members.Conn    // the last one given
	pools          []*pool         // by the core's index; nil: there is none
	models         []served        // by wire.ModelID
	infeasibleLook mono.Time       // the next one (lookForInfeasible)
	moves          []move          // scratch: models that go from one engine to another
	leaving        []*leaving      // models that were removed and have something waiting
	frontends      map[members.Conn]*frontend
	backends       map[members.Conn]*backend
	labels         labels
	doubted        map[*gpu]*doubt // that owed reports of late
	drains         []*drain        // GPUs that shall have nothing left
	fences         fences

	teller      *teller
	controllers controllers

	watching watching // Guards itself; takes mu while it does.
}

// route says where a model's requests go.
type route struct {
	engine *engine.Engine // nil: there is no such model
	pool   *pool
	count  *modelCount
}

// served is where a model is served.
type served struct {
	pool    *pool // nil: nowhere
	count   *modelCount
	spec    *catalog.ModelSpec
	leaving *leaving // it was removed, and what waits is served; nil: no

	infeasible bool // said: none of its requests can be in time
}

// goTo notes where a model is served from now on. Caller holds Server.mu.
func (m *served) goTo(p *pool) {
	if m.pool != nil {
		m.pool.models--
	}
	if m.pool = p; p != nil {
		p.models++
	}
}

// New starts a scheduler: it listens when New returns.
func New(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	epoch := wire.Epoch(time.Now().UnixNano())
	s := &Server{cfg: cfg, threads: engine.NewThreads(cfg.Placement), log: cfg.Logger, refusals: sampled.NewRefusals(cfg.Logger), epoch: epoch, stop: make(chan struct{}),
		cluster: members.New(members.Limits{Frontends: cfg.FrontendsMax, Backends: cfg.BackendsMax, Pools: cfg.PoolsMax,
			Models: cfg.ModelsMax, PoolModels: min(cfg.ModelsMax, engine.ModelsMax), GPUs: cfg.GPUsMax, Epoch: uint64(epoch)}),
		frontends: map[members.Conn]*frontend{}, backends: map[members.Conn]*backend{}, doubted: map[*gpu]*doubt{},
		labels: labels{kept: map[catalog.Digest][]byte{}, asked: map[catalog.Digest]*question{}}}
	s.overfull = newOverfull(s)
	if len(cfg.Group) == 0 {
		s.reign.Store(uint64(epoch))
	} else {
		s.group, s.held = newGroup(s), newHeld(cfg.Past)
	}
	s.teller = newTeller(s)
	s.controllers = newControllers(cfg.Logger)
	s.routes.Store(&[]route{})
	s.frontendsBy.Store(&[]*frontend{})
	var err error
	if s.metrics, err = newMetrics(s, cfg.Metrics); err != nil {
		return nil, err
	}
	go s.teller.run(s.teller.tell)
	go s.tellControllers()
	for _, address := range cfg.Listen {
		l, err := cfg.Network.Listen(address, transport.Options{
			Hello:   s.hello(),
			Refused: s.refusals.Refused,
			Opening: introductionMax,
		}, s.accept)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("scheduler: %w", err)
		}
		s.listeners = append(s.listeners, l)
		s.log.Info().Str("address", l.Address()).Uint64("epoch", uint64(s.epoch)).Msg("scheduler listens")
	}
	s.ticking.Add(1)
	go s.tick()
	if s.group != nil {
		s.group.start()
	}
	return s, nil
}

// hello is what it says of itself on each link.
func (s *Server) hello() wire.Hello {
	return wire.Hello{Role: wire.RoleScheduler, Incarnation: uint64(s.epoch), Token: transport.Token(s.cfg.Token), Name: s.cfg.Name, Features: wire.FeatureCancel}
}

// Addresses are where the server listens, in the order of Config.Listen.
func (s *Server) Addresses() []string {
	var out []string
	for _, l := range s.listeners {
		out = append(out, l.Address())
	}
	return out
}

// Epoch is the number of this scheduler's reign.
func (s *Server) Epoch() wire.Epoch { return s.epoch }

// errClosing is why nobody is admitted any more.
var errClosing = errors.New("the scheduler is shutting down")

func (s *Server) accept(peer wire.Hello) (transport.Handler, error) {
	switch {
	case s.draining.Load():
		return nil, errClosing
	case peer.Role == wire.RoleFrontend:
		return &frontend{server: s, name: peer.Name}, nil
	case peer.Role == wire.RoleBackend:
		return &backend{server: s, name: peer.Name}, nil
	case peer.Role == wire.RoleScheduler && s.group != nil:
		return &fellow{group: s.group}, nil
	case peer.Role == wire.RoleController:
		return &controller{server: s, name: peer.Name}, nil
	}
	return nil, fmt.Errorf("a scheduler serves frontends, backends and controllers, not role %d", peer.Role)
}

// frontend finds a frontend's link without a lock; nil when it left.
func (s *Server) frontend(id wire.FrontendID) *frontend {
	all := *s.frontendsBy.Load()
	if int(id) >= len(all) {
		return nil
	}
	return all[id]
}

// Hasten ends the deferral for good: what waits runs as soon as there is a GPU. For a
// process whose frontend drains.
func (s *Server) Hasten() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hastened = true
	for p := range s.livePools {
		p.engine.Hasten()
	}
}

// Drain hands over to a spare where this scheduler leads a group and there is one. Else it
// refuses new requests, runs the queued ones at once, and waits until they are answered or ctx
// ends. It tells the peers that the scheduler leaves.
func (s *Server) Drain(ctx context.Context) error {
	s.handOver(ctx)
	s.draining.Store(true)
	s.Hasten()
	for s.open() > 0 && !s.mute.Load() { // of who was overtaken nothing is open: it is another's
		select {
		case <-ctx.Done():
			return fmt.Errorf("scheduler: %d requests still open: %w", s.open(), ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	leave := (&wire.Leave{Epoch: s.epoch}).Append(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.frontends {
		_ = f.link.Send(leave)
	}
	for _, b := range s.backends {
		_ = b.link.Send(leave)
	}
	for _, c := range s.controllers.all {
		_ = c.link.Send(leave)
	}
	return nil
}

// open is the number of requests queued or running.
func (s *Server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	if s.held != nil {
		n = int(s.held.waiting.Load() + s.door.waiting.Load())
	}
	for p := range s.livePools {
		for _, l := range p.engine.Stats().Models {
			n += l.Used + l.Waiting
		}
	}
	return n
}

// Close ends the server at once; what waits is answered with draining.
func (s *Server) Close() error {
	s.draining.Store(true)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true // from here on no engine begins
	close(s.stop)
	pools := slices.Collect(s.livePools)
	s.mu.Unlock()
	s.ticking.Wait()
	if s.group != nil {
		s.group.close()
		s.held.close()
	}
	<-s.teller.done
	<-s.controllers.done
	for _, p := range pools {
		p.engine.Stop()
	}
	s.ending.Wait()
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	s.refusals.Close()
	s.overfull.log.Close()
	s.controllers.refusals.Close()
	s.metrics.unregister()
	return errors.Join(errs...)
}
