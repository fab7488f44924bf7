package main

import (
	"errors"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
)

type schedulerCmd struct {
	cli.Flags `embed:""`
	Listen    string `help:"Addresses to listen on, with commas between (scheduler.listen)." placeholder:"tcp:HOST:PORT"`
	Metrics   string `help:"Address of /metrics." placeholder:"HOST:PORT"`
}

// Help says what goes on without the control plane, and what does not.
func (schedulerCmd) Help() string {
	return `Without a controller it goes on with what it was told last: no model is added, moved or
removed by symphony model, and GPUs stay where they are. It says so in one line and by
symphony_scheduler_controllers. Started again without one, it learns from the backends
which models go where; SLOs and shares that were set are the controller's to tell again.`
}

// Run schedules until Ctrl-C.
func (c schedulerCmd) Run() error {
	cfg, err := c.Load(config.Set{Key: "scheduler.listen", Value: c.Listen}, config.Set{Key: "metrics", Value: c.Metrics})
	if err != nil {
		return err
	}
	cfg.Backend.Pools = nil // GOMAXPROCS: only the scheduler's threads
	p, err := parts.New(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := cli.UntilSignal(p.Log)
	defer cancel()
	if err := p.ServeMetrics(); err != nil {
		return err
	}
	s, err := p.Scheduler()
	if err != nil {
		return cli.InUse(err, "--listen")
	}
	<-ctx.Done()
	limit, done := p.DrainContext()
	defer done()
	return errors.Join(s.Drain(limit), s.Close())
}
