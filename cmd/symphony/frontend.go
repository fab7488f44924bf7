package main

import (
	"errors"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

type frontendCmd struct {
	common    `embed:""`
	Scheduler string `help:"Where the scheduler listens (frontend.scheduler)." placeholder:"tcp:HOST:PORT"`
	HTTP      string `help:"Address of the HTTP ingress (frontend.http)." placeholder:"HOST:PORT"`
	Listen    string `help:"Where backends read inputs (frontend.listen)." placeholder:"tcp:HOST:PORT"`
	Name      string `help:"This frontend's name, for logs."`
}

// Run serves HTTP until Ctrl-C. It waits for its scheduler as long as it takes.
func (c frontendCmd) Run() error {
	cfg, err := c.load(config.Set{Key: "frontend.scheduler", Value: c.Scheduler}, config.Set{Key: "frontend.http", Value: c.HTTP},
		config.Set{Key: "frontend.listen", Value: c.Listen}, config.Set{Key: "frontend.name", Value: c.Name})
	if err != nil {
		return err
	}
	if cfg.Frontend.HTTP == "" {
		return errors.New("frontend.http is empty: a frontend process without HTTP has nothing to do; applications embed the Go package frontend")
	}
	p, err := newParts(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := untilSignal(p.log)
	defer cancel()
	client, err := p.client(ctx)
	if err != nil {
		return inUse(err, "--listen")
	}
	w, err := p.ingress(client)
	if err == nil {
		err = w.wait(ctx)
	}
	limit, done := drainContext(cfg)
	defer done()
	if w != nil {
		err = errors.Join(err, w.drain(limit))
	}
	return errors.Join(err, client.Drain(limit))
}
