package main

import (
	"errors"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
)

type backendCmd struct {
	cli.Flags  `embed:""`
	Scheduler  string `help:"Where the scheduler listens (backend.scheduler); of a group, of which one leads, all, with + between." placeholder:"tcp:HOST:PORT"`
	Repository string `help:"Folder of models (backend.repository)." placeholder:"DIR"`
	Name       string `help:"This backend's name: a restart under the same name gets the same GPU ids."`
	Metrics    string `help:"Address of /metrics." placeholder:"HOST:PORT"`
}

// Help says what goes on without the control plane, and what does not.
func (backendCmd) Help() string {
	return `Without a controller it keeps its models, and gets those back that it was ordered before
when it is started again, as long as the scheduler lives; a watched folder works as
always. What does not work: models that nobody has ordered yet.`
}

// Run executes batches until Ctrl-C.
func (c backendCmd) Run() error {
	cfg, err := c.Load(config.Set{Key: "backend.scheduler", Value: c.Scheduler}, config.Set{Key: "backend.repository", Value: c.Repository},
		config.Set{Key: "backend.name", Value: c.Name}, config.Set{Key: "metrics", Value: c.Metrics})
	if err != nil {
		return err
	}
	p, err := parts.New(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := cli.UntilSignal(p.Log)
	defer cancel()
	if err := errors.Join(p.ServeMetrics(), p.ServeAdmin()); err != nil {
		return err
	}
	b, err := p.Backend(ctx)
	if err != nil {
		return cli.Interrupted(ctx, err)
	}
	for device, what := range b.Devices() {
		p.Log.Info().Str("pool", device).Msg(what)
	}
	<-ctx.Done()
	limit, done := p.DrainContext()
	defer done()
	return b.Drain(limit)
}
