package main

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serveMetrics answers /metrics for processes without the HTTP ingress.
func (p *parts) serveMetrics() error {
	if p.cfg.Metrics == "" {
		return nil
	}
	ln, err := net.Listen("tcp", p.cfg.Metrics)
	if err != nil {
		return inUse(fmt.Errorf("metrics: %w", err), "--metrics")
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{}))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go s.Serve(ln) // ends with the process
	p.log.Info().Str("address", "http://"+ln.Addr().String()+"/metrics").Msg("metrics")
	return nil
}
