package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/symphony-serving/symphony/backend"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/scheduler/control"
)

type serveCmd struct {
	common     `embed:""`
	HTTP       string `help:"Address of the HTTP ingress (frontend.http)." placeholder:"HOST:PORT"`
	Repository string `help:"Folder of models (backend.repository)." placeholder:"DIR"`
	Samples    string `help:"When ready, send the images of this folder (with labels.csv) and print what comes back." placeholder:"DIR"`
	Model      string `help:"The model that gets the samples." default:"digits-cnn"`
	Once       bool   `help:"End after the samples, with status 0 if at least 19 of 20 are right."`
}

// Run serves with all parts in one process until Ctrl-C.
func (c serveCmd) Run() error {
	cfg, err := c.load(config.Set{Key: "frontend.http", Value: c.HTTP}, config.Set{Key: "backend.repository", Value: c.Repository})
	if err != nil {
		return err
	}
	if c.Once && c.Samples == "" {
		return errors.New("--once needs --samples: there is nothing to do once")
	}
	p, err := newParts(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := untilSignal(p.log)
	defer cancel()
	s, err := p.serve(ctx)
	if err != nil {
		return err
	}
	if c.Samples != "" {
		err = s.samples(ctx, c.Samples, c.Model)
	}
	if err == nil && !c.Once {
		err = s.web.wait(ctx)
	}
	return errors.Join(err, s.drain(cfg))
}

// served is a whole system in one process.
type served struct {
	scheduler *control.Server
	backend   *backend.Backend
	client    *frontend.Client
	web       *web
}

// serve starts the parts in the order in which they need each other.
func (p *parts) serve(ctx context.Context) (*served, error) {
	s := &served{}
	var err error
	if s.scheduler, err = p.scheduler(); err != nil {
		return nil, inUse(err, "--set scheduler.listen=inproc:scheduler,tcp:127.0.0.1:9001")
	}
	if s.backend, err = p.backend(ctx); err == nil {
		s.client, err = p.client(ctx)
		if err = inUse(err, "--set frontend.listen=inproc:frontend"); err == nil {
			s.web, err = p.ingress(s.client)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.drain(p.cfg))
	}
	for device, what := range s.backend.Devices() {
		p.log.Info().Str("pool", device).Msg(what)
	}
	return s, nil
}

// drain ends the parts from the door inwards, so that what was admitted is
// still served.
func (s *served) drain(cfg config.Config) error {
	ctx, cancel := drainContext(cfg)
	defer cancel()
	var errs []error
	if s.web != nil {
		errs = append(errs, s.web.drain(ctx))
	}
	if s.client != nil {
		errs = append(errs, s.client.Drain(ctx))
	}
	if s.backend != nil {
		errs = append(errs, s.backend.Drain(ctx))
	}
	if s.scheduler != nil {
		errs = append(errs, s.scheduler.Close())
	}
	return errors.Join(errs...)
}

// samples waits until the model is ready and shows it at work.
func (s *served) samples(ctx context.Context, dir, model string) error {
	if err := s.client.WaitReady(ctx, model); err != nil {
		return fmt.Errorf("model %s: %w", model, err)
	}
	right, total, err := showSamples(ctx, os.Stdout, "http://"+s.web.address, model, dir)
	if err != nil {
		return err
	}
	if right*20 < total*19 {
		return fmt.Errorf("only %d of %d samples are right", right, total)
	}
	return nil
}
