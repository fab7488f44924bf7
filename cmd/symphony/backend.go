package main

import (
	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

type backendCmd struct {
	common     `embed:""`
	Scheduler  string `help:"Where the scheduler listens (backend.scheduler)." placeholder:"tcp:HOST:PORT"`
	Repository string `help:"Folder of models (backend.repository)." placeholder:"DIR"`
	Name       string `help:"This backend's name: a restart under the same name gets the same GPU ids."`
	Metrics    string `help:"Address of /metrics." placeholder:"HOST:PORT"`
}

// Run executes batches until Ctrl-C.
func (c backendCmd) Run() error {
	cfg, err := c.load(config.Set{Key: "backend.scheduler", Value: c.Scheduler}, config.Set{Key: "backend.repository", Value: c.Repository},
		config.Set{Key: "backend.name", Value: c.Name}, config.Set{Key: "metrics", Value: c.Metrics})
	if err != nil {
		return err
	}
	p, err := newParts(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := untilSignal(p.log)
	defer cancel()
	if err := p.serveMetrics(); err != nil {
		return err
	}
	b, err := p.backend(ctx)
	if err != nil {
		return err
	}
	for device, what := range b.Devices() {
		p.log.Info().Str("pool", device).Msg(what)
	}
	<-ctx.Done()
	limit, done := drainContext(cfg)
	defer done()
	return b.Drain(limit)
}
