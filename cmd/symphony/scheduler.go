package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
)

type schedulerCmd struct {
	cli.Flags `embed:""`
	Do        string `arg:"" optional:"" help:"promote or step-down: have the scheduler of a group at ADDRESS lead, or hand over to a spare." placeholder:"promote|step-down"`
	Address   string `arg:"" optional:"" help:"Where that scheduler listens." placeholder:"ADDRESS"`
	Listen    string `help:"Addresses to listen on, with commas between (scheduler.listen)." placeholder:"tcp:HOST:PORT"`
	Standby   string `help:"The schedulers of the group that this one belongs to, with commas between: one leads, the others are hot spares (scheduler.standby)." placeholder:"tcp:HOST:PORT"`
	Metrics   string `help:"Address of /metrics." placeholder:"HOST:PORT"`
	Admin     string `help:"Address of the live picture of the schedule, /ui, and of symphony top and explain (admin)." placeholder:"HOST:PORT"`
}

// Help says what goes on without the control plane, and what does not.
func (schedulerCmd) Help() string {
	return `Without a controller it goes on with what it was told last: no model is added, moved or
removed by symphony model, and GPUs stay where they are. It says so in one line and by
symphony_scheduler_controllers. Started again without one, it learns from the backends
which models go where; SLOs and shares that were set are the controller's to tell again.

Hot spares: start several with the same --standby A,B,C, and give frontends, backends and the
controller the group as --scheduler A+B+C. One leads. Should it die or hang, a spare takes
over within milliseconds, and frontends send it what is open. Ctrl-C of the one that leads hands over
first, and so does symphony scheduler step-down ADDRESS; symphony scheduler promote ADDRESS has
that one lead. symphony_scheduler_leads says which one does.`
}

// Run schedules until Ctrl-C, or tells another scheduler what to do.
func (c schedulerCmd) Run() error {
	if c.Do != "" {
		return c.tell()
	}
	cfg, err := c.Load(config.Set{Key: "scheduler.listen", Value: c.Listen}, config.Set{Key: "scheduler.standby", Value: c.Standby}, config.Set{Key: "metrics", Value: c.Metrics}, config.Set{Key: "admin", Value: c.Admin})
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
	if err := p.ServePicture(false); err != nil {
		return err
	}
	defer p.CloseAdmin()
	if len(cfg.Scheduler.Standby) > 0 {
		return inGroup(ctx, p)
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

// inGroup schedules as a member of a group.
func inGroup(ctx context.Context, p *parts.Process) error {
	s, err := p.Scheduling()
	if err != nil {
		return cli.InUse(err, "--listen")
	}
	select {
	case <-ctx.Done():
	case <-s.Done():
	}
	limit, done := p.DrainContext()
	defer done()
	return s.Drain(limit)
}

// tell has the scheduler at an address lead, or hand over.
func (c schedulerCmd) tell() error {
	if c.Do != "promote" && c.Do != "step-down" {
		return fmt.Errorf("%q: write promote ADDRESS or step-down ADDRESS, or neither to run a scheduler", c.Do)
	}
	if c.Address == "" {
		return fmt.Errorf("%s: of which scheduler? Give its address, for example tcp:127.0.0.1:9000", c.Do)
	}
	if c.Listen+c.Standby+c.Metrics+c.Admin != "" {
		return fmt.Errorf("%s is told to a scheduler that runs: --listen, --standby, --metrics and --admin are for starting one", c.Do)
	}
	cfg, err := c.Load()
	if err != nil {
		return err
	}
	said, err := parts.TellScheduler(cfg, c.Address, c.Do)
	if err != nil {
		return err
	}
	fmt.Println(said)
	return nil
}
