package main

import (
	"errors"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
)

type controllerCmd struct {
	cli.Flags `embed:""`
	Scheduler string `help:"Where the scheduler listens; several with commas between (control.scheduler; default tcp:127.0.0.1:9000)." placeholder:"tcp:HOST:PORT"`
	HTTP      string `help:"Address of the API (control.http; default 127.0.0.1:8002)." placeholder:"HOST:PORT"`
	Endpoints string `help:"The etcd cluster's, with commas between (control.endpoints)." placeholder:"https://HOST:2379"`
	Data      string `help:"Folder of an etcd in this process instead (control.data)." placeholder:"DIR"`
	Name      string `help:"This controller's name, for people (control.name; default the host's and the process's number)." placeholder:"NAME"`
	Metrics   string `help:"Address of /metrics (metrics); none if not given." placeholder:"HOST:PORT"`
}

// Help says what goes on without the control plane, and what does not.
func (controllerCmd) Help() string {
	return `Without a controller, or while its etcd is away: all that is served goes on, with the
models, versions and sub-clusters of the last plan. A backend that is started again gets
its models back as long as the scheduler lives; a scheduler that is started again learns
from the backends which models go where. What does not work: symphony model and symphony
plan (but for what they read, while the controller runs), the ingress's load and unload,
and plans: new models wait, GPUs that come join no sub-cluster but their old one.
An etcd that is away at the start is waited for; until it comes the API answers 503 with the reason.

Several schedulers (--scheduler A,B; frontends the same): each has the backends that dial
it, and plans of its own; a model is at one of them, where the least is needed per GPU.
One that is away keeps its models, and the others go on. When needs are far apart for long,
models move, and are served all the while. Name the scheduler that was the only one first.`
}

// Run keeps the catalogue and the plans until Ctrl-C. What is served goes on without it.
func (c controllerCmd) Run() error {
	cfg, err := c.Load(config.Set{Key: "control.scheduler", Value: c.Scheduler}, config.Set{Key: "control.http", Value: c.HTTP}, config.Set{Key: "control.endpoints", Value: c.Endpoints},
		config.Set{Key: "control.data", Value: c.Data}, config.Set{Key: "control.name", Value: c.Name}, config.Set{Key: "metrics", Value: c.Metrics})
	if err != nil {
		return err
	}
	if !cfg.Control.Configured() {
		return errors.New("nothing says where the control plane keeps its state: give --endpoints https://HOST:2379 of an etcd cluster, or --data DIR for an etcd in this process")
	}
	cfg.Backend.Pools = nil // GOMAXPROCS: none of a backend's threads
	p, err := parts.New(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := cli.UntilSignal(p.Log)
	defer cancel()
	if err := errors.Join(p.ServeMetrics(), p.ServeAdmin()); err != nil {
		return err
	}
	k, err := p.Control(ctx, false)
	if err != nil {
		return cli.Interrupted(ctx, err)
	}
	<-ctx.Done()
	limit, done := p.DrainContext()
	defer done()
	return k.Drain(limit)
}
