package parts

import (
	"fmt"

	"github.com/symphony-serving/symphony/cmd/symphony/version"
	"github.com/symphony-serving/symphony/frontend/accesslog"
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

func closeLog(l *accesslog.Log) error {
	if l == nil {
		return nil
	}
	return l.Close()
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

func closeTracer(t *tracing.Tracer) {
	if t != nil {
		t.Close()
	}
}
