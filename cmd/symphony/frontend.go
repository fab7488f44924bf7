package main

import (
	"errors"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
)

type frontendCmd struct {
	cli.Flags `embed:""`
	Scheduler string `help:"Where the scheduler listens (frontend.scheduler); of several all, with commas; of a group, of which one leads, with + between." placeholder:"tcp:HOST:PORT,..."`
	HTTP      string `help:"Address of the HTTP ingress (frontend.http)." placeholder:"HOST:PORT"`
	GRPC      string `name:"grpc" help:"Address of the same over gRPC (frontend.grpc); by default port 8001 beside HTTP's 8000." placeholder:"HOST:PORT"`
	Listen    string `help:"Where backends read inputs (frontend.listen)." placeholder:"tcp:HOST:PORT"`
	Advertise string `help:"That address as backends reach it, where it is another (frontend.advertise)." placeholder:"tcp:HOST:PORT"`
	Metrics   string `help:"Address of /metrics and statistics; none: that of HTTP." placeholder:"HOST:PORT"`
	Name      string `help:"This frontend's name, for logs."`
}

// Help says what goes on without the control plane, and what does not.
func (frontendCmd) Help() string {
	return `Of several schedulers each serves models of its own: requests go to the one that has their model. It is
ready with one of them, and the models of one that is away are unavailable until it is back. A+B is a group, of which one leads and the others are spares:
requests go to the one that leads, and what is open when another takes over is sent again by itself.

Without a controller requests are served as before, by the versions and shares told last.
What does not work: the calls that load and unload models (frontend.control).`
}

// Run serves HTTP until Ctrl-C. It waits for its schedulers as long as it takes, and is
// live and not ready until there is one.
func (c frontendCmd) Run() error {
	cfg, err := c.Load(config.Set{Key: "frontend.scheduler", Value: c.Scheduler}, config.Set{Key: "frontend.http", Value: c.HTTP}, config.Set{Key: "frontend.grpc", Value: c.GRPC},
		config.Set{Key: "frontend.listen", Value: c.Listen}, config.Set{Key: "frontend.advertise", Value: c.Advertise},
		config.Set{Key: "frontend.name", Value: c.Name}, config.Set{Key: "metrics", Value: c.Metrics})
	if err != nil {
		return err
	}
	if cfg.Frontend.HTTP == "" {
		return errors.New("frontend.http is empty: a frontend process without HTTP has nothing to do; applications embed the Go package frontend")
	}
	p, err := parts.New(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := cli.UntilSignal(p.Log)
	defer cancel()
	if err := p.ServeAdmin(); err != nil {
		return err
	}
	client, err := p.Client()
	if err != nil {
		return cli.InUse(err, "--listen")
	}
	w, err := p.Ingress(client)
	if err == nil {
		err = w.Wait(ctx)
	}
	limit, done := p.DrainContext()
	defer done()
	if w != nil {
		err = errors.Join(err, w.Drain(limit))
	}
	return errors.Join(err, client.Drain(limit))
}
