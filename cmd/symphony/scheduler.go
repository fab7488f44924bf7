package main

import (
	"errors"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

type schedulerCmd struct {
	common  `embed:""`
	Listen  string `help:"Addresses to listen on, with commas between (scheduler.listen)." placeholder:"tcp:HOST:PORT"`
	Metrics string `help:"Address of /metrics." placeholder:"HOST:PORT"`
}

// Run schedules until Ctrl-C.
func (c schedulerCmd) Run() error {
	cfg, err := c.load(config.Set{Key: "scheduler.listen", Value: c.Listen}, config.Set{Key: "metrics", Value: c.Metrics})
	if err != nil {
		return err
	}
	cfg.Backend.Pools = nil // GOMAXPROCS: only the scheduler's threads
	p, err := newParts(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := untilSignal(p.log)
	defer cancel()
	if err := p.serveMetrics(); err != nil {
		return err
	}
	s, err := p.scheduler()
	if err != nil {
		return inUse(err, "--listen")
	}
	<-ctx.Done()
	limit, done := drainContext(cfg)
	defer done()
	return errors.Join(s.Drain(limit), s.Close())
}
