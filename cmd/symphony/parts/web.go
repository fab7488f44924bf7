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
)

// Web is a running HTTP ingress.
type Web struct {
	server  *ingress.Server
	Address string
	failed  chan error
}

// Ingress opens the HTTP ingress on frontend.http.
func (p *Process) Ingress(client *frontend.Client) (*Web, error) {
	c := p.cfg.Frontend
	server, err := ingress.New(ingress.Config{Client: client, Logger: p.Log, Metrics: p.registry, Version: version.Number, BodyMax: int64(c.BodyMax), Arena: int64(c.Arena),
		Connections: c.Connections, FullStatus: c.FullStatus,
		HeaderTimeout: c.HeaderTime.Std(), BodyTimeout: c.BodyTime.Std(), BodyRate: bodyRate(c)})
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", c.HTTP)
	if err != nil {
		return nil, cli.InUse(fmt.Errorf("frontend.http: %w", err), "--http")
	}
	w := &Web{server: server, Address: ln.Addr().String(), failed: make(chan error, 1)}
	go func() { w.failed <- w.server.Serve(ln) }()
	p.Log.Info().Str("address", "http://"+w.Address).Msg("HTTP ingress listens")
	return w, nil
}

// bodyRate is the ingress's, to which 0 means its default.
func bodyRate(c config.Frontend) int64 {
	if c.BodyRate == 0 {
		return -1
	}
	return int64(c.BodyRate)
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

// Drain refuses new requests and waits for the open ones.
func (w *Web) Drain(ctx context.Context) error { return w.server.Drain(ctx) }
