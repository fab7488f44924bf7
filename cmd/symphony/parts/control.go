package parts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/version"
	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/controller"
	"github.com/symphony-serving/symphony/scheduler/control/keda"
	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/partition"
	"github.com/symphony-serving/symphony/scheduler/control/store"
)

// Control is a running control plane: the store, a controller, and its API.
type Control struct {
	Address string // of the API
	KEDA    string // of the service for KEDA; empty: there is none

	p         *Process
	handler   *api.Handler
	server    *http.Server
	ended     chan struct{} // closed when the API has
	stop      context.CancelFunc
	opened    chan struct{}         // closed when the store is open, or will not be
	absent    atomic.Pointer[error] // why it is not yet
	keda      *keda.Server          // nil: there is none
	kedaEnded chan struct{}         // closed when it has

	// Set before opened is closed. Without an err there are both others.
	err        error
	controller *controller.Controller
	store      *store.Store
}

// Control opens the store, begins to campaign, and serves the API. An etcd elsewhere that is away
// is waited for aside: until it comes, the API says that it is away. beside: others are in this process,
// which it does not hold up for long; and where nobody said which port, and the default one is taken,
// another will do.
func (p *Process) Control(ctx context.Context, beside bool) (*Control, error) {
	c := p.cfg.Control
	cfg, err := c.Store()
	if err != nil {
		return nil, err
	}
	cfg.Logger, cfg.Metrics = p.Log, p.registry
	ln, err := net.Listen("tcp", c.HTTP) // before the store: a port in use is said at once
	if errors.Is(err, syscall.EADDRINUSE) && beside && c.HTTP == config.Default().Control.HTTP {
		p.Log.Warn().Str("address", c.HTTP).Msg("another control plane listens there: this one takes a free port; control.http sets one")
		ln, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, cli.InUse(fmt.Errorf("control.http: %w", err), "--set control.http=HOST:PORT")
	}
	forKEDA, err := p.listenKEDA()
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	k := &Control{Address: ln.Addr().String(), p: p, ended: make(chan struct{}), opened: make(chan struct{})}
	p.warnExposedHTTP(k.Address)
	k.handler = api.New(nil, api.Options{Token: p.cfg.Token, Absent: k.whyAbsent, Fault: func(call string, err error) {
		p.Log.Error().Str("call", call).Err(err).Msg("a call of the control plane's API failed")
	}})
	k.server = k.handler.Server()
	opening, stop := context.WithCancel(context.Background())
	k.stop = stop
	waits := make(chan struct{}, 1)
	cfg.Waiting = func(why error) {
		k.absent.Store(&why)
		select {
		case waits <- struct{}{}:
		default: // nobody hears it any more
		}
	}
	go func() {
		defer close(k.opened)
		k.err = k.open(opening, cfg)
	}()
	late := time.NewTimer(verdictMax)
	defer late.Stop()
	if !beside || len(c.Endpoints) == 0 {
		late.Stop()
	}
	select {
	case <-k.opened:
		err = k.err
	case <-waits:
	case <-late.C:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		stop()
		<-k.opened
		if forKEDA != nil {
			err = errors.Join(err, forKEDA.Close())
		}
		return nil, errors.Join(err, k.close(), ln.Close())
	}
	p.vitals.watch("controller", vital{unready: k.unready})
	go k.serve(ln)
	k.serveKEDA(forKEDA)
	go k.lament(opening)
	return k, nil
}

// verdictMax is how long other parts wait for an etcd elsewhere, or for what is wrong with it.
const verdictMax = time.Second

// lament says why the store was not opened after all.
func (k *Control) lament(opening context.Context) {
	if <-k.opened; k.err != nil && opening.Err() == nil {
		k.absent.Store(&k.err)
		k.p.Log.Error().Err(k.err).Msg("there is no control plane until this process is started again; what is served goes on")
	}
}

// open opens the store and starts the controller.
func (k *Control) open(ctx context.Context, cfg store.Config) error {
	c := k.p.cfg.Control
	s, err := store.Open(ctx, cfg)
	if err != nil {
		return fmt.Errorf("control: %w", err)
	}
	acting, err := k.p.scaling()
	if err != nil {
		return errors.Join(err, s.Close())
	}
	k.controller, err = controller.New(controller.Config{Name: controllerName(c.Name), Address: "http://" + k.Address, Version: version.Number, Store: s,
		Schedulers: c.Scheduler, Network: k.p.network, Token: k.p.cfg.Token, Plan: planning(c), Scaling: acting, Logger: k.p.Log, Metrics: k.p.registry})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	k.store = s
	k.handler.Set(k.controller)
	k.p.Log.Info().Str("address", "http://"+k.Address).Str("state", s.Where()).Msg("control plane: symphony model and symphony plan speak to it")
	return nil
}

// serve serves the API until Drain.
func (k *Control) serve(ln net.Listener) {
	defer close(k.ended)
	if err := k.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		k.p.Log.Error().Err(err).Msg("the control plane's API has ended; what is served goes on")
	}
}

// retryAbsent is what callers are told to wait while there is no store.
const retryAbsent = time.Second

// whyAbsent is what calls are answered while there is no store.
func (k *Control) whyAbsent() error {
	if why := k.absent.Load(); why != nil {
		return api.Away(retryAbsent, false, "%v", *why)
	}
	return api.Away(retryAbsent, false, "the control plane is about to start: try again")
}

// unready says why there is no store; one that went away later is said by each call.
func (k *Control) unready() error {
	select {
	case <-k.opened:
		return k.err
	default:
		return k.whyAbsent()
	}
}

// warnExposedHTTP tells of an API that others on the network reach without a secret.
func (p *Process) warnExposedHTTP(address string) { p.warnExposed("control.http", "tcp:"+address) }

func planning(c config.Control) lead.Config {
	cfg := lead.Config{SubClusters: c.SubClusters, RateMax: c.RateMax, MovesMax: c.Moves, Interval: c.Interval, Objective: partition.GPUs}
	if c.Objective == "balance" {
		cfg.Objective = partition.Balance
	}
	return cfg
}

// controllerName is unique by default.
func controllerName(name string) string {
	if name != "" {
		return name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "controller"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// Drain ends it: calls that are under way are answered, and another controller leads at once.
// What is served goes on.
func (k *Control) Drain(ctx context.Context) error {
	k.closeKEDA()
	k.stop()
	err := k.server.Shutdown(ctx)
	if err != nil { // calls that do not end
		err = k.server.Close()
	}
	<-k.ended
	<-k.opened
	return errors.Join(err, k.close())
}

// close ends controller and store, if there are any; opened is closed.
func (k *Control) close() error {
	if k.store == nil {
		return nil
	}
	return errors.Join(k.controller.Close(), k.store.Close())
}
