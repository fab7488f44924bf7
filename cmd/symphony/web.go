package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/ingress"
)

// web is a running HTTP ingress.
type web struct {
	server  *ingress.Server
	address string
	failed  chan error
}

// ingress opens the HTTP ingress on frontend.http.
func (p *parts) ingress(client *frontend.Client) (*web, error) {
	c := p.cfg.Frontend
	server, err := ingress.New(ingress.Config{Client: client, Logger: p.log, Metrics: p.registry, Version: version, BodyMax: int64(c.BodyMax), Arena: int64(c.Arena),
		Connections: c.Connections, FullStatus: c.FullStatus,
		HeaderTimeout: c.HeaderTime.Std(), BodyTimeout: c.BodyTime.Std()})
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", c.HTTP)
	if err != nil {
		return nil, inUse(fmt.Errorf("frontend.http: %w", err), "--http")
	}
	w := &web{server: server, address: ln.Addr().String(), failed: make(chan error, 1)}
	go func() { w.failed <- w.server.Serve(ln) }()
	p.log.Info().Str("address", "http://"+w.address).Msg("HTTP ingress listens")
	return w, nil
}

// wait blocks until ctx ends or the ingress fails.
func (w *web) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-w.failed:
		return errors.Join(errors.New("the HTTP ingress ended"), err)
	}
}

// drain refuses new requests and waits for the open ones.
func (w *web) drain(ctx context.Context) error { return w.server.Drain(ctx) }
