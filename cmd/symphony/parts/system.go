package parts

import (
	"context"
	"errors"

	"github.com/symphony-serving/symphony/backend"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/scheduler/server"
)

// System is a whole system in one process.
type System struct {
	Scheduler *server.Server
	Backend   *backend.Backend
	Client    *frontend.Client
	Web       *Web     // nil without HTTP
	Control   *Control // nil without a control plane
	Admin     string   // URL of the live picture; "": there is none

	end func() (context.Context, context.CancelFunc)
}

// Serve starts the parts. HTTP comes before the models, whose loading and measuring takes
// time: until they are there, it is live and not ready.
func (p *Process) Serve(ctx context.Context) (*System, error) {
	s := &System{end: p.DrainContext}
	var err error
	if s.Scheduler, err = p.Scheduler(); err != nil {
		return nil, cli.InUse(err, "--set scheduler.listen=inproc:scheduler,tcp:127.0.0.1:9001")
	}
	s.Scheduler.Expect(coming(p.cfg.Backend)) // before the first request
	s.Client, err = p.Client()
	err = cli.InUse(err, "--set frontend.listen=inproc:frontend")
	if err == nil && p.cfg.Control.Configured() {
		p.cfg.Control.Scheduler = config.Addresses{s.Scheduler.Addresses()[0]}
		s.Control, err = p.Control(ctx, true)
	}
	if err == nil && s.Control != nil && p.cfg.Frontend.Control == "" {
		p.cfg.Frontend.Control = "http://" + s.Control.Address
		p.admin.control.Store(&p.cfg.Frontend.Control)
	}
	s.Admin = p.AdminURL()
	if err == nil {
		s.Web, err = p.Ingress(s.Client)
	}
	if err == nil {
		s.Backend, err = p.Backend(ctx)
	}
	if err == nil {
		err = s.Client.WaitAdmitted(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Drain())
	}
	s.Backend.Joined(func() { s.Scheduler.Expect(nil) })
	for device, what := range s.Backend.Devices() {
		p.Log.Info().Str("pool", device).Msg(what)
	}
	return s, nil
}

// Drain ends the parts from the door inwards, so that what was admitted is
// still served.
func (s *System) Drain() error {
	ctx, cancel := s.end()
	defer cancel()
	var errs []error
	if s.Scheduler != nil {
		s.Scheduler.Hasten() // the parts before it wait for what it defers
	}
	if s.Control != nil { // first: nothing new is ordered of parts that end
		errs = append(errs, s.Control.Drain(ctx))
	}
	if s.Web != nil {
		errs = append(errs, s.Web.Drain(ctx))
	}
	if s.Client != nil {
		errs = append(errs, s.Client.Drain(ctx))
	}
	if s.Backend != nil {
		errs = append(errs, s.Backend.Drain(ctx))
	}
	if s.Scheduler != nil {
		errs = append(errs, s.Scheduler.Close())
	}
	return errors.Join(errs...)
}

// ServeLibrary is Serve without HTTP, with the scheduler on a port of its choice.
func (p *Process) ServeLibrary(ctx context.Context) (*System, error) {
	s := &System{end: p.DrainContext}
	var err error
	if s.Scheduler, err = p.Scheduler(); err != nil {
		return nil, err
	}
	at := s.Scheduler.Addresses()[0]
	p.cfg.Backend.Scheduler, p.cfg.Frontend.Scheduler = at, []string{at}
	if s.Backend, err = p.Backend(ctx); err == nil {
		s.Client, err = p.Client()
	}
	if err == nil {
		err = s.Client.WaitAdmitted(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Drain())
	}
	return s, nil
}
