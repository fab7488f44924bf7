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
	"github.com/symphony-serving/symphony/frontend/grpcin"
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
	GRPC    string // where gRPC is served; "": nowhere
	grpc    *grpcin.Server
	failed  chan error
}

// Ingress opens the HTTP ingress on frontend.http, and its metrics and admin calls on
// addresses of their own where these are configured; and gRPC beside it.
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
	server, err := ingress.New(ingress.Config{Client: client, AccessLog: told.access, Tracer: told.tracer, Recorder: told.record, Repository: p.Models, Logger: p.Log, Metrics: p.registry, Version: version.Number, BodyMax: int64(c.BodyMax), Arena: int64(c.Arena), OutputsMax: int64(c.OutputsMax),
		GiveUp: func() { _ = client.Close() }, MetricsApart: p.cfg.Metrics != "", AdminApart: c.Admin != "", SharedMemory: c.Shared,
		Connections: c.Connections, ItemsOpen: c.MaxInFlight, FullStatus: c.FullStatus,
		HeaderTimeout: c.HeaderTime.Std(), BodyTimeout: c.BodyTime.Std(), BodyRate: bodyRate(c)})
	if err != nil {
		return nil, errors.Join(err, told.close())
	}
	w := &Web{server: server, told: told, failed: make(chan error, 4)}
	w.Address, err = p.open(w, "frontend.http", "--http", c.HTTP, server.Serve)
	if err == nil && p.cfg.Metrics != "" {
		w.Metrics, err = p.open(w, "metrics", "--metrics", p.cfg.Metrics, server.ServeMetrics)
	}
	if err == nil && c.Admin != "" {
		w.Admin, err = p.open(w, "frontend.admin", "--set frontend.admin=HOST:PORT", c.Admin, server.ServeAdmin)
	}
	if err == nil {
		err = p.openGRPC(w, client)
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// openGRPC serves gRPC at its address.
func (p *Process) openGRPC(w *Web, client *frontend.Client) error {
	c := p.cfg.Frontend
	address, asked := c.GRPCAddress()
	if address == "" {
		return nil
	}
	ln, err := net.Listen("tcp", address)
	if err != nil && !asked {
		p.Log.Warn().Err(err).Msg("gRPC is not served: set frontend.grpc to another address, or to nothing")
		return nil
	}
	if err != nil {
		return cli.InUse(fmt.Errorf("frontend.grpc: %w", err), "--grpc")
	}
	w.grpc, err = grpcin.New(grpcin.Config{Web: w.server, Client: client, Logger: p.Log, Metrics: p.registry, AdminApart: c.Admin != "", MetricsApart: p.cfg.Metrics != "",
		MessageMax: min(int(c.BodyMax), grpcin.MessageMost), UnsentMax: int64(c.UnsentMax), Connections: c.Connections, GreetTime: c.HeaderTime.Std(), BodyTime: c.BodyTime.Std()})
	if err != nil {
		ln.Close()
		return err
	}
	go func() { w.failed <- w.grpc.Serve(ln) }()
	w.GRPC = ln.Addr().String()
	p.Log.Info().Str("address", w.GRPC).Str("key", "frontend.grpc").Msg("gRPC ingress listens")
	return nil
}

// close ends at once.
func (w *Web) close() error {
	if w.grpc != nil {
		return errors.Join(w.grpc.Close(), w.server.Close(), w.told.close())
	}
	return errors.Join(w.server.Close(), w.told.close())
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
		return errors.Join(errors.New("the ingress ended"), err)
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
	if w.grpc == nil {
		return errors.Join(w.server.Drain(ctx), w.told.close())
	}
	calls := make(chan error, 1)
	go func() { calls <- w.grpc.Drain(ctx) }() // what comes meanwhile HTTP's drain refuses for both
	err := w.server.Drain(ctx)
	return errors.Join(err, <-calls, w.told.close())
}
