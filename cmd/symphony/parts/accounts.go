package parts

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/cmd/symphony/version"
	"github.com/symphony-serving/symphony/frontend/accesslog"
	"github.com/symphony-serving/symphony/frontend/recording"
	"github.com/symphony-serving/symphony/frontend/tracing"
)

// accessLog opens the configured one; nil: there is none.
func (p *Process) accessLog() (*accesslog.Log, error) {
	c := p.cfg.Frontend
	if c.AccessLog == "" {
		return nil, nil
	}
	l, err := accesslog.Open(accesslog.Config{Path: c.AccessLog, Share: c.AccessShare, Rate: c.AccessRate, Metrics: p.registry, Failed: func(err error) {
		if err == nil {
			p.Log.Info().Str("frontend.access_log", c.AccessLog).Msg("the access log is written again")
			return
		}
		p.Log.Warn().Err(err).Str("frontend.access_log", c.AccessLog).Msg("the access log cannot be written: its lines are lost until it can be; requests are served")
	}})
	if err != nil {
		return nil, fmt.Errorf("frontend.access_log: %w", err)
	}
	return l, nil
}

// tracer makes the configured one; nil: there are no traces.
func (p *Process) tracer() (*tracing.Tracer, error) {
	c := p.cfg.Traces
	if c.Endpoint == "" {
		return nil, nil
	}
	name := p.cfg.Frontend.Name
	if name == "" {
		name = backendName("") // the host's and the process's number: as good for a frontend
	}
	t, err := tracing.Open(tracing.Config{Endpoint: c.Endpoint, Headers: c.Headers, Share: c.Share, Rate: c.Rate, Name: name, Version: version.Number, Metrics: p.registry, Failed: func(err error) {
		if err == nil {
			p.Log.Info().Str("traces.endpoint", c.Endpoint).Msg("traces: the collector takes them again")
			return
		}
		p.Log.Warn().Err(err).Str("traces.endpoint", c.Endpoint).Msg("traces are lost until the collector takes them; requests are served")
	}})
	if err != nil {
		return nil, fmt.Errorf("traces.endpoint: %w", err)
	}
	p.Log.Info().Str("traces.endpoint", c.Endpoint).Float64("share", c.Share).Int("rate", c.Rate).Msg("traces: sampled requests are told to this collector")
	return t, nil
}

// recorder begins the configured recording; nil: there is none.
func (p *Process) recorder() (*recording.Recorder, error) {
	c := p.cfg.Frontend
	if c.Record == "" {
		return nil, nil
	}
	r, err := recording.Open(recording.Config{Path: c.Record, Max: int64(c.RecordMax), Metrics: p.registry, Failed: func(err error) {
		switch {
		case err == nil:
			p.Log.Info().Str("frontend.record", c.Record).Msg("the recording is written again")
		case errors.Is(err, recording.ErrFull):
			p.Log.Warn().Str("frontend.record", c.Record).Int64("frontend.record_max", int64(c.RecordMax)).Msg("the recording has reached its size and ends; requests are served")
		default:
			p.Log.Warn().Err(err).Str("frontend.record", c.Record).Msg("the recording cannot be written: requests are missing in it until it can be; they are served")
		}
	}})
	if err != nil {
		return nil, fmt.Errorf("frontend.record: %w", err)
	}
	p.Log.Info().Str("frontend.record", c.Record).Msg("inferences are recorded: when, of which model, with how much time; not their inputs")
	return r, nil
}

// accounts are what an ingress tells of its requests; each may be nil.
type accounts struct {
	access *accesslog.Log
	tracer *tracing.Tracer
	record *recording.Recorder
}

func (p *Process) accounts() (a accounts, err error) {
	if a.access, err = p.accessLog(); err == nil {
		a.tracer, err = p.tracer()
	}
	if err == nil {
		a.record, err = p.recorder()
	}
	if err != nil {
		err = errors.Join(err, a.close())
	}
	return a, err
}

// close writes what there is to tell. The tracer comes last: it may wait for its collector, files need not.
func (a *accounts) close() error {
	var errs []error
	if a.access != nil {
		errs = append(errs, a.access.Close())
	}
	if a.record != nil {
		errs = append(errs, a.record.Close())
	}
	if a.tracer != nil {
		a.tracer.Close()
	}
	return errors.Join(errs...)
}
