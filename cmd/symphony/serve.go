package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
)

type serveCmd struct {
	cli.Flags  `embed:""`
	HTTP       string `help:"Address of the HTTP ingress (frontend.http)." placeholder:"HOST:PORT"`
	Repository string `help:"Folder of models (backend.repository)." placeholder:"DIR"`
	Samples    string `help:"When ready, send the images of this folder (with labels.csv) and print what comes back." placeholder:"DIR"`
	Model      string `help:"The model that gets the samples." default:"digits-cnn"`
	Once       bool   `help:"End after the samples, with status 0 if at least 19 of 20 are right."`
}

// Run serves with all parts in one process until Ctrl-C.
func (c serveCmd) Run() error {
	cfg, err := c.Load(config.Set{Key: "frontend.http", Value: c.HTTP}, config.Set{Key: "backend.repository", Value: c.Repository})
	if err != nil {
		return err
	}
	if c.Once && c.Samples == "" {
		return errors.New("--once needs --samples: there is nothing to do once")
	}
	p, err := parts.New(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := cli.UntilSignal(p.Log)
	defer cancel()
	s, err := p.Serve(ctx)
	if err != nil {
		return err
	}
	if c.Samples != "" {
		err = samples(ctx, s, c.Samples, c.Model)
	}
	if err == nil && !c.Once {
		err = s.Web.Wait(ctx)
	}
	return errors.Join(err, s.Drain())
}

// samples waits until the model is ready and shows it at work.
func samples(ctx context.Context, s *parts.System, dir, model string) error {
	if err := s.Client.WaitReady(ctx, model); err != nil {
		return fmt.Errorf("model %s: %w", model, err)
	}
	right, total, err := showSamples(ctx, os.Stdout, "http://"+s.Web.Address, model, dir)
	if err != nil {
		return err
	}
	if right*20 < total*19 {
		return fmt.Errorf("only %d of %d samples are right", right, total)
	}
	return nil
}
