package parts

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/version"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/ingress"
	control "github.com/symphony-serving/symphony/scheduler/control/client"
)

// Web is a running HTTP ingress.
type Web struct {
	server  *ingress.Server
	told    accounts
	Address string
	Metrics string // where /metrics is; "": at Address
	Admin   string // where admin calls are; "": at Address
	failed  chan error
}

// Ingress opens the HTTP ingress on frontend.http, and its metrics and admin calls on
// addresses of their own where these are configured.
func (p *Process) Ingress(client *frontend.Client) (*Web, error) {
	c := p.cfg.Frontend
	if c.Control != "" && p.Models == nil {
		plane, err := control.New(control.Options{URL: c.Control, Token: p.cfg.Token})
		if err != nil {
			return nil, fmt.Errorf("frontend.control: %w", err)
		}
		p.Models = Repository(plane)
	}
	told, err := p.accounts()
	if err != nil {
		return nil, err
	}
	server, err := ingress.New(ingress.Config{Client: client, AccessLog: told.access, Tracer: told.tracer, Recorder: told.record, Repository: p.Models, Logger: p.Log, Metrics: p.registry, Version: version.Number, BodyMax: int64(c.BodyMax), Arena: int64(c.Arena),
		GiveUp: func() { _ = client.Close() }, MetricsApart: p.cfg.Metrics != "", AdminApart: c.Admin != "",
		Connections: c.Connections, FullStatus: c.FullStatus,
		HeaderTimeout: c.HeaderTime.Std(), BodyTimeout: c.BodyTime.Std(), BodyRate: bodyRate(c)})
	if err != nil {
		return nil, errors.Join(err, told.close())
	}
	w := &Web{server: server, told: told, failed: make(chan error, 3)}
	w.Address, err = p.open(w, "frontend.http", "--http", c.HTTP, server.Serve)
	if err == nil && p.cfg.Metrics != "" {
		w.Metrics, err = p.open(w, "metrics", "--metrics", p.cfg.Metrics, server.ServeMetrics)
	}
	if err == nil && c.Admin != "" {
		w.Admin, err = p.open(w, "frontend.admin", "--set frontend.admin=HOST:PORT", c.Admin, server.ServeAdmin)
	}
	if err != nil {
		return nil, errors.Join(err, server.Close(), told.close())
	}
	return w, nil
}

// open serves at one of the ingress's addresses.
func (p *Process) open(w *Web, key, flag, address string, serve func(net.Listener) error) (string, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return "", cli.InUse(fmt.Errorf("%s: %w", key, err), flag)
	}
	go func() { w.failed <- serve(ln) }()
	p.Log.Info().Str("address", "http://"+ln.Addr().String()).Str("key", key).Msg("HTTP ingress listens")
	return ln.Addr().String(), nil
}

// Wait blocks until ctx ends or the ingress fails.
func (w *Web) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-w.failed:
		return errors.Join(errors.New("the HTTP ingress ended"), err)
	}
}

// bodyRate is the ingress's, to which 0 means its default.
func bodyRate(c config.Frontend) int64 {
	if c.BodyRate == 0 {
		return -1
	}
	return int64(c.BodyRate)
}

// Drain refuses new requests and waits for the open ones.
func (w *Web) Drain(ctx context.Context) error {
	return errors.Join(w.server.Drain(ctx), w.told.close())
}
