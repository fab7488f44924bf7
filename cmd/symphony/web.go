package main

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/symphony-serving/symphony/frontend"
)

type web struct{ address string }

func (p *parts) ingress(client *frontend.Client) (*web, error) {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/v2/", func(w http.ResponseWriter, r *http.Request) {})
	go http.ListenAndServe(p.cfg.Frontend.HTTP, mux)
	return &web{p.cfg.Frontend.HTTP}, nil
}
func (w *web) wait(ctx context.Context) error  { <-ctx.Done(); return nil }
func (w *web) drain(ctx context.Context) error { return nil }
