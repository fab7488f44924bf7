package parts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/version"
	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/controller"
	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/partition"
	"github.com/symphony-serving/symphony/scheduler/control/store"
)

// Control is a running control plane: the store, a controller, and its API.
type Control struct {
	Address    string // of the API
	Controller *controller.Controller

	store  *store.Store
	server *http.Server
	ended  chan struct{}
}

// Control opens the store, begins to campaign, and serves the API. anyPort: where nobody said
// which port, and the default one is taken, another will do.
func (p *Process) Control(ctx context.Context, anyPort bool) (*Control, error) {
	c := p.cfg.Control
	cfg, err := c.Store()
	if err != nil {
		return nil, err
	}
	cfg.Logger, cfg.Metrics = p.Log, p.registry
	k := &Control{}
	ln, err := net.Listen("tcp", c.HTTP) // before the store: a port in use is said at once
	if errors.Is(err, syscall.EADDRINUSE) && anyPort && c.HTTP == config.Default().Control.HTTP {
		p.Log.Warn().Str("address", c.HTTP).Msg("another control plane listens there: this one takes a free port; control.http sets one")
		ln, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, cli.InUse(fmt.Errorf("control.http: %w", err), "--set control.http=HOST:PORT")
	}
	k.Address = ln.Addr().String()
	if k.store, err = store.Open(ctx, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("control: %w", err), ln.Close())
	}
	k.Controller, err = controller.New(controller.Config{Name: controllerName(c.Name), Address: "http://" + k.Address, Version: version.Number, Store: k.store,
		Schedulers: c.Scheduler, Network: p.network, Token: p.cfg.Token, Plan: planning(c), Logger: p.Log, Metrics: p.registry})
	if err != nil {
		return nil, errors.Join(err, k.store.Close(), ln.Close())
	}
	p.warnExposedHTTP(k.Address)
	k.server = api.New(k.Controller, api.Options{Token: p.cfg.Token, Fault: func(call string, err error) {
		p.Log.Error().Str("call", call).Err(err).Msg("a call of the control plane's API failed")
	}}).Server()
	k.ended = make(chan struct{})
	go func() {
		defer close(k.ended)
		if err := k.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			p.Log.Error().Err(err).Msg("the control plane's API has ended; what is served goes on")
		}
	}()
	p.Log.Info().Str("address", "http://"+k.Address).Str("state", k.store.Where()).Msg("control plane: symphony model and symphony plan speak to it")
	return k, nil
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
	err := k.server.Shutdown(ctx)
	if err != nil { // calls that do not end
		err = k.server.Close()
	}
	<-k.ended
	return errors.Join(err, k.Controller.Close(), k.store.Close())
}
